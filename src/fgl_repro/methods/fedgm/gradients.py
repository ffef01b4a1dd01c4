"""Gradients of a two-layer GCN, class by class, written out: they are matched, and so have to be differentiable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.nn.models.model import Params
from fgl_repro.nn.ops import fan_in
from fgl_repro.nn.sparse import SparseOp, product


@dataclass(frozen=True)
class Map:
    """A matrix by what it does: ``forward(x)`` is M x, ``back(x)`` is M^T x."""

    forward: Callable[[Tensor], Tensor]
    back: Callable[[Tensor], Tensor]

    @staticmethod
    def dense(matrix: Tensor) -> Map:
        return Map(lambda x: matrix @ x, lambda x: matrix.T @ x)

    def after(self, other: Map) -> Map:
        """Return the product of this matrix and the other."""
        return Map(lambda x: self.forward(other.forward(x)), lambda x: other.back(self.back(x)))

    @staticmethod
    def sparse(matrix: SparseOp) -> Map:
        """Make the map of a constant, through which no gradient passes."""
        return Map(lambda x: product(matrix.forward, x), lambda x: product(matrix.transpose, x))


@dataclass(frozen=True)
class Data:
    """Labelled rows as a network sees them: propagated features ``[n, d]``, propagation ``[r, n]``, labels ``[r]``."""

    features: Map
    around: Map
    labels: Tensor


def random_weights(width: int, hidden: int, classes: int, rng: torch.Generator, device: torch.device) -> Params:
    """Draw a GCN's weights as the code does: all from U(-1 / sqrt(in), 1 / sqrt(in))."""
    out = {"W1": fan_in((width, hidden), width, rng), "b1": fan_in((hidden,), width, rng)}
    out |= {"W2": fan_in((hidden, classes), hidden, rng), "b2": fan_in((classes,), hidden, rng)}
    return {name: value.to(device) for name, value in out.items()}


def by_class(weights: Params, data: Data, chosen: Tensor) -> Params:
    """Differentiate the mean cross-entropy over the rows of each class, ``{name: [c, ...]}``; 0 for one without rows.

    Args:
        weights: ``W1 [d, H]``, ``b1 [H]``, ``W2 [H, C]``, ``b2 [C]``.
        chosen: Classes whose gradients are asked for, int64 ``[c]``.
    """
    classes = len(chosen)
    before = data.features.forward(weights["W1"]) + weights["b1"]
    hidden = torch.relu(before)
    near = data.around.forward(hidden)
    truth = F.one_hot(data.labels, weights["b2"].shape[0]).to(hidden.dtype)
    wrong = torch.softmax(near @ weights["W2"] + weights["b2"], 1) - truth
    rows = (truth / truth.sum(0).clamp_min(1))[:, chosen].T.unsqueeze(2) * wrong  # [c, r, C]
    back = (rows @ weights["W2"].T).transpose(0, 1).flatten(1)
    back = data.around.back(back).view(len(hidden), classes, -1) * (before > 0).unsqueeze(1)
    first = data.features.back(back.flatten(1)).view(-1, classes, hidden.shape[1])
    return {
        "W1": first.transpose(0, 1),
        "b1": back.sum(0),
        "W2": near.T @ rows,
        "b2": rows.sum(1),
    }


def distance(ours: Params, theirs: Params, weight: Tensor) -> Tensor:
    """Sum the squared distances of two gradients, over all weights, with a ``weight`` for each class ``[c]``."""
    total = sum(((ours[name] - theirs[name]) ** 2).flatten(1).sum(1) for name in ours)
    out: Tensor = (weight * total).sum()
    return out
