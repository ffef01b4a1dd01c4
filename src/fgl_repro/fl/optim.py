"""Adam and SGD over stacked clients, each with the right to sit a step out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from fgl_repro.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl.protocol import Protocol
    from fgl_repro.nn.models.model import Params

    Tensors = list[Tensor]


def stacked(
    params: Params,
    protocol: Protocol,
    weight_decay: float | None = None,
    owners: list[np.ndarray] | None = None,
    times: float = 1.0,
) -> Optimiser:
    """Build the protocol's optimiser over ``params`` ``[K, ...]``, at its beginning.

    Args:
        weight_decay: In place of the protocol's.
        owners: Clients of each tensor's rows; None: all of them.
        times: Its rate, as a multiple of the protocol's.
    """
    rate = times * protocol.lr
    decay = protocol.weight_decay if weight_decay is None else weight_decay
    if protocol.optimiser == "sgd":
        return StackedSGD(params, rate, decay, protocol.momentum, owners=owners)
    return StackedAdam(params, rate, decay, owners=owners)


class Optimiser(ABC):
    """An elementwise optimiser with coupled L2 on tensors ``[K, ...]``: one step over the stack is K separate ones.

    From the first step that a client sits out, every client is stepped through slices of the same tensors; weights and
    buffers of a resting client stay put, and it costs nothing. The slices are views, listed for one fused call: many
    times as fast as a step masked over whole stacks, which computes what rest would save.

    Attributes:
        params: What it moves.
        owners: Clients of each tensor's rows, int64, ascending.
        buffers: What it remembers, lists in the order of ``params``.
        counts: Steps taken: of each tensor, and of each tensor and client once clients parted ways.
    """

    def __init__(
        self, params: Params, lr: float, weight_decay: float, buffers: int, owners: list[np.ndarray] | None = None
    ) -> None:
        self.params = list(params.values())
        self.lr, self.weight_decay = lr, weight_decay
        self.buffers = [[torch.zeros_like(p) for p in self.params] for _ in range(buffers)]
        self.counts = [torch.zeros((), device=p.device) for p in self.params]
        self.owners = owners or [np.arange(self.params[0].shape[0])] * len(self.params)
        self.clients = 1 + max(int(own[-1]) for own in self.owners)
        self._ragged = False
        self._places: list[list[tuple[int, int]]] = []

    def passed_on(self) -> Optimiser:
        """Make this optimiser, before its first step, one for all: what it remembers of a client goes on to the next.

        In a fleet it goes on to the next client with such tensors.
        """
        self.buffers = [[buffer[:1].clone() for buffer in kind] for kind in self.buffers]
        each = range(self.clients)
        self._places = [
            [(t, int(i)) for t, own in enumerate(self.owners) for i in np.flatnonzero(own == k)] for k in each
        ]
        return self

    def only(self, params: Params, which: np.ndarray) -> Optimiser:
        """Cut this optimiser down to clients ``which``, int64 ``[K']``, with tensors ``params``; all took each step."""
        assert not self._ragged, "clients parted ways"
        assert not self._places, "clients share what it remembers"
        out = copy(self)
        out.params, out.clients = list(params.values()), len(which)
        rows = torch.from_numpy(which).to(self.params[0].device)
        out.buffers = [[buffer[rows] for buffer in kind] for kind in self.buffers]
        out.owners = [np.arange(out.clients)] * len(out.params)
        return out

    def step(self, grads: list[Tensor], active: np.ndarray | None = None) -> None:
        """Take one step with gradients in the order of ``params``; ``active`` ``[K]`` bool, None for everybody."""
        if not (self._ragged or self._places or active is None or active.all()):
            self._ragged = True
            self.counts = [count.clone() for count, own in zip(self.counts, self.owners, strict=True) for _ in own]
        with torch.no_grad():
            if self._places:
                for k in (k for k in range(self.clients) if active is None or active[k]):
                    held = self._places[k]
                    params, steps = ([tensors[t][i : i + 1] for t, i in held] for tensors in (self.params, grads))
                    buffers = [[kind[t] for t, _ in held] for kind in self.buffers]
                    self._move(params, steps, buffers, [self.counts[t] for t, _ in held])
                return
            if not self._ragged:
                self._move(self.params, grads, self.buffers, self.counts)
                return
            rows = ((t, i, k) for t, own in enumerate(self.owners) for i, k in enumerate(own))
            each = [(n, t, i) for n, (t, i, k) in enumerate(rows) if active is None or active[k]]
            if each:
                lists = [[tensors[t][i] for _, t, i in each] for tensors in (self.params, grads, *self.buffers)]
                self._move(lists[0], lists[1], lists[2:], [self.counts[n] for n, _, _ in each])

    @abstractmethod
    def _move(self, params: Tensors, grads: Tensors, buffers: list[Tensors], counts: Tensors) -> None:
        """Step the listed tensors."""


class StackedAdam(Optimiser):
    """Adam (Kingma & Ba, 2015) with the usual betas 0.9 (or ``beta``), 0.999 and epsilon 1e-8."""

    def __init__(
        self,
        params: Params,
        lr: float,
        weight_decay: float = 0.0,
        beta: float = 0.9,
        owners: list[np.ndarray] | None = None,
    ) -> None:
        super().__init__(params, lr, weight_decay, 2, owners)
        self.beta = beta

    def _move(self, params: Tensors, grads: Tensors, buffers: list[Tensors], counts: Tensors) -> None:
        from torch.optim.adam import adam

        adam(
            params,
            grads,
            buffers[0],
            buffers[1],
            [],
            counts,
            fused=True,
            amsgrad=False,
            beta1=self.beta,
            beta2=0.999,
            lr=self.lr,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )


class StackedSGD(Optimiser):
    """SGD with momentum as torch has it: v <- mu v + g, theta <- theta - lr v; v starts at 0."""

    def __init__(
        self,
        params: Params,
        lr: float,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        owners: list[np.ndarray] | None = None,
    ) -> None:
        super().__init__(params, lr, weight_decay, 1 if momentum else 0, owners)
        self.momentum = momentum

    def _move(self, params: Tensors, grads: Tensors, buffers: list[Tensors], counts: Tensors) -> None:
        from torch.optim.sgd import sgd

        directions: list[Tensor | None] = [*buffers[0]] if buffers else [None] * len(params)
        sgd(
            params,
            grads,
            directions,
            fused=True,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=self.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
