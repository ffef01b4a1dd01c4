"""Local training: one loop over steps that all clients take together, whatever the loss and the optimisers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from fgl_repro.fl.batches import Batch
    from fgl_repro.fl.optim import Optimiser
    from fgl_repro.nn.view import View


@dataclass(frozen=True)
class Step:
    """One local step: ``active`` are the clients that take it, bool ``[K]``; None: all of them."""

    active: np.ndarray | None


@dataclass(frozen=True)
class LocalStep(Step):
    """A step on the clients' own training rows.

    Attributes:
        view: What the rows of the step are computed from, ``[K, r]`` of them.
        batch: The mini-batch; None: all training rows.
        first: Whether the models are still as the round found them.
    """

    view: View
    batch: Batch | None = None
    first: bool = False

    def mean(self, values: Tensor) -> Tensor:
        """Average over each client's rows: ``[K, r] -> [K]``."""
        return self.view.mean(values)

    def task_loss(self, logits: Tensor) -> Tensor:
        """Average the cross-entropy over each client's rows ``[K]``, from logits ``[K, r, C]``.

        Where numbers are predicted, average the squared error.
        """
        if self.view.numbers is not None:
            return self.mean((logits.squeeze(-1) - self.view.numbers).square())
        flat = F.cross_entropy(logits.flatten(0, 1), self.view.labels.flatten(), reduction="none")
        return self.mean(flat.view_as(self.view.mask))


S = TypeVar("S", bound=Step)
Loss = Callable[[LocalStep], Tensor]
"""Local objective of each client ``[K]`` at a step."""


Watch = Callable[[Sequence[Tensor], np.ndarray | None], None]
"""Shown the gradients ``[K, ...]`` of a step, before it is taken, and who takes it."""


def descend(
    steps: Iterable[S], loss: Callable[[S], Tensor], optimisers: Sequence[Optimiser], watch: Watch | None = None
) -> Tensor:
    """Take every step with every optimiser; returns each client's loss at its last step ``[K]``, without gradient.

    Client k's loss touches client k's rows and tensors only, so the gradient of the sum is each client's own. A tensor
    that the loss does not read (FedLoG's classifier of the warm-up, in fine-tuning) has gradient 0.
    """
    last: Tensor | None = None
    params = [p for each in optimisers for p in each.params]
    for step in steps:
        found = loss(step)
        all_grads = torch.autograd.grad(found.sum(), params, materialize_grads=True)
        if watch is not None:
            watch(all_grads, step.active)
        grads = iter(all_grads)
        for each in optimisers:
            each.step([next(grads) for _ in each.params], step.active)
        found = found.detach()
        if step.active is not None and not step.active.all():
            before = torch.zeros_like(found) if last is None else last
            found = torch.where(torch.from_numpy(step.active).to(found.device), found, before)
        last = found
    if last is None:
        raise ValueError("there was no step to take")
    return last


@dataclass(frozen=True)
class Teacher:
    """What the received models say of the training rows, in evaluation mode and without gradient.

    Teacher and student of a round start from the same weights and differ only from the first dropout on, so that the
    first layer is computed once and handed on to the student's first step on all rows.

    Attributes:
        logits: ``[K, R, C]``.
        first: Output of the first layer with its gradient, ``[K, n, H]``.
        view: Of all training rows.
        train: Union nodes of these rows, int64.
    """

    logits: Tensor
    first: Tensor
    view: View
    train: np.ndarray

    def of(self, step: LocalStep) -> Tensor:
        """Look up the teacher's logits of the rows of a step, ``[K, r, C]``."""
        if step.batch is None:
            return self.logits
        slots = self.view.slots
        places = slots[torch.from_numpy(np.searchsorted(self.train, step.batch.rows)).to(slots.device)]
        columns = torch.zeros(step.view.mask.numel(), dtype=torch.int64, device=places.device)
        columns[step.view.slots] = places % self.logits.shape[1]
        index = columns.view(*step.view.mask.shape, 1)
        return self.logits.gather(1, index.expand(*step.view.mask.shape, self.logits.shape[2]))
