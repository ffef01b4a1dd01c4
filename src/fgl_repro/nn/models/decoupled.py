"""K networks that map every node by itself and then, or before, only average: SGC, SSGC, APPNP and SIGN, stacked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from fgl_repro.nn.models.model import Layered
from fgl_repro.nn.ops import fan_in, linear
from fgl_repro.nn.sparse import SparseOp

if TYPE_CHECKING:
    import numpy as np

    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.models.model import Params
    from fgl_repro.nn.view import View, Views, WholeView


def polynomial(view: WholeView, terms: list[Tensor]) -> Tensor:
    """Compute ``sum_k A^k terms[k]`` at the view's rows ``[K, r, F]``, A the normalised adjacency, by Horner's rule.

    Args:
        terms: Values of all nodes ``[K, n1, F]``, at least two.
    """
    values = terms[-1].flatten(0, 1)
    for term in reversed(terms[1:-1]):
        values = view.step(values) + term.flatten(0, 1)
    out: Tensor = view.outer(values) + view.picked(terms[0])
    return out.view(view.num_clients, -1, terms[0].shape[2])


@dataclass(frozen=True)
class Averaging(Layered):
    """A map of every node's own features, the logits of which are averaged: ``sum_k weights[k] A^k H``.

    A linear map, d -> C with its bias after the averaging, makes SGC (Wu et al., 2019) and SSGC (Zhu & Koniusz, 2021);
    two of them, d -> H -> C, with ReLU and dropout between, APPNP (Gasteiger et al., 2019). By linearity that is the
    same as averaging features first, and C numbers a node are fewer. Parameters, each with a leading client axis:
    ``W1 [K, d, C]``, ``b1 [K, C]``, or ``W1 [K, d, H]``, ``b1 [K, H]``, ``W2 [K, H, C]``, ``b2 [K, C]``.

    Attributes:
        weights: Of the powers of A, from 0.
        maps: Number of linear maps, 1 or 2.
        relu: Whether there is a ReLU between two.
    """

    weights: tuple[float, ...] = (0.0, 1.0)
    maps: int = 1
    relu: bool = True

    @property
    def depth(self) -> int:
        return self.maps

    def init(self, rng: Generator) -> Params:
        """Draw one model's initial weights (no client axis): torch's for linear layers."""
        widths = [self.num_features, *[self.hidden] * (self.maps - 1), self.num_classes]
        out: Params = {}
        for layer in range(1, self.maps + 1):
            width, to = widths[layer - 1 : layer + 1]
            out |= {f"W{layer}": fan_in((width, to), width, rng), f"b{layer}": fan_in((to,), width, rng)}
        return out

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> WholeView:
        """View all nodes and the normalised adjacency."""
        return views.whole(graph, rows, SparseOp.of)

    def first(self, params: Params, view: View) -> Tensor:
        """Pass features through the first map, at all nodes, ``[K, n1, H or C]``."""
        early = params["b1"] if self.maps == 2 else torch.zeros_like(params["b1"])
        return super().first({**params, "b1": early}, view)

    def convolved(self, params: Params, view: WholeView) -> Tensor:
        """Return the view's rows' logits where one map is all, else the first map of all nodes, ``[K, n, C or H]``."""
        return self(params, view) if self.maps == 1 else self.first(params, view)

    def activated(self, values: Tensor, rng: Generator | None) -> Tensor:
        return super().activated(values, rng) if self.relu else values

    def embed(
        self, params: Params, view: WholeView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        return self(params, view, rng, first)

    def __call__(
        self, params: Params, view: WholeView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Compute logits of the view's rows, ``[K, r, C]``; dropout when ``rng`` is given."""
        values = self.first(params, view) if first is None else first
        if self.maps == 2:
            values = linear(self.activated(values, rng), params["W2"], params["b2"])
        found = polynomial(view, [weight * values for weight in self.weights])
        return found if self.maps == 2 else found + params["b1"].unsqueeze(1)


@dataclass(frozen=True)
class SIGN(Layered):
    """``[X | A X | ... | A^h X]`` -> H -> C with ReLU and dropout between (Frasca et al., 2020).

    Parameters, each with a leading client axis: ``W1 [K, (h + 1) d, H]``, ``b1 [K, H]``, ``W2 [K, H, C]``,
    ``b2 [K, C]``. What A^k X is multiplied with lies in rows k d to (k + 1) d of ``W1``.

    Attributes:
        steps: Highest power h, at least 1.
    """

    steps: int = 2

    def init(self, rng: Generator) -> Params:
        """Draw one model's initial weights (no client axis): torch's for linear layers."""
        width, h, c = (self.steps + 1) * self.num_features, self.hidden, self.num_classes
        first = {"W1": fan_in((width, h), width, rng), "b1": fan_in((h,), width, rng)}
        return first | {"W2": fan_in((h, c), h, rng), "b2": fan_in((c,), h, rng)}

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> WholeView:
        """View all nodes and the normalised adjacency."""
        return views.whole(graph, rows, SparseOp.of)

    def first(self, params: Params, view: WholeView) -> Tensor:  # type: ignore[override]
        """Compute the first layer's output before its ReLU, ``[K, r, H]``."""
        maps = torch.cat(params["W1"].chunk(self.steps + 1, dim=1), dim=2)
        nothing = maps.new_zeros(maps.shape[0], maps.shape[2])
        values = super().first({"W1": maps, "b1": nothing}, view)
        return polynomial(view, list(values.chunk(self.steps + 1, dim=2))) + params["b1"].unsqueeze(1)

    def embed(
        self, params: Params, view: WholeView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        return self(params, view, rng, first)

    def __call__(
        self, params: Params, view: WholeView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Compute logits of the view's rows, ``[K, r, C]``; dropout when ``rng`` is given."""
        hidden = self.activated(self.first(params, view) if first is None else first, rng)
        return linear(hidden, params["W2"], params["b2"])
