"""Mini-batches of a few neighbours: f of each node in each layer, drawn with replacement (GraphSAGE).

Because f is fixed, a batch is regular: nodes ``[K, B]``, their neighbours ``[K, B, f]``, and theirs ``[K, B, f, f]``.
What a model sees is an ordinary view whose inner nodes are, client by client, the B nodes and then their B f
neighbours, and whose propagations are means over the last axis. A node without neighbours has mean 0, as in a full
view.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.federation.world import UnionGraph
from fgl_repro.nn import view as views_of
from fgl_repro.nn.models.sage import SageView
from fgl_repro.nn.sparse import SparseOp
from fgl_repro.nn.view import Padded


class Features:
    """Features of N union nodes, and of a node that is not there (index N), whose features are 0.

    Sparse ones are mapped for all nodes at once, before any is picked: one product costs less than the copies of wide
    rows that a batch would need.

    Args:
        rows: Of the first N nodes or of all, ``[N, d]``.
        owner: Client of each node, int64 ``[N']``.
        more: Of the nodes that follow, ``[N' - N, d]``.
    """

    def __init__(
        self, rows: sp.csr_matrix, owner: np.ndarray, clients: int, device: torch.device, more: np.ndarray | None = None
    ) -> None:
        made = np.empty((0, rows.shape[1]), dtype=np.float32) if more is None else more
        (real, self.width), size = rows.shape, len(owner)
        self.dense: Tensor | None = None
        if rows.nnz + made.size < views_of.SPARSE_BELOW * size * self.width:
            rows = sp.csr_matrix(sp.vstack([rows, sp.csr_matrix(made)], format="csr"))
            self.blocks = SparseOp.of(views_of.by_client(rows, owner, clients), device)
        else:
            self.dense = torch.zeros(size + 1, self.width, device=device)
            self.dense[:real] = torch.from_numpy(rows.toarray()).to(device)
            self.dense[real:-1] = torch.from_numpy(made).to(device)


@dataclass(frozen=True)
class Drawn:
    """First-layer inputs ``[mean of drawn neighbours | own]`` of a batch, in place of a :class:`DenseOp`.

    Attributes:
        own: Union node of each inner node, int64 ``[K, n]``.
        around: Its drawn neighbours, int64 ``[K, n, f]``.
    """

    features: Features
    own: Tensor
    around: Tensor

    def halves(self, weight: Tensor) -> Tensor:
        """Both inputs through maps of their own: ``[K, 2d, h]`` to ``[K, n, 2h]``."""
        mean, root = weight.chunk(2, dim=1)
        (clients, n, fan), width = self.around.shape, weight.shape[2]
        if self.features.dense is not None:
            x = self.features.dense
            around = F.embedding_bag(self.around.view(-1, fan), x, mode="mean").view(clients, n, -1)
            own = x.index_select(0, self.own.flatten()).view(clients, n, -1)
            return torch.cat([torch.bmm(around, mean), torch.bmm(own, root)], dim=2)
        table = self.features.blocks(torch.cat([mean, root], dim=2).flatten(0, 1))
        table = F.pad(table, (0, 0, 0, 1))  # the node that is not there
        near = table[:, :width].index_select(0, self.around.flatten()).view(clients, n, fan, width).mean(2)
        return torch.cat([near, table[:, width:].index_select(0, self.own.flatten()).view(clients, n, width)], dim=2)

    def __call__(self, weight: Tensor, bias: Tensor) -> Tensor:
        """``inputs @ weight + bias``: ``[K, n, out]`` from ``[K, 2d, out]`` and ``[K, out]``."""
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
        """``[K * n1, H]`` to ``[K * B, H]``."""
        clients, size, _ = self.some.shape
        inner = hidden.view(clients, size * (1 + self.fan), -1)[:, size:]
        return (inner.reshape(clients, size, self.fan, -1).mean(2) * self.some).flatten(0, 1)


class Neighbours:
    """What batches are drawn from: the neighbours and features of every node of K graphs.

    Args:
        graph: Whose nodes are asked for.
        adjacency: 0/1 CSR ``[N', N']`` whose first N nodes are those of ``graph``; others may follow them.
        rows: Features of the nodes of ``graph``, ``[N, d]``.
        owner: Client of every node, int64 ``[N']``.
        more: Features of the others, ``[N' - N, d]``.
    """

    def __init__(
        self,
        graph: UnionGraph,
        adjacency: sp.csr_matrix,
        rows: sp.csr_matrix,
        owner: np.ndarray,
        device: torch.device,
        more: np.ndarray | None = None,
    ) -> None:
        self.graph, self.device, self.absent = graph, device, adjacency.shape[0]
        self.features = Features(rows, owner, graph.num_clients, device, more)
        self.start = adjacency.indptr.astype(np.int64)
        self.degree = np.append(np.diff(self.start), 0)
        self.around = np.append(adjacency.indices, self.absent).astype(np.int64)

    @staticmethod
    def of(graph: UnionGraph, device: torch.device) -> Neighbours:
        """From a union graph as it is."""
        return Neighbours(graph, graph.adjacency, graph.base.features[graph.node], graph.owner, device)

    def view(self, rows: np.ndarray, draws: np.ndarray) -> SageView:
        """A batch.

        Args:
            rows: Its union nodes, ascending.
            draws: U[0, 1) that decide which neighbours of each are taken, ``[R, f + f f]``, and of each of these.
        """
        fan = round((np.sqrt(1 + 4 * draws.shape[1]) - 1) / 2)
        outer = Padded.of(rows, self.graph)
        nodes = np.full((outer.clients, outer.width), self.absent)
        nodes.reshape(-1)[outer.slot] = rows
        uniform = outer.scatter(draws)
        first = self.drawn(nodes, uniform[..., :fan])
        second = self.drawn(first, uniform[..., fan:].reshape(*first.shape, fan))
        own = np.concatenate([nodes, first.reshape(outer.clients, -1)], axis=1)
        around = np.concatenate([first, second.reshape(outer.clients, -1, fan)], axis=1)
        inner = outer.width * (1 + fan)
        root = np.arange(outer.clients)[:, None] * inner + np.arange(outer.width)
        degree = self.degree[nodes].astype(np.float32)
        return SageView(
            dense=Drawn(self.features, self._tensor(own), self._tensor(around)),
            sparse=None,
            inner=None,
            outer=DrawnMean(self._tensor((degree > 0).astype(np.float32)).unsqueeze(2), fan),
            root=self._tensor(root.ravel()),
            degree=self._tensor(degree),
            **outer.tensors(self.graph, self.device),
        )

    def drawn(self, nodes: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Neighbours of ``nodes`` ``[...]`` by numbers in [0, 1) ``[..., f]``; the absent node where there is none."""
        degree = self.degree[nodes][..., None]
        place = np.minimum((uniform * degree).astype(np.int64), degree - 1)  # u d may round up to d
        place = np.where(degree > 0, self.start[nodes][..., None] + place, len(self.around) - 1)
        found: np.ndarray = self.around[place]
        return found

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)
