"""K two-layer GraphSAGEs with a linear classifier, as one stacked model (FedLoG's encoder and warm-up classifier)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor

from fgl_repro.nn import view as views_of
from fgl_repro.nn.ops import dropout, fan_in, linear
from fgl_repro.nn.sparse import SparseOp
from fgl_repro.nn.view import Padded, View, around, entries, gathered, pointers

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.models.model import Params
    from fgl_repro.nn.view import Views


@dataclass(frozen=True)
class SageView(View):
    """A view whose inputs are ``[A X | X]`` and whose second propagation is a mean over neighbours.

    Attributes:
        root: Slot of each row among the inner nodes, int64 ``[K * r]``; 0 where padded.
        degree: Neighbours of each row in the graph the view was cut from, float ``[K, r]``.
    """

    root: Tensor
    degree: Tensor


@dataclass(frozen=True)
class RingView(SageView):
    """A view that embeds the rows' neighbours as well: its inputs and second propagation serve the closed neighbourhood
    ``[K, r']`` of the rows, everything else the rows.

    Attributes:
        pick: Slot of each row in ``[K * r']``, int64 ``[K * r]``; 0 where padded.
        around: Mean over the neighbours of each row, ``[K * r, K * r']``.
    """

    pick: Tensor
    around: SparseOp


@dataclass(frozen=True)
class SAGE:
    """d -> H -> H/2 -> C: two mean-aggregating convolutions with root weights, ReLU and dropout between, then linear.

    A layer is ``[mean of neighbours | own] W + b`` (Hamilton et al., 2017, as in PyG's SAGEConv): the rows of W are the
    neighbour map above the root map. A node without neighbours has mean 0. Parameters, each with a leading client axis:
    ``W1 [K, 2d, H]``, ``b1 [K, H]``, ``W2 [K, 2H, H/2]``, ``b2 [K, H/2]``, ``W3 [K, H/2, C]``, ``b3 [K, C]``.

    ``fanout``: neighbours drawn of each node and layer in mini-batches, ``test_fanout``: in tests; 0: all of them.
    """

    num_features: int
    num_classes: int
    hidden: int = 128
    dropout: float = 0.5
    fanout: int = 0
    test_fanout: int = 0

    @property
    def output(self) -> int:
        """Width of the embedding."""
        return max(self.hidden // 2, 1)

    def init(self, rng: Generator) -> Params:
        """One model's initial weights (no client axis), all uniform with bound 1 / sqrt(fan-in of the map)."""
        d, h, o, c = self.num_features, self.hidden, self.output, self.num_classes
        return {
            "W1": fan_in((2 * d, h), d, rng),
            "b1": fan_in((h,), d, rng),
            "W2": fan_in((2 * h, o), h, rng),
            "b2": fan_in((o,), h, rng),
            "W3": fan_in((o, c), o, rng),
            "b3": fan_in((c,), o, rng),
        }

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> SageView:
        """The graph cut down to ``rows`` (union nodes, ascending); cheap enough for every mini-batch."""
        return self.source(views, graph).view(graph, rows, views.device)

    def ring(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> RingView:
        """The same with the embeddings of the rows' neighbours at hand."""
        return self.source(views, graph).ring(graph, rows, views.device)

    def source(self, views: Views, graph: UnionGraph) -> Source:
        """What all views of a union graph are cut from, computed once."""
        return views.once(graph, "sage", lambda: Source.of(graph, views.device))

    def first(self, params: Params, view: View) -> Tensor:
        """First layer's output before its ReLU, at the view's inner nodes, ``[K, n1, H]``."""
        if view.dense is not None:
            return view.dense(params["W1"], params["b1"])
        assert view.sparse is not None
        mapped = view.sparse(params["W1"].flatten(0, 1))
        return mapped.view(view.num_clients, -1, self.hidden) + params["b1"].unsqueeze(1)

    def second(self, params: Params, mean: Tensor, own: Tensor) -> Tensor:
        """Second layer from hidden values: ``[K, n, H]`` and ``[K, n, H] -> [K, n, H/2]``."""
        return linear(torch.cat([mean, own], dim=-1), params["W2"], params["b2"])

    def embed(
        self, params: Params, view: SageView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Embeddings of the view's rows, ``[K, r, H/2]``; dropout when ``rng`` is given."""
        hidden = torch.relu(self.first(params, view) if first is None else first)
        if rng is not None:
            hidden = dropout(hidden, self.dropout, rng)
        hidden = hidden.flatten(0, 1)
        shape = (view.num_clients, -1, self.hidden)
        return self.second(params, view.outer(hidden).view(shape), hidden.index_select(0, view.root).view(shape))

    def __call__(
        self, params: Params, view: SageView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Logits of the view's rows, ``[K, r, C]``; dropout when ``rng`` is given."""
        return linear(self.embed(params, view, rng, first), params["W3"], params["b3"])


@dataclass(frozen=True)
class Source:
    """What all views of a union graph are cut from.

    Attributes:
        mean: Row-normalised adjacency ``[N, N]``.
        degree: Neighbours of each node ``[N]``.
        dense: ``[A X | X]`` of every node and a row of zeros, ``[N + 1, 2d]``, or None.
        sparse: The same without that row as CSR, or None.
    """

    mean: sp.csr_matrix
    degree: np.ndarray
    dense: Tensor | None
    sparse: sp.csr_matrix | None

    @staticmethod
    def of(graph: UnionGraph, device: torch.device) -> Source:
        adjacency = graph.adjacency
        degree = np.diff(adjacency.indptr).astype(np.float32)
        mean = sp.csr_matrix(sp.diags_array(1 / np.maximum(degree, 1), dtype=np.float32) @ adjacency)
        base = graph.base.features
        own = base[graph.node]
        both = sp.csr_matrix(sp.hstack([mean @ own, own], format="csr", dtype=np.float32))
        if views_of.thin(base):
            return Source(mean, degree, None, both)
        dense = torch.zeros(graph.num_nodes + 1, both.shape[1], device=device)
        dense[:-1] = torch.from_numpy(both.toarray()).to(device)
        return Source(mean, degree, dense, None)

    def inputs(self) -> Tensor:
        """``[A X | X]`` of every node, ``[N, 2d]``."""
        if self.dense is not None:
            return self.dense[:-1]
        assert self.sparse is not None
        return torch.from_numpy(self.sparse.toarray())

    def view(self, graph: UnionGraph, rows: np.ndarray, device: torch.device) -> SageView:
        outer, inner, second = around(self.mean, graph, rows)
        return SageView(
            dense=gathered(self.dense, inner.nodes, inner, kept=False) if self.dense is not None else None,
            sparse=SparseOp.of(self._blocks(inner, graph), device) if self.sparse is not None else None,
            inner=None,
            outer=SparseOp.of(second, device),
            root=_slots(outer, inner, device),
            **self._rows(graph, outer, device),
        )

    def ring(self, graph: UnionGraph, rows: np.ndarray, device: torch.device) -> RingView:
        outer, ring, mean = around(self.mean, graph, rows)
        inner = self.view(graph, ring.nodes, device)
        own = {f.name: getattr(inner, f.name) for f in fields(inner)} | self._rows(graph, outer, device)
        return RingView(**own, pick=_slots(outer, ring, device), around=SparseOp.of(mean, device))

    def _rows(self, graph: UnionGraph, rows: Padded, device: torch.device) -> dict[str, Tensor]:
        """What a view says of the rows themselves."""
        arrays = {
            "labels": rows.scatter(graph.labels[rows.nodes]),
            "mask": rows.scatter(np.ones(len(rows.nodes), np.float32)),
            "slots": rows.slot,
            "degree": rows.scatter(self.degree[rows.nodes]),
        }
        out = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
        return {**out, "counts": out["mask"].sum(1)}

    def _blocks(self, inner: Padded, graph: UnionGraph) -> sp.csr_matrix:
        """Inputs of client k's nodes in column block k, ``[K * n1, K * 2d]``."""
        assert self.sparse is not None
        counts, found = entries(self.sparse, inner.nodes)
        width = self.sparse.shape[1]
        columns = self.sparse.indices[found] + np.repeat(graph.owner[inner.nodes] * width, counts)
        shape = (inner.size, inner.clients * width)
        return sp.csr_matrix((self.sparse.data[found], columns, pointers(inner, counts)), shape=shape)


def _slots(rows: Padded, among: Padded, device: torch.device) -> Tensor:
    """Where each row lies among the other nodes, int64 ``[K * r]``; 0 where padded."""
    slots = among.slot[np.searchsorted(among.nodes, rows.nodes)]
    return torch.from_numpy(rows.scatter(slots).ravel()).to(device)
