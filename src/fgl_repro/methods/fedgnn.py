"""FedGNN: clients average gradients, and see the neighbours that other clients know of nodes they share.

Paper: Wu et al., "FedGNN: Federated Graph Neural Network for Privacy-Preserving Recommendation", 2021: users' graphs
are widened by the embeddings of users with the same items, matched by a third party, and gradients (blurred by noise
and pseudo items) are averaged by data size. FED-PUB's supplement lists it as a baseline by name only (B.2), its code
does not hold it, and a node classifier has neither items nor users: everything below is our reading.

* Widening: a client's graph gets the neighbours of its nodes on edges that some other client holds, with their features
  and the edges that any client holds among them. Clients without common nodes hold no such edge: nothing is widened.
* Averaging, by variant:
      gradients  one gradient a round, weighted by training nodes; every client takes the same Adam step with it, so all
                 have one model. Local epochs are then meaningless: one, whatever the protocol says.
      weights    as FedAvg by training nodes, with the protocol's local epochs.

Not done: noise and pseudo items. Bytes of the widening (features, once) are a mean over clients.
Tables: FED-PUB 2, 3, 4, 7.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fgl_repro.core.lazy import lazy, torch
from fgl_repro.fl.inputs import Inputs
from fgl_repro.fl.messages import Features, Message, Weights
from fgl_repro.fl.mixing import average
from fgl_repro.fl.phase import Phase, Turn
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.fedgcn import halo
    from fgl_repro.methods.fedgcn.halo import Widened
    from fgl_repro.nn.models.model import Params
    from fgl_repro.nn.view import View, Views
else:
    halo = lazy("fgl_repro.methods.fedgcn.halo")


@dataclass(frozen=True)
class WidenedInputs(Inputs):
    """Own rows in the widened graphs."""

    def widened(self) -> Widened:
        """The clients' widened graphs, made once."""
        return self.views.once(self.world.graph, "widened", lambda: halo.widened(self.world.graph))

    def cut(self, views: Views, rows: np.ndarray) -> View:
        wider = self.widened()
        view: View = self.model.view(views, wider.graph, wider.own[rows])
        return view


@dataclass
class Gradients(Message):
    """Gradients by the names of the weights, ``[K, ...]`` each."""

    gradients: Params


@dataclass
class State:
    """The clients' gradients of the round, by the names of the weights, ``[K, ...]``."""

    gradients: Params = field(default_factory=dict)


@dataclass
class FedGNN(FedAvg[State]):
    name: ClassVar[str] = "fedgnn"
    display: ClassVar[str] = "FedGNN"
    variants: ClassVar[tuple[str, ...]] = ("gradients", "weights")
    shares_features: ClassVar[bool] = True
    batched: ClassVar[bool] = False

    variant: str = "gradients"

    def inputs(self, own: Inputs) -> Inputs:
        return WidenedInputs(own.world, own.model, own.views, own.seed)

    def state(self, clients: Clients) -> State:
        return State()

    def phases(self, clients: Clients, state: State) -> Iterable[Phase]:
        assert isinstance(clients.inputs, WidenedInputs)
        held = np.diff(clients.world.graph.ptr)
        added = np.diff(clients.inputs.widened().graph.ptr) - held
        if added.any():
            yield Phase("setup", 1, lambda *_: Turn(down=Features(4 * clients.model.num_features * added)))

    def fit(self, clients: Clients, state: State, round: int, epochs: int) -> Tensor:
        if self.variant == "weights":
            return super().fit(clients, state, round, epochs)
        loss = self.objective(clients, state, round)(next(clients.steps(1)))
        found = torch.autograd.grad(loss.sum(), list(clients.params.values()))
        state.gradients = dict(zip(clients.params, found, strict=True))
        return loss.detach()

    def upload(self, clients: Clients, state: State) -> Message:
        return Weights(clients.params) if self.variant == "weights" else Gradients(state.gradients)

    def aggregate(self, clients: Clients, state: State, upload: Message) -> Message:
        if isinstance(upload, Gradients):
            return Gradients(average(upload.gradients, clients.samples))
        return Weights(average(upload.tensors(), clients.samples))

    def receive(self, clients: Clients, state: State, message: Message) -> None:
        if isinstance(message, Gradients):
            clients.optimiser().step([message.gradients[name].contiguous() for name in clients.params])
        else:
            super().receive(clients, state, message)
