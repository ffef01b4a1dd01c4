"""What a method is: a dataclass of hyper-parameters with the few decisions that distinguish it.

The round itself (receive, train, upload, aggregate) is written once, in ``fl/rounds.py``. This file imports no torch,
so that configuration and shell completion stay fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from fgl_repro import nn
from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import Option
from fgl_repro.fl.messages import Exchange, Message

if TYPE_CHECKING:
    import numpy as np
    from torch import Generator, Tensor

    from fgl_repro.federation.world import World
    from fgl_repro.fl.clients import Clients
    from fgl_repro.nn import Neighbours
    from fgl_repro.nn.models.model import Model, Params
    from fgl_repro.nn.view import View, Views


@dataclass
class Method(Option):
    """Base of all methods; subclasses set ``name`` and override what differs from plain local training.

    Attributes:
        models: Models it can train, its paper's own first: ``model=auto`` takes that one; empty: any model, the GCN
            first.
        choices: Values that hyper-parameters given by a word may take.
        quick: Hyper-parameters under which two rounds take no time, for smoke tests.
        batched: Whether local steps may be taken on the protocol's mini-batches.
        shares_features: Whether clients see sums of each other's features before training, by the method's design.
        variant: Which of the method's versions runs; the card at the head of its file says what each changes.
    """

    axis: ClassVar[str] = "method"
    display: ClassVar[str]
    variants: ClassVar[tuple[str, ...]] = ("paper",)
    shares_features: ClassVar[bool] = False
    batched: ClassVar[bool] = True
    models: ClassVar[tuple[str, ...]] = ()
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    quick: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    variant: str = "paper"

    def check(self) -> None:
        """Refuse hyper-parameters that do not exist.

        Raises:
            UserError: ``variant`` is none of ``variants``, or another word none of its ``choices``.
        """
        self.one_of(**self.choices)
        if self.variant not in self.variants:
            raise UserError(
                f"method.variant={self.variant} does not exist for {self.name}: choose {' or '.join(self.variants)}."
            )

    def world(self, world: World) -> World:
        """What is trained on; default: what the clients have. One model for all may answer probes of many clients."""
        return world

    def network(self, model: Model) -> Model:
        """What clients train, built from the architecture of the config; default: that architecture itself."""
        return model

    def initial(self, model: Model, rng: Generator) -> Params:
        """One model's weights before round 0 (no client axis); every client starts from a copy."""
        return model.init(rng)

    def personal(self, clients: Clients) -> Params:
        """Initial trained tensors ``[K, ...]`` beyond the model's weights that belong to each client (masks, ...)."""
        return {}

    def view(self, model: Model, views: Views, world: World, rows: np.ndarray) -> View:
        """What clients compute ``rows`` of the training graph from; default: their own subgraphs."""
        view: View = model.view(views, world.graph, rows)
        return view

    def batch_view(self, clients: Clients, rows: np.ndarray) -> View:
        """What a mini-batch ``rows`` is trained on with all its neighbours; default: as ``view`` has it."""
        return self.view(clients.model, clients.views.brief, clients.world, rows)

    def neighbours(self, clients: Clients) -> Neighbours:
        """What mini-batches draw neighbours from; default: the clients' own subgraphs."""
        return nn.Neighbours.of(clients.world.graph, clients.views.device)

    def begin(self, clients: Clients) -> Exchange:
        """One-off set-up before round 0; returns what each client sent and received for it."""
        return Exchange()

    def publish(self, clients: Clients) -> Message | None:
        """The server's first message, sent down at the start of round 0; None: the method has no server."""
        return None

    def weights(self, params: Params, training: bool) -> Params:
        """Model weights ``[K, ...]`` that a forward pass uses, from all trained tensors."""
        return params

    def remember(self, clients: Clients, round: int) -> Any:
        """What clients keep of the received model through the round, e.g. a teacher's logits ``[K, r, C]``."""
        return None

    def fit(self, clients: Clients, memory: Any, round: int, epochs: int) -> Tensor:
        """Local training of one round; returns the last loss of each client ``[K]``."""
        for _ in range(epochs):
            for batch in clients.epoch():
                loss = self.loss(clients, clients.logits(), clients.recalled(memory), round)
                clients.step(loss, batch)
        return clients.last_loss

    def loss(self, clients: Clients, logits: Tensor, memory: Any, round: int) -> Tensor:
        """Local objective of each client ``[K]`` from training logits ``[K, r, C]``; default: mean cross-entropy."""
        return clients.cross_entropy(logits)

    def upload(self, clients: Clients, evaluated: Params) -> Message | None:
        """What clients send after local training; None: nothing is shared.

        Args:
            clients: Their state after the local epochs.
            evaluated: ``weights(trained, training=False)`` of that state, computed anyway for validation.
        """
        return None

    def aggregate(self, clients: Clients, upload: Message) -> Message:
        """What the server makes of the uploads and sends down, already one row per client."""
        raise NotImplementedError(f"{self.name} uploads but does not aggregate")

    def receive(self, clients: Clients, message: Message) -> None:
        """Put what came down into the clients' tensors, in place; default: replace the weights it carries."""
        clients.load(message.tensors())

    def trace(self, clients: Clients) -> dict[str, Tensor]:
        """Further curves of a round, about the method itself: tensors of one number each, fetched with the loss."""
        return {}

    def facts(self, clients: Clients) -> dict[str, Any]:
        """What the record keeps of the method's state after the last round; plain JSON types."""
        return {}
