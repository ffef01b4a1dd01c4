"""K two-layer GCNs with a linear classifier, as one stacked model (FED-PUB's architecture)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from fgl_repro.nn.models.model import TwoLayer
from fgl_repro.nn.ops import fan_in, glorot, linear

if TYPE_CHECKING:
    import numpy as np

    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.models.model import Params
    from fgl_repro.nn.view import View, Views


@dataclass(frozen=True)
class GCN(TwoLayer):
    """d -> hidden -> hidden -> C: two graph convolutions (bias after propagation), ReLU and dropout, then linear.

    Parameters, each with a leading client axis: ``W1 [K, d, H]``, ``b1 [K, H]``, ``W2 [K, H, H]``, ``b2 [K, H]``,
    ``W3 [K, H, C]``, ``b3 [K, C]``. No neighbours are drawn.
    """

    def init(self, rng: Generator) -> Params:
        """One model's initial weights (no client axis): Glorot convolutions, zero conv biases, default linear."""
        d, h, c = self.num_features, self.hidden, self.num_classes
        return {
            "W1": glorot((d, h), rng),
            "b1": torch.zeros(h),
            "W2": glorot((h, h), rng),
            "b2": torch.zeros(h),
            "W3": fan_in((h, c), h, rng),
            "b3": fan_in((c,), h, rng),
        }

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> View:
        """The normalised adjacency cut down to ``rows``."""
        return views.of(graph, rows)

    def embed(self, params: Params, view: View, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        """Second convolution's output before its ReLU, ``[K, r, H]``; dropout when ``rng`` is given."""
        hidden = self.activated(self.first(params, view) if first is None else first, rng)
        hidden = torch.bmm(hidden, params["W2"]).flatten(0, 1)
        return view.outer(hidden).view(view.num_clients, -1, self.hidden) + params["b2"].unsqueeze(1)

    def __call__(self, params: Params, view: View, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        """Logits of the view's rows, ``[K, r, C]``; dropout when ``rng`` is given.

        ``first`` is the output of ``first(params, view)`` where it is at hand: it is half the cost of a forward pass.
        """
        hidden = self.activated(self.embed(params, view, rng, first), rng)
        return linear(hidden, params["W3"], params["b3"])
