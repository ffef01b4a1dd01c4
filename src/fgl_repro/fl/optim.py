"""Adam and SGD over stacked clients, each with the right to sit a step out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from fgl_repro.core.lazy import torch

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from fgl_repro.fl.protocol import Protocol
    from fgl_repro.nn.models.model import Params


def stacked(params: Params, protocol: Protocol, weight_decay: float | None = None) -> Optimiser:
    """The protocol's optimiser over ``params`` ``[K, ...]``, at its beginning.

    Args:
        weight_decay: In place of the protocol's.
    """
    decay = protocol.weight_decay if weight_decay is None else weight_decay
    if protocol.optimiser == "sgd":
        return StackedSGD(params, protocol.lr, decay, protocol.momentum)
    return StackedAdam(params, protocol.lr, decay)


class Optimiser(ABC):
    """An elementwise optimiser with coupled L2 on tensors ``[K, ...]``: one step over the stack is K separate ones.

    From the first step that a client sits out, every client is stepped through slices of the same tensors; weights and
    buffers of a resting client stay put, and it costs nothing. The slices are views, listed for one fused call: many
    times as fast as a step masked over whole stacks, which computes what rest would save.

    Attributes:
        params: What it moves.
        buffers: What it remembers, lists in the order of ``params``.
    """

    def __init__(self, params: Params, lr: float, weight_decay: float, buffers: int) -> None:
        self.params = list(params.values())
        self.lr, self.weight_decay = lr, weight_decay
        self.buffers = [[torch.zeros_like(p) for p in self.params] for _ in range(buffers)]
        self.clients = self.params[0].shape[0]
        self._ragged = False

    def step(self, grads: list[Tensor], active: np.ndarray | None = None) -> None:
        """One step with gradients in the order of ``params``; ``active`` ``[K]`` bool, None for everybody."""
        if not self._ragged and active is not None and not active.all():
            self._ragged = True
            self._part()
        with torch.no_grad():
            if not self._ragged:
                self._move(self.params, grads, self.buffers, range(len(self.params)))
                return
            who = [k for k in range(self.clients) if active is None or active[k]]
            each = [(t, k) for t in range(len(self.params)) for k in who]
            if each:
                lists = [[tensors[t][k] for t, k in each] for tensors in (self.params, grads, *self.buffers)]
                self._move(lists[0], lists[1], lists[2:], [t * self.clients + k for t, k in each])

    def _part(self) -> None:  # noqa: B027 (most remember nothing of all clients together)
        """Called once, when clients part ways: what is remembered of all together gets an entry a client and tensor."""

    @abstractmethod
    def _move(
        self, params: list[Tensor], grads: list[Tensor], buffers: list[list[Tensor]], which: range | list[int]
    ) -> None:
        """Step the listed tensors; ``which`` numbers them: tensors, or tensors times clients once those parted."""


class StackedAdam(Optimiser):
    """Adam (Kingma & Ba, 2015); step counts are the clients' own once they part ways."""

    def __init__(
        self,
        params: Params,
        lr: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, lr, weight_decay, buffers=2)
        self.betas, self.eps = betas, eps
        self._steps = [torch.zeros((), device=p.device) for p in self.params]

    def _part(self) -> None:
        self._steps = [count.clone() for count in self._steps for _ in range(self.clients)]

    def _move(
        self, params: list[Tensor], grads: list[Tensor], buffers: list[list[Tensor]], which: range | list[int]
    ) -> None:
        from torch.optim.adam import adam

        beta1, beta2 = self.betas
        adam(
            params,
            grads,
            buffers[0],
            buffers[1],
            [],
            [self._steps[i] for i in which],
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=self.lr,
            weight_decay=self.weight_decay,
            eps=self.eps,
            maximize=False,
        )


class StackedSGD(Optimiser):
    """SGD with momentum as torch has it: v <- mu v + g, theta <- theta - lr v; v starts at 0."""

    def __init__(self, params: Params, lr: float, weight_decay: float = 0.0, momentum: float = 0.0) -> None:
        super().__init__(params, lr, weight_decay, buffers=1 if momentum else 0)
        self.momentum = momentum

    def _move(
        self, params: list[Tensor], grads: list[Tensor], buffers: list[list[Tensor]], which: range | list[int]
    ) -> None:
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
