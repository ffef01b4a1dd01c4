"""K graph attention networks as one stacked model (PyG's GAT of one head)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from fgl_repro.nn.adjacency import weighted, with_loops
from fgl_repro.nn.attention import SparsePattern
from fgl_repro.nn.models.model import Layered
from fgl_repro.nn.ops import glorot

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp

    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.models.model import Params
    from fgl_repro.nn.view import View, Views, WholeView

STRONG = 0.5
"""Weight from which on a link is one. Condensed graphs have hardly two nodes without a link; GCond's code, too, cuts
them here before a GAT learns on them."""


def strong(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """Return A + I without weak links; 0/1 links are all strong."""
    if weighted(adjacency):
        adjacency = adjacency.multiply(adjacency >= STRONG).tocsr()
        adjacency.eliminate_zeros()
    return with_loops(adjacency)


@dataclass(frozen=True)
class GAT(Layered):
    """d -> H -> C: two layers of attention (Velickovic et al., 2018), ReLU and dropout between.

    With h = x W, node i gets sum_j alpha_ij h_j + b over its neighbours j and itself, alpha the softmax over j of
    LeakyReLU(s h_j + t h_i). Edges count alike, and those that weigh less than ``STRONG`` not at all. Parameters, each
    with a leading client axis: ``W1 [K, d, H]``, ``s1 t1 b1 [K, H]``, ``W2 [K, H, C]``, ``s2 t2 b2 [K, C]``. No
    neighbours are drawn.
    """

    def init(self, rng: Generator) -> Params:
        """Draw one model's initial weights (no client axis): Glorot, also of scores, zero biases, as PyG's GATConv."""
        out: Params = {}
        for layer, shape in enumerate(((self.num_features, self.hidden), (self.hidden, self.num_classes)), 1):
            scores = (glorot((1, shape[1]), rng).squeeze(0) for _ in range(2))
            out |= {f"W{layer}": glorot(shape, rng), f"b{layer}": torch.zeros(shape[1])}
            out |= dict(zip((f"s{layer}", f"t{layer}"), scores, strict=True))
        return out

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> WholeView:
        """View all nodes and their links, and those of the ``rows``."""
        return views.whole(graph, rows, SparsePattern.of, strong)

    def first(self, params: Params, view: View) -> Tensor:
        """Pass features through the first map, at all nodes, ``[K, n1, H]``."""
        return super().first({**params, "b1": torch.zeros_like(params["b1"])}, view)

    def convolved(self, params: Params, view: WholeView, first: Tensor | None = None) -> Tensor:
        """Compute the first layer's output before its ReLU, at all nodes, ``[K, n1, H]``."""
        mapped = self.first(params, view) if first is None else first
        return self.attended(params, 1, mapped, view.step)

    def embed(
        self, params: Params, view: WholeView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        return self(params, view, rng, first)

    def __call__(
        self, params: Params, view: WholeView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Compute logits of the view's rows, ``[K, r, C]``; dropout when ``rng`` is given."""
        hidden = self.activated(self.convolved(params, view, first), rng)
        mapped = torch.bmm(hidden, params["W2"])
        return self.attended(params, 2, mapped, view.outer, view.pick)

    def attended(
        self, params: Params, layer: int, mapped: Tensor, pattern: SparsePattern, pick: Tensor | None = None
    ) -> Tensor:
        """Compute a layer's output ``[K, r, F]`` from the mapped values of all nodes ``[K, n1, F]``.

        Args:
            pick: Slots of the nodes that look around, int64 ``[K * r]``; None: all of them.
        """
        source, target = (torch.bmm(mapped, params[f"{x}{layer}"].unsqueeze(2)).flatten() for x in "st")
        if pick is not None:
            target = target.index_select(0, pick)
        found = pattern.attend(mapped.flatten(0, 1), source, target)
        return found.view(mapped.shape[0], -1, mapped.shape[2]) + params[f"b{layer}"].unsqueeze(1)
