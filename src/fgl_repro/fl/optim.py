"""Adam over stacked clients, each with its own step count and the right to sit a step out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.optim.adam import adam

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.nn.gcn import Params


class StackedAdam:
    """Adam (Kingma & Ba, 2015) with coupled L2 on tensors ``[K, ...]``.

    Adam is elementwise, so one fused step over the stack is K separate Adams. When some clients are inactive their
    weights, moments and step counts stay put.
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
        device = self.params[0].device
        self.steps = torch.zeros(self.params[0].shape[0], device=device)
        self._uniform: list[Tensor] | None = [torch.zeros((), device=device) for _ in self.params]

    @torch.no_grad()
    def step(self, grads: list[Tensor], active: Tensor | None = None) -> None:
        """One step with gradients in the order of ``params``; ``active`` ``[K]`` bool, None for everybody."""
        if active is None and self._uniform is not None:
            self.steps += 1
            adam(
                self.params,
                grads,
                self.first,
                self.second,
                [],
                self._uniform,
                fused=True,
                amsgrad=False,
                beta1=self.betas[0],
                beta2=self.betas[1],
                lr=self.lr,
                weight_decay=self.weight_decay,
                eps=self.eps,
                maximize=False,
            )
            return
        self._uniform = None
        self._masked(grads, torch.ones_like(self.steps, dtype=torch.bool) if active is None else active)

    def _masked(self, grads: list[Tensor], active: Tensor) -> None:
        beta1, beta2 = self.betas
        self.steps += active
        count = self.steps.clamp_min(1)
        bias1, bias2 = 1 - beta1**count, 1 - beta2**count
        for p, g, m, v in zip(self.params, grads, self.first, self.second, strict=True):
            shape = (-1, *[1] * (p.dim() - 1))
            on = active.view(shape)
            g = g + self.weight_decay * p
            m.copy_(torch.where(on, beta1 * m + (1 - beta1) * g, m))
            v.copy_(torch.where(on, beta2 * v + (1 - beta2) * g * g, v))
            root = (v / bias2.view(shape)).sqrt() + self.eps
            p.sub_(torch.where(on, self.lr / bias1.view(shape) * m / root, torch.zeros_like(p)))
