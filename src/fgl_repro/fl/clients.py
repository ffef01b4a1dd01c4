"""K clients as one object: stacked trained tensors, their optimiser, their training data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.core.streams import numpy_rng, torch_rng
from fgl_repro.fl.batches import Batch, Batches
from fgl_repro.fl.optim import StackedAdam, step
from fgl_repro.nn.models.model import Model, Params
from fgl_repro.nn.ops import stack
from fgl_repro.nn.sampling import Neighbours

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph, World
    from fgl_repro.fl.method import Method
    from fgl_repro.fl.protocol import Protocol
    from fgl_repro.nn.view import View, Views


class Clients:
    """State of all clients.

    Attributes:
        world: What they train on.
        model: The stacked architecture.
        params: Model weights, ``[K, ...]`` leaves; equal for all clients at the start.
        personal: Further trained tensors of the method, ``[K, ...]`` leaves.
        train: View of the training rows; of those of the current batch while clients train on mini-batches.
        validation: View of the validation rows.
        class_counts: Training nodes per client and class, float ``[K, C]``.
        prior: Local class shares p_c, ``[K, C]``.
        samples: Training nodes per client, float ``[K]``.
        shared: View of data that the server sent to everybody, if the method has any.
        last_loss: Loss of each client at its last local step ``[K]``.
        state: What else the method keeps between rounds, in a type of its own.
        seed: Run seed, for the method's own named streams.
    """

    shared: View
    state: Any
    last_loss: Tensor

    def __init__(self, world: World, model: Model, method: Method, protocol: Protocol, seed: int, views: Views):
        device = views.device
        self.world, self.method, self.seed, self.views = world, method, seed, views
        self.model = method.network(model)
        self.protocol = protocol
        self.count = world.num_clients
        self.train = method.view(self.model, views, world, world.train)
        self.validation = self.judged(world.validation.rows)
        self.class_counts = torch.from_numpy(world.class_counts.astype(np.float32)).to(device)
        self.samples = self.class_counts.sum(1)
        self.prior = self.class_counts / self.samples.unsqueeze(1)
        initial = method.initial(self.model, torch_rng("init", seed))
        self.params = _leaves(stack(initial, self.count), device)
        self.personal = _leaves(method.personal(self), device)
        self._dropout = torch_rng("dropout", seed, str(device))
        self._first: Tensor | None = None
        self._columns: Tensor | None = None

    @cached_property
    def adam(self) -> StackedAdam:
        """The clients' optimiser over all they train, with the protocol's settings; its moments outlive a round."""
        return StackedAdam(self.trained, self.protocol.lr, self.protocol.weight_decay)

    @property
    def trained(self) -> Params:
        """Everything the optimiser moves: model weights and personal tensors."""
        return {**self.params, **self.personal}

    def logits(self) -> Tensor:
        """Training-mode logits of the training rows, ``[K, r, C]``."""
        first, self._first = self._first, None
        return self.model(self.method.weights(self.trained, training=True), self.train, self._dropout, first)

    def frozen_logits(self) -> Tensor:
        """Evaluation-mode logits of the training rows without gradient: a teacher, ``[K, r, C]``.

        Teacher and student of a round start from the same weights and differ only from the first dropout on, so the
        first layer is computed once, here, and kept for the next call of ``logits``.
        """
        weights = self.method.weights(self.trained, training=True)
        self._first = self.model.first(weights, self.train)
        with torch.no_grad():
            return self.model(weights, self.train, first=self._first)

    def mean(self, values: Tensor) -> Tensor:
        """Mean over each client's training rows: ``[K, r] -> [K]``."""
        return self.train.mean(values)

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """Mean cross-entropy over each client's training rows, ``[K]``."""
        flat = F.cross_entropy(logits.flatten(0, 1), self.train.labels.flatten(), reduction="none")
        return self.mean(flat.view_as(self.train.mask))

    def step(self, loss: Tensor, batch: Batch | None = None) -> None:
        """One Adam step from losses ``[K]``, client k's reaching only client k's rows, for the clients of ``batch``."""
        self._first = None
        step([self.adam], loss, batch.active if batch else None)
        loss = loss.detach()
        if batch is not None and not batch.active.all():
            loss = torch.where(torch.from_numpy(batch.active).to(loss.device), loss, self.last_loss)
        self.last_loss = loss

    def judged(self, rows: np.ndarray) -> View:
        """What ``rows`` of the training graph are predicted from when models are judged."""
        if self.model.test_fanout:
            return self.asked(self.world.graph, rows)
        return self.method.view(self.model, self.views, self.world, rows)

    def asked(self, graph: UnionGraph, rows: np.ndarray) -> View:
        """What ``rows`` of any graph are predicted from: all neighbours, or a few, drawn once for the whole run."""
        if not self.model.test_fanout:
            view: View = self.model.view(self.views, graph, rows)
            return view
        draws = numpy_rng("test-neighbours", self.seed).random((len(rows), numbers(self.model.test_fanout)), np.float32)
        return Neighbours.of(graph, self.views.device).view(rows, draws)

    @property
    def sampled(self) -> bool:
        """Whether local steps are taken on drawn neighbours, never on ``train`` as a whole."""
        return bool(self.model.fanout and self.protocol.batch)

    @cached_property
    def _batches(self) -> Batches:
        draws = numbers(self.model.fanout)
        return Batches(self.world, self.protocol.batch, self.seed, self.protocol.remainder, draws)

    @cached_property
    def _neighbours(self) -> Neighbours:
        return self.method.neighbours(self)

    def epoch(self) -> Iterator[Batch | None]:
        """The local steps of one epoch: a single one on everything (None), or mini-batches, each in ``train``."""
        if not self.protocol.batch:
            yield None
            return
        everything, self._first = self.train, None
        self.last_loss = torch.zeros_like(self.samples)
        for batch in self._batches.epoch():
            self.train = self._view(batch)
            places = everything.slots[
                torch.from_numpy(np.searchsorted(self.world.train, batch.rows)).to(everything.slots.device)
            ]
            columns = torch.zeros(self.train.mask.numel(), dtype=torch.int64, device=places.device)
            columns[self.train.slots] = places % everything.mask.shape[1]
            self._columns = columns.view(self.train.mask.shape)
            yield batch
        self.train, self._columns = everything, None

    def _view(self, batch: Batch) -> View:
        if self.model.fanout:
            return self._neighbours.view(batch.rows, batch.draws)
        return self.method.batch_view(self, batch.rows)

    def recalled(self, memory: Any) -> Any:
        """The part of a memory with one entry a training row ``[K, r, ...]`` that concerns the current batch."""
        if self._columns is None or not isinstance(memory, Tensor):
            return memory
        shape = (*self._columns.shape, *memory.shape[2:])
        return memory.gather(1, self._columns.view(*self._columns.shape, *[1] * (memory.dim() - 2)).expand(shape))

    @torch.no_grad()
    def load(self, weights: Params) -> None:
        """Overwrite the named tensors in place; moments of the optimiser stay (clients keep them across rounds)."""
        self._first = None
        for name, value in weights.items():
            self.params[name].copy_(value)


def numbers(fan: int) -> int:
    """How many random numbers choose the neighbours of a node and theirs."""
    return fan + fan * fan


def _leaves(params: Params, device: torch.device) -> Params:
    return {name: value.to(device).requires_grad_() for name, value in params.items()}
