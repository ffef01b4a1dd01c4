"""Adam over stacked clients, each with its own step count and the right to sit a step out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fgl_repro.core.lazy import torch

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from fgl_repro.nn.models.model import Params


class StackedAdam:
    """Adam (Kingma & Ba, 2015) with coupled L2 on tensors ``[K, ...]``.

    Adam is elementwise, so one fused step over the stack is K separate Adams. From the first step that a client sits
    out, every client is stepped through slices of the same tensors and has a step count of its own; weights, moments
    and count of a resting client stay put, and it costs nothing. The slices are views, listed for one fused call: many
    times as fast as a step masked over whole stacks, which computes what rest would save.
    """

    def __init__(
        self,
        params: Params,
        lr: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.params = list(params.values())
        self.lr, self.weight_decay, self.betas, self.eps = lr, weight_decay, betas, eps
        self.first = [torch.zeros_like(p) for p in self.params]
        self.second = [torch.zeros_like(p) for p in self.params]
        self.clients = self.params[0].shape[0]
        self._steps = [torch.zeros((), device=p.device) for p in self.params]
        self._ragged = False

    def step(self, grads: list[Tensor], active: np.ndarray | None = None) -> None:
        """One step with gradients in the order of ``params``; ``active`` ``[K]`` bool, None for everybody."""
        everybody = active is None or bool(active.all())
        if not everybody and not self._ragged:
            self._ragged = True
            self._steps = [count.clone() for count in self._steps for _ in range(self.clients)]
        if not self._ragged:
            self._adam(self.params, grads, self.first, self.second, self._steps)
            return
        who = [k for k in range(self.clients) if active is None or active[k]]
        each = [(t, k) for t in range(len(self.params)) for k in who]
        with torch.no_grad():
            params = [self.params[t][k] for t, k in each]
        self._adam(
            params,
            [grads[t][k] for t, k in each],
            [self.first[t][k] for t, k in each],
            [self.second[t][k] for t, k in each],
            [self._steps[t * self.clients + k] for t, k in each],
        )

    def _adam(
        self, params: list[Tensor], grads: list[Tensor], first: list[Tensor], second: list[Tensor], steps: list[Tensor]
    ) -> None:
        if not params:
            return
        from torch.optim.adam import adam

        beta1, beta2 = self.betas
        with torch.no_grad():
            adam(
                params,
                grads,
                first,
                second,
                [],
                steps,
                fused=True,
                amsgrad=False,
                beta1=beta1,
                beta2=beta2,
                lr=self.lr,
                weight_decay=self.weight_decay,
                eps=self.eps,
                maximize=False,
            )


def step(adams: Sequence[StackedAdam], loss: Tensor, active: np.ndarray | None = None) -> None:
    """One step of each optimiser from the gradient of the same losses ``[K]``."""
    grads = iter(torch.autograd.grad(loss.sum(), [p for each in adams for p in each.params]))
    for each in adams:
        each.step([next(grads) for _ in each.params], active)
