"""K two-layer GCNs whose second convolution gives the logits, as one stacked model (PyG's GCN, O-pFGL's)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from fgl_repro.nn.models.model import TwoLayer
from fgl_repro.nn.ops import glorot

if TYPE_CHECKING:
    import numpy as np

    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.models.model import Params
    from fgl_repro.nn.view import View, Views


@dataclass(frozen=True)
class GCN2(TwoLayer):
    """d -> H -> C: two graph convolutions (bias after propagation), ReLU and dropout between.

    Parameters, each with a leading client axis: ``W1 [K, d, H]``, ``b1 [K, H]``, ``W2 [K, H, C]``, ``b2 [K, C]``. No
    neighbours are drawn.
    """

    def init(self, rng: Generator) -> Params:
        """One model's initial weights (no client axis): Glorot, zero biases, as PyG's GCNConv."""
        d, h, c = self.num_features, self.hidden, self.num_classes
        return {"W1": glorot((d, h), rng), "b1": torch.zeros(h), "W2": glorot((h, c), rng), "b2": torch.zeros(c)}

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> View:
        """The normalised adjacency cut down to ``rows``."""
        return views.of(graph, rows)

    def embed(self, params: Params, view: View, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        """First layer's values averaged around the view's rows, ``[K, r, H]``; dropout when ``rng`` is given."""
        hidden = self.activated(self.first(params, view) if first is None else first, rng)
        return view.outer(hidden.flatten(0, 1)).view(view.num_clients, -1, self.hidden)

    def __call__(self, params: Params, view: View, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        """Logits of the view's rows, ``[K, r, C]``; dropout when ``rng`` is given."""
        hidden = self.activated(self.first(params, view) if first is None else first, rng)
        mapped = torch.bmm(hidden, params["W2"]).flatten(0, 1)
        return view.outer(mapped).view(view.num_clients, -1, self.num_classes) + params["b2"].unsqueeze(1)
