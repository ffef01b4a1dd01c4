"""K GCNs as one stacked model: FED-PUB's architecture, and PyG's, which is O-pFGL's."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from fgl_repro.nn.models.model import Layered
from fgl_repro.nn.ops import fan_in, glorot, linear

if TYPE_CHECKING:
    import numpy as np

    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.models.model import Model, Params
    from fgl_repro.nn.view import View, Views


@dataclass(frozen=True)
class GCN(Layered):
    """Graph convolutions (bias after propagation) with ReLU and dropout between, and a linear classifier or none.

    With it, d -> H -> ... -> H -> C; without, the last convolution gives the logits. Parameters, each with a leading
    client axis: ``W1 [K, d, H]``, ``b1 [K, H]``, ``W2 [K, H, H]``, ``b2 [K, H]``, ``W3 [K, H, C]``, ``b3 [K, C]``. No
    neighbours are drawn.

    Attributes:
        layers: Number of convolutions, at least 2.
    """

    linear: bool = True
    layers: int = 2

    @property
    def depth(self) -> int:
        return self.layers + self.linear

    def init(self, rng: Generator) -> Params:
        """Draw one model's initial weights (no client axis): Glorot convolutions, zero conv biases, default linear."""
        widths = [self.num_features, *[self.hidden] * (self.depth - 1), self.num_classes]
        out: Params = {}
        for layer, (width, to) in enumerate(pairwise(widths), 1):
            if layer <= self.layers:
                out |= {f"W{layer}": glorot((width, to), rng), f"b{layer}": torch.zeros(to)}
            else:
                out |= {f"W{layer}": fan_in((width, to), width, rng), f"b{layer}": fan_in((to,), width, rng)}
        return out

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> View:
        """Cut the normalised adjacency down to ``rows``."""
        return views.of(graph, rows, self.layers)

    def embed(self, params: Params, view: View, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        """Compute the last convolution's output before its ReLU, ``[K, r, H]``; dropout when ``rng`` is given."""
        values = self.first(params, view) if first is None else first
        for layer, step in enumerate(view.steps, 2):
            mapped = torch.bmm(self.activated(values, rng), params[f"W{layer}"]).flatten(0, 1)
            values = step(mapped).view(view.num_clients, -1, mapped.shape[1]) + params[f"b{layer}"].unsqueeze(1)
        return values

    def __call__(self, params: Params, view: View, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        """Compute logits of the view's rows, ``[K, r, C]``; dropout when ``rng`` is given.

        ``first`` is the output of ``first(params, view)`` where it is at hand: it is half the cost of a forward pass.
        """
        found = self.embed(params, view, rng, first)
        if not self.linear:
            return found
        return linear(self.activated(found, rng), params[f"W{self.depth}"], params[f"b{self.depth}"])


def convolves_twice(model: Model) -> bool:
    """Tell whether ``model`` is a GCN of two convolutions: generated and condensed graphs have own views for it."""
    return isinstance(model, GCN) and model.layers == 2
