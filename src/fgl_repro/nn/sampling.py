"""Mini-batches of a few neighbours: f of each node in each layer, drawn with replacement (GraphSAGE).

Because f is fixed, a batch is regular: nodes ``[K, B]``, their neighbours ``[K, B, f]``, and theirs ``[K, B, f, f]``.
What a model sees is an ordinary view whose inner nodes are, client by client, the B nodes and then their B f
neighbours, and whose propagations are means over the last axis. A node without neighbours has mean 0, as in a full
view.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fgl_repro.federation.world import UnionGraph
from fgl_repro.nn import view as views_of
from fgl_repro.nn.models.sage import DrawnInputs, DrawnMean, SageView
from fgl_repro.nn.sparse import SparseOp
from fgl_repro.nn.view import Padded


class Neighbours:
    """What batches are drawn from: the neighbours and features of every node of K graphs.

    Args:
        graph: Whose nodes are asked for.
        adjacency: 0/1 CSR ``[N, N]`` whose first nodes are those of ``graph``; others may follow them.
        owner: Client of every node, int64 ``[N]``.
        more: Features of the others, float32 ``[n, d]``.
    """

    def __init__(
        self,
        graph: UnionGraph,
        adjacency: sp.csr_matrix,
        owner: np.ndarray,
        device: torch.device,
        more: np.ndarray | None = None,
    ) -> None:
        self.graph, self.device, self.absent = graph, device, adjacency.shape[0]
        rows = graph.base.features[graph.node]
        made = np.empty((0, rows.shape[1]), dtype=np.float32) if more is None else more
        self.features: Tensor | SparseOp
        if views_of.few(rows.nnz + made.size, self.absent, rows.shape[1]):
            rows = sp.csr_matrix(sp.vstack([rows, sp.csr_matrix(made)], format="csr"))
            self.features = SparseOp.of(views_of.by_client(rows, owner, graph.num_clients), device)
        else:
            zeros = np.zeros((1, rows.shape[1]), dtype=np.float32)
            self.features = torch.from_numpy(np.concatenate([rows.toarray(), made, zeros])).to(device)
        self.start = adjacency.indptr.astype(np.int64)
        self.degree = np.append(np.diff(self.start), 0)
        self.around = np.append(adjacency.indices, self.absent).astype(np.int64)

    @staticmethod
    def of(graph: UnionGraph, device: torch.device) -> Neighbours:
        """Take the neighbours from a union graph as it is."""
        return Neighbours(graph, graph.adjacency, graph.owner, device)

    def view(self, rows: np.ndarray, uniform: np.ndarray, fan: int) -> SageView:
        """Build a batch.

        Args:
            rows: Its union nodes, ascending.
            uniform: Of U[0, 1), ``[R, f + f f]``; they choose the neighbours of each row, and of each of these.
            fan: Neighbours f that are drawn of each.
        """
        outer = Padded.of(rows, self.graph)
        nodes = np.full((outer.clients, outer.width), self.absent)
        nodes.reshape(-1)[outer.slot] = rows
        padded = outer.scatter(uniform)
        first = self.drawn(nodes, padded[..., :fan])
        second = self.drawn(first, padded[..., fan:].reshape(*first.shape, fan))
        own = np.concatenate([nodes, first.reshape(outer.clients, -1)], axis=1)
        around = np.concatenate([first, second.reshape(outer.clients, -1, fan)], axis=1)
        inner = outer.width * (1 + fan)
        root = np.arange(outer.clients)[:, None] * inner + np.arange(outer.width)
        degree = self.degree[nodes].astype(np.float32)
        return SageView(
            dense=DrawnInputs(self.features, self._tensor(own), self._tensor(around)),
            sparse=None,
            inner=None,
            outer=DrawnMean(self._tensor((degree > 0).astype(np.float32)).unsqueeze(2), fan),
            root=self._tensor(root.ravel()),
            degree=self._tensor(degree),
            **outer.tensors(self.graph, self.device),
        )

    def drawn(self, nodes: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Pick neighbours of ``nodes`` ``[...]`` by numbers in [0, 1) ``[..., f]``; the absent one if it has none."""
        degree = self.degree[nodes][..., None]
        place = np.minimum((uniform * degree).astype(np.int64), degree - 1)  # u d may round up to d
        place = np.where(degree > 0, self.start[nodes][..., None] + place, len(self.around) - 1)
        found: np.ndarray = self.around[place]
        return found

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)
