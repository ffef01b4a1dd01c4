"""K two-layer GraphSAGEs with a linear classifier, as one stacked model (FedLoG's encoder and warm-up classifier)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fgl_repro.nn import view as views_of
from fgl_repro.nn.adjacency import gcn_norm, weighted
from fgl_repro.nn.models.model import Layered
from fgl_repro.nn.ops import fan_in, glorot, linear
from fgl_repro.nn.sparse import SparseOp
from fgl_repro.nn.view import Padded, View, around, blocks, gathered

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
class DrawnInputs:
    """First-layer inputs ``[mean of drawn neighbours | own]`` of a batch, in place of a :class:`DenseOp`.

    Sparse features are mapped for all nodes at once, before any is picked: one product costs less than the copies of
    wide rows that a batch would need.

    Attributes:
        features: Of all N nodes and of one that is not there (index N), 0, ``[N + 1, d]``; or those of client k's nodes
            in column block k, ``[N, K * d]``.
        own: Union node of each inner node, int64 ``[K, n]``.
        around: Its drawn neighbours, int64 ``[K, n, f]``.
    """

    features: Tensor | SparseOp
    own: Tensor
    around: Tensor

    def halves(self, weight: Tensor) -> Tensor:
        """Pass both inputs through maps of their own: ``[K, 2d, h]`` to ``[K, n, 2h]``."""
        mean, root = weight.chunk(2, dim=1)
        (clients, n, fan), width = self.around.shape, weight.shape[2]
        if isinstance(self.features, Tensor):
            around = F.embedding_bag(self.around.view(-1, fan), self.features, mode="mean").view(clients, n, -1)
            own = self.features.index_select(0, self.own.flatten()).view(clients, n, -1)
            return torch.cat([torch.bmm(around, mean), torch.bmm(own, root)], dim=2)
        table = self.features(torch.cat([mean, root], dim=2).flatten(0, 1))
        table = F.pad(table, (0, 0, 0, 1))  # the node that is not there
        near = table[:, :width].index_select(0, self.around.flatten()).view(clients, n, fan, width).mean(2)
        return torch.cat([near, table[:, width:].index_select(0, self.own.flatten()).view(clients, n, width)], dim=2)

    def __call__(self, weight: Tensor, bias: Tensor) -> Tensor:
        """Compute ``inputs @ weight + bias``: ``[K, n, out]`` from ``[K, 2d, out]`` and ``[K, out]``."""
        near, own = self.halves(weight).chunk(2, dim=2)
        return near + own + bias.unsqueeze(1)


@dataclass(frozen=True)
class DrawnMean:
    """Second propagation of a batch: mean over the f drawn neighbours of each of its nodes.

    Attributes:
        some: 1.0 at nodes that have neighbours, ``[K, B, 1]``.
        fan: f.
    """

    some: Tensor
    fan: int

    def __call__(self, hidden: Tensor) -> Tensor:
        """Average over drawn neighbours: ``[K * n1, H]`` to ``[K * B, H]``."""
        clients, size, _ = self.some.shape
        inner = hidden.view(clients, size * (1 + self.fan), -1)[:, size:]
        return (inner.reshape(clients, size, self.fan, -1).mean(2) * self.some).flatten(0, 1)


@dataclass(frozen=True)
class SAGE(Layered):
    """d -> H -> H/2 -> C: two mean-aggregating convolutions with root weights, ReLU and dropout between, then linear.

    A layer is ``[mean of neighbours | own] W + b`` (Hamilton et al., 2017, as in PyG's SAGEConv): the rows of W are the
    neighbour map above the root map. A node without neighbours has mean 0. On a graph whose links have weights (a
    condensed one) a GCN's propagation takes the mean's place, see :class:`SageSource`. Parameters, with a leading
    client axis: ``W1 [K, 2d, H]``, ``b1 [K, H]``, ``W2 [K, 2H, H/2]``, ``b2 [K, H/2]``, ``W3 [K, H/2, C]``,
    ``b3 [K, C]``. Without the ``linear`` classifier, d -> H -> C, the second convolution gives the logits.
    """

    linear: bool = True

    @property
    def output(self) -> int:
        """Width of the embedding."""
        return max(self.hidden // 2, 1) if self.linear else self.num_classes

    def init(self, rng: Generator) -> Params:
        """Draw one model's initial weights (no client axis), all uniform with bound 1 / sqrt(fan-in of the map)."""
        d, h, o, c = self.num_features, self.hidden, self.output, self.num_classes
        out = {
            "W1": fan_in((2 * d, h), d, rng),
            "b1": fan_in((h,), d, rng),
            "W2": fan_in((2 * h, o), h, rng),
            "b2": fan_in((o,), h, rng),
        }
        return out | {"W3": fan_in((o, c), o, rng), "b3": fan_in((c,), o, rng)} if self.linear else out

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> SageView:
        """Cut the graph down to ``rows`` (union nodes, ascending); cheap enough for every mini-batch."""
        return self.source(views, graph).view(rows)

    def ring(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> RingView:
        """Cut the graph down as ``view`` does, with the embeddings of the rows' neighbours at hand."""
        return self.source(views, graph).ring(rows)

    def source(self, views: Views, graph: UnionGraph) -> SageSource:
        """Return what all views of a union graph are cut from, computed once."""
        return views.once(graph, "sage", lambda: SageSource(graph, views.device))

    def second(self, params: Params, mean: Tensor, own: Tensor) -> Tensor:
        """Apply the second layer to hidden values: ``[K, n, H]`` and ``[K, n, H] -> [K, n, H/2]``."""
        return linear(torch.cat([mean, own], dim=-1), params["W2"], params["b2"])

    def embed(
        self, params: Params, view: SageView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Embed the view's rows, ``[K, r, H/2]``; dropout when ``rng`` is given."""
        hidden = self.activated(self.first(params, view) if first is None else first, rng).flatten(0, 1)
        shape = (view.num_clients, -1, self.hidden)
        return self.second(params, view.outer(hidden).view(shape), hidden.index_select(0, view.root).view(shape))

    def __call__(
        self, params: Params, view: SageView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Compute logits of the view's rows, ``[K, r, C]``; dropout when ``rng`` is given."""
        found = self.embed(params, view, rng, first)
        return linear(found, params["W3"], params["b3"]) if self.linear else found


@dataclass(frozen=True)
class SAGEHalves(SAGE):
    """FedSage's classifier: layers keep neighbours and own features in halves of their output.

    The mean aggregator of StellarGraph, which FedSage's code uses, concatenates after the linear maps; PyG's SAGEConv
    adds. There a neighbour that is missing has hidden features relu(b), here 0; it happens at nodes without neighbours
    alone.

    d -> H -> H/2 -> C with H = 64 in FedSage: ReLU between the layers, embeddings of length 1, then linear.

    A layer is ``[mean of neighbours W_n | own W_s] + b``. Parameters, each with a leading client axis:
    ``W1 [K, 2d, H/2]``, ``b1 [K, H]``, ``W2 [K, 2H, H/4]``, ``b2 [K, H/2]``, ``W3 [K, H/2, C]``, ``b3 [K, C]``; in W1
    and W2 the rows of W_n lie above those of W_s. Keras' initial values: Glorot for each map, zero biases.
    """

    def init(self, rng: Generator) -> Params:
        d, h, o, c = self.num_features, self.hidden, self.output, self.num_classes
        return {
            "W1": torch.cat([glorot((d, h // 2), rng) for _ in range(2)]),
            "b1": torch.zeros(h),
            "W2": torch.cat([glorot((h, o // 2), rng) for _ in range(2)]),
            "b2": torch.zeros(o),
            "W3": glorot((o, c), rng),
            "b3": torch.zeros(c),
        }

    def first(self, params: Params, view: View) -> Tensor:
        if isinstance(view.dense, DrawnInputs):
            return view.dense.halves(params["W1"]) + params["b1"].unsqueeze(1)
        mean, root = params["W1"].chunk(2, dim=1)
        blocks = torch.cat([F.pad(mean, (0, root.shape[2])), F.pad(root, (mean.shape[2], 0))], dim=1)
        return super().first({**params, "W1": blocks}, view)

    def second(self, params: Params, mean: Tensor, own: Tensor) -> Tensor:
        maps = params["W2"].chunk(2, dim=1)
        return torch.cat([mean @ maps[0], own @ maps[1]], dim=2) + params["b2"].unsqueeze(1)

    def embed(
        self, params: Params, view: SageView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Embed the view's rows in vectors of length 1, ``[K, r, H/2]``; dropout when ``rng`` is given."""
        return F.normalize(super().embed(params, view, rng, first), dim=2)


class SageSource:
    """What all views of a union graph are cut from.

    Attributes:
        mean: Mean over the neighbours of each node ``[N, N]``. Where links have weights, it is a GCN's propagation:
            such graphs are made for that (SimGC, which O-pFGL's condensation follows, gives GraphSAGE the same).
        degree: Neighbours of each node ``[N]``.
        both: ``[A X | X]`` of every node ``[N, 2d]``, sparse, or dense and with a row of zeros ``[N + 1, 2d]``.
    """

    def __init__(self, graph: UnionGraph, device: torch.device) -> None:
        self.graph, self.device = graph, device
        self.degree = graph.degree.astype(np.float32)
        scale = sp.diags_array(1 / np.maximum(self.degree, 1), dtype=np.float32)
        self.mean = sp.csr_matrix(scale @ (graph.adjacency != 0).astype(np.float32))
        if weighted(graph.adjacency):
            self.mean = gcn_norm(graph.adjacency)
        own = graph.base.features[graph.node]
        self.both: Tensor | sp.csr_matrix
        self.both = sp.csr_matrix(sp.hstack([self.mean @ own, own], format="csr", dtype=np.float32))
        if not views_of.thin(graph.base.features):
            self.both = F.pad(torch.from_numpy(self.both.toarray()), (0, 0, 0, 1)).to(device)

    def inputs(self) -> Tensor:
        """Return ``[A X | X]`` of every node, ``[N, 2d]``."""
        return self.both[:-1] if isinstance(self.both, Tensor) else torch.from_numpy(self.both.toarray())

    def view(self, rows: np.ndarray) -> SageView:
        outer, inner, second = around(self.mean, self.graph, rows)
        dense, sparse = None, None
        if isinstance(self.both, Tensor):
            dense = gathered(self.both, inner, kept=False)
        else:
            sparse = SparseOp.of(blocks(self.both[inner.nodes], inner, self.graph), self.device)
        return SageView(
            dense=dense,
            sparse=sparse,
            inner=None,
            outer=SparseOp.of(second, self.device),
            root=self._slots(outer, inner),
            **self._rows(outer),
        )

    def ring(self, rows: np.ndarray) -> RingView:
        outer, ring, mean = around(self.mean, self.graph, rows)
        own = vars(self.view(ring.nodes)) | self._rows(outer)
        return RingView(**own, pick=self._slots(outer, ring), around=SparseOp.of(mean, self.device))

    def _rows(self, rows: Padded) -> dict[str, Tensor]:
        """Return what a view says of the rows themselves."""
        degree = torch.from_numpy(rows.scatter(self.degree[rows.nodes])).to(self.device)
        return {**rows.tensors(self.graph, self.device), "degree": degree}

    def _slots(self, rows: Padded, among: Padded) -> Tensor:
        """Tell where each row lies among the other nodes, int64 ``[K * r]``; 0 where padded."""
        slots = among.slot[np.searchsorted(among.nodes, rows.nodes)]
        return torch.from_numpy(rows.scatter(slots).ravel()).to(self.device)
