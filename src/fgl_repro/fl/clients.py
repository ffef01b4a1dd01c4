"""K clients as one object: stacked trained tensors, their optimiser, what they see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import torch_rng
from fgl_repro.fl.batches import Batches
from fgl_repro.fl.inputs import Inputs, draws_of
from fgl_repro.fl.optim import Optimiser, stacked
from fgl_repro.fl.steps import LocalStep, Loss, Teacher, Watch, descend
from fgl_repro.nn.models.model import Layered, Model, Params
from fgl_repro.nn.ops import stack
from fgl_repro.nn.view import Views

if TYPE_CHECKING:
    from fgl_repro.federation.world import World
    from fgl_repro.fl.protocol import Protocol
    from fgl_repro.fl.start import Starter
    from fgl_repro.nn.view import View


class Clients:
    """What every method's clients have; what one method keeps beside is in the state that its hooks are given.

    Attributes:
        inputs: What they see.
        world: What they train on.
        index: Their numbers among all clients of the run, ascending.
        model: The stacked network.
        params: Model weights, ``[K, ...]`` leaves; equal for all clients at the start.
        personal: Further trained tensors of the method, ``[K, ...]`` leaves.
        validation: View of the validation rows.
        class_counts: Training nodes per client and class, float ``[K, C]``.
        prior: Local class shares p_c, ``[K, C]``.
        samples: Training nodes per client, float ``[K]``.
        nodes: All nodes per client, float ``[K]``.
        protocol: Rules of training.
        present: Clients that take part in the round, bool ``[K]``; None: everybody. The others take no local steps and
            load nothing.
        seed: Run seed, for the method's own named streams.
    """

    def __init__(
        self, method: Starter, model: Model, world: World, protocol: Protocol, seed: int, views: Views
    ) -> None:
        device = views.device
        start = method.start(model, seed)
        self.model, self.protocol, self.seed, self.views = start.network, protocol, seed, views
        self.inputs = method.inputs(Inputs(world, start.network, views, seed))
        self.world = self.inputs.world
        self.count = self.world.num_clients
        self.index = np.arange(self.count)
        self.validation = self.inputs.evaluation_view(self.world.validation.rows)
        self.class_counts = torch.from_numpy(self.world.class_counts.astype(np.float32)).to(device)
        self.samples = self.class_counts.sum(1)
        self.nodes = torch.from_numpy(np.diff(self.world.graph.ptr).astype(np.float32)).to(device)
        self.prior = self.class_counts / self.samples.unsqueeze(1)
        held = {name: len(self.model.holders(name, self.count)) for name in start.weights}
        stacks = {name: stack({name: value}, held[name])[name] for name, value in start.weights.items()}
        self.params = _leaves(stacks, device)
        self.personal = _leaves(stack(start.personal, self.count), device)
        self.present: np.ndarray | None = None
        self._dropout = torch_rng("dropout", seed, str(device))

    def holders(self, name: str) -> np.ndarray:
        """Return the clients that have a trained tensor, ascending: row i of it is that of the i-th."""
        return self.model.holders(name, self.count)

    @property
    def device(self) -> torch.device:
        """Where they train."""
        return self.views.device

    @property
    def owners(self) -> list[np.ndarray]:
        """Holders of every trained tensor, in their order."""
        return [self.holders(name) for name in self.trained]

    @property
    def trained(self) -> Params:
        """Everything the optimiser moves: model weights and personal tensors."""
        return {**self.params, **self.personal}

    @contextmanager
    def taking_part(self, present: np.ndarray | None) -> Iterator[None]:
        """Let some clients alone train, load and count in means, bool ``[K]``; None: everybody."""
        self.present = present
        try:
            yield
        finally:
            self.present = None

    @property
    def takes_part(self) -> np.ndarray:
        """Who takes part in the round, bool ``[K]``."""
        return np.ones(self.count, dtype=bool) if self.present is None else self.present

    def those_present(self, values: Tensor) -> Tensor:
        """Pick from one value a client ``[K]`` those of clients that take part in the round, ``[K']``."""
        return values if self.present is None else values[torch.from_numpy(self.present).to(values.device)]

    def weighed(self, share: Tensor) -> Tensor:
        """Weigh the clients in a mean by ``share`` ``[K]``, those that sit the round out by 0."""
        return share if self.present is None else share * torch.from_numpy(self.present).to(share)

    def optimiser(self) -> Optimiser:
        """Return the clients' optimiser over all they train: the same in all rounds, or a new one, by the protocol."""
        return self._new() if self.protocol.moments == "each_round" else self._kept

    def _new(self) -> Optimiser:
        return stacked(self.trained, self.protocol, owners=self.owners)

    @cached_property
    def _kept(self) -> Optimiser:
        own = self._new()
        return own.passed_on() if self.protocol.moments == "shared" else own

    def optimiser_of(self, part: str, params: Params, times: float = 1.0) -> Optimiser:
        """Give an optimiser, kept or new as the protocol says, over a ``part`` of what is trained.

        It is for methods whose parts step in turn, all clients at once and each with moments of its own. Its rate is so
        many ``times`` the protocol's.

        Raises:
            UserError: Clients have different architectures, or share one optimiser.
        """
        if self.model.kinds > 1 or self.protocol.moments == "shared":
            raise UserError(
                "a method whose parts step in turn is for clients of one architecture with optimisers of their own: "
                "its class says own_optimisers = True, and fleets = False."
            )
        if self.protocol.moments == "each_round":
            return stacked(params, self.protocol, times=times)
        if part not in self._parts:
            self._parts[part] = stacked(params, self.protocol, times=times)
        return self._parts[part]

    @cached_property
    def _parts(self) -> dict[str, Optimiser]:
        return {}

    @cached_property
    def _batches(self) -> Batches | None:
        if not self.protocol.batch:
            return None
        draws = draws_of(self.model.fanout)
        return Batches(self.world, self.protocol.batch, self.seed, self.protocol.remainder, draws, self.protocol.steps)

    @property
    def separable(self) -> bool:
        """Whether a client's training gives the same without the other clients.

        They have one architecture, see their own subgraphs alone, and neither dropout, neighbours nor batches are drawn
        from a stream that all share.
        """
        model, plain = self.model, type(self.inputs) is Inputs
        still = isinstance(model, Layered) and not (model.dropout or model.fanout or model.test_fanout)
        return plain and still and not self.protocol.batch

    def only(self, which: np.ndarray) -> Clients:
        """Pick clients by their places here, int64 ``[K']``, ascending, with copies of what they train."""
        out = copy(self)
        for made in ("_kept", "_parts", "_batches"):
            vars(out).pop(made, None)
        out.views = Views(self.device)
        out.world = self.world.of_clients(which)
        out.inputs = Inputs(out.world, self.model, out.views, self.seed)
        out.validation = out.inputs.evaluation_view(out.world.validation.rows)
        out.index, out.count = self.index[which], len(which)
        rows = torch.from_numpy(which).to(self.device)
        for name in ("class_counts", "samples", "nodes", "prior"):
            setattr(out, name, getattr(self, name)[rows])
        out.params, out.personal = (
            {name: value.detach()[rows].requires_grad_() for name, value in part.items()}
            for part in (self.params, self.personal)
        )
        return out

    def among(self, values: Tensor, view: View) -> Tensor:
        """Pick the rows of these clients out of ``values`` ``[K, r, ...]``, cut to the width of ``view``.

        Args:
            values: What a view of the same rows of all clients gave.
        """
        return values[torch.from_numpy(self.index).to(values.device), : view.mask.shape[1]]

    def steps(
        self,
        epochs: int,
        inputs: Inputs | None = None,
        batches: Batches | None = None,
        going: np.ndarray | None = None,
    ) -> Iterator[LocalStep]:
        """Yield the local steps: one an epoch on everything (or as many as the protocol says), or mini-batches.

        Args:
            inputs: What the rows are computed from; None: the clients' own.
            batches: Draws of mini-batches; None: the protocol's.
            going: Clients that take them, of those that take part in the round, bool ``[K]``; None: all of these.
        """
        inputs, batches, first = inputs or self.inputs, batches or self._batches, True
        present, owner = self.present, self.world.graph.owner
        if present is not None:
            going = present if going is None else present & going
        for _ in range(epochs):
            for batch in [None] * (self.protocol.steps or 1) if batches is None else batches.epoch():
                if batch is None:
                    yield LocalStep(going, inputs.train, first=first)
                else:
                    some = batch if present is None else batch.only(present, owner)  # the others' rows cost nothing
                    active = some.active if going is None else some.active & going
                    if present is not None and not active.any():
                        continue
                    yield LocalStep(active, inputs.batch(some), some, first)
                first = False

    def train(self, loss: Loss, epochs: int, inputs: Inputs | None = None, watch: Watch | None = None) -> Tensor:
        """Train for the local epochs of one round with the clients' optimiser; return each client's last loss ``[K]``.

        Clients that share one optimiser train in turn, each all of its epochs.
        """
        steps = self.steps(epochs, inputs)
        if self.protocol.moments == "shared":
            alone = np.eye(self.count, dtype=bool)
            alone = alone if self.present is None else alone[self.present]
            turns = (self.steps(epochs, inputs, going=one) for one in alone)
            steps = chain.from_iterable(turns)
        return descend(steps, loss, [self.optimiser()], watch)

    def logits(self, step: LocalStep, teacher: Teacher | None = None, params: Params | None = None) -> Tensor:
        """Compute training-mode logits of the rows of a step, ``[K, r, C]``, of what is trained or of other ``params``.

        A teacher hands its first layer on, if it can.
        """
        once = step.first and step.active is None and step.batch is None  # clients in turn would need it again
        handed_on = teacher.first if teacher and once else None
        return self.model(self.trained if params is None else params, step.view, self._dropout, handed_on)

    def teacher(self) -> Teacher:
        """Take the models as they are now as teachers on all training rows."""
        view = self.inputs.train
        first = self.model.first(self.trained, view)
        with torch.no_grad():
            return Teacher(self.model(self.trained, view, first=first), first, view, self.world.train)

    @torch.no_grad()
    def load(self, weights: Params) -> None:
        """Overwrite the named tensors of those that take part in place; the optimiser's moments stay with the clients.

        Raises:
            UserError: Clients train no tensor of that name.
        """
        trained = self.trained
        for name, value in weights.items():
            if name not in trained:
                raise UserError(f"clients have no weights called {name}: theirs are {', '.join(trained)}.")
            own = trained[name]
            if self.present is None:
                own.copy_(value)
            else:
                rows = torch.from_numpy(self.present[self.holders(name)]).to(own.device)
                own[rows] = value.expand_as(own)[rows]


def _leaves(params: Params, device: torch.device) -> Params:
    return {name: value.to(device).requires_grad_() for name, value in params.items()}
