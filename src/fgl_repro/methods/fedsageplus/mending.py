"""Local graphs made better: generated neighbours attached to the nodes of a union graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fgl_repro.federation.world import UnionGraph
from fgl_repro.fl.inputs import Inputs
from fgl_repro.nn import view as views_of
from fgl_repro.nn.models.sage import SageView
from fgl_repro.nn.sampling import Neighbours
from fgl_repro.nn.sparse import DenseOp, SparseOp
from fgl_repro.nn.view import Padded, Views

ROWS = 1024
"""Nodes whose surroundings are laid out at a time."""


@dataclass(frozen=True)
class Generated:
    """Generated neighbours of a union graph.

    Attributes:
        parent: Union node each one hangs on, int64 ``[S]``, ascending.
        features: float32 ``[S, d]``.
        slots: At most so many hang on one node.
    """

    parent: np.ndarray
    features: np.ndarray
    slots: int

    @staticmethod
    def of(parent: np.ndarray, features: np.ndarray, slots: int) -> Generated:
        """From any order of parents."""
        order = np.argsort(parent, kind="stable")
        return Generated(parent[order], features[order], slots)

    def hung(self, nodes: int) -> sp.csr_matrix:
        """Which generated neighbour hangs on which of N nodes: 0/1 ``[N, S]``."""
        size = len(self.parent)
        ones = np.ones(size, dtype=np.float32)
        return sp.csr_matrix((ones, (self.parent, np.arange(size))), shape=(nodes, size))


@dataclass(frozen=True)
class MendedGraph:
    """A union graph with generated neighbours; a batch takes its rows from what is laid out once for all nodes."""

    graph: UnionGraph
    generated: Generated

    @cached_property
    def hung(self) -> sp.csr_matrix:
        return self.generated.hung(self.graph.num_nodes)

    @cached_property
    def degree(self) -> np.ndarray:
        """Neighbours of both kinds, int64 ``[N]``."""
        found: np.ndarray = np.diff(self.graph.adjacency.indptr) + np.diff(self.hung.indptr)
        return found

    @cached_property
    def scale(self) -> np.ndarray:
        """1 / degree, float32 ``[N]``."""
        found: np.ndarray = (1 / np.maximum(self.degree, 1)).astype(np.float32)
        return found

    @cached_property
    def inputs(self) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """Of real nodes ``[N, 2d]`` and of generated ones ``[S, 2d]``: mean over neighbours, beside own features."""
        own, new = self.graph.base.features[self.graph.node], sp.csr_matrix(self.generated.features)
        around = sp.diags_array(self.scale) @ (self.graph.adjacency @ own + self.hung @ new)
        real, made = sp.hstack([around, own]), sp.hstack([own[self.generated.parent], new])
        return sp.csr_matrix(real, dtype=np.float32), sp.csr_matrix(made, dtype=np.float32)

    def neighbours(self, device: torch.device) -> Neighbours:
        """What sampled batches are drawn from: generated neighbours follow the real nodes."""
        graph, made = self.graph, self.generated
        adjacency = sp.csr_matrix(sp.block_array([[graph.adjacency, self.hung], [self.hung.T, None]], format="csr"))
        owner = np.concatenate([graph.owner, graph.owner[made.parent]])
        return Neighbours(graph, adjacency, graph.base.features[graph.node], owner, device, made.features)

    def view(self, rows: np.ndarray, device: torch.device) -> SageView:
        """What GraphSAGE needs to predict ``rows`` (union nodes, ascending).

        Inner nodes are the rows, their neighbours, and ``slots`` places for generated neighbours of each row, used or
        not: the width, and with it what dropout draws for a client, does not depend on what others generated.
        Inputs in closed form, g_v generated neighbours and d_v real ones: a real node has
        ``[(sum of both kinds of neighbours) / (d_v + g_v) | x_v]``, a generated one ``[x_parent | x]``.
        """
        graph, slots = self.graph, self.generated.slots
        links = graph.adjacency[rows]
        close = np.union1d(rows, links.indices).astype(np.int64)
        outer, inner = Padded.of(rows, graph), Padded.of(close, graph)
        width = inner.width + outer.width * slots
        place = np.full(graph.num_nodes, -1, dtype=np.int64)
        place[close] = graph.owner[close] * (width - inner.width) + inner.slot
        row_of = np.full(graph.num_nodes, -1, dtype=np.int64)
        row_of[rows] = np.arange(len(rows))
        used = np.flatnonzero(row_of[self.generated.parent] >= 0)
        parent = self.generated.parent[used]
        rank = used - self.hung.indptr[parent]
        owner, local = graph.owner[parent], outer.slot[row_of[parent]] - graph.owner[parent] * outer.width
        made = owner * width + inner.width + local * slots + rank
        of_real, of_made = self.inputs
        inputs = sp.csr_matrix(sp.vstack([of_real[close], of_made[used]]))
        where = np.concatenate([place[close], made])
        size = graph.num_clients * width
        real = sp.coo_array(links)
        rows_at = np.concatenate([outer.slot[real.row], outer.slot[row_of[parent]]])
        columns = np.concatenate([place[real.col], made])
        weights = np.concatenate([self.scale[rows[real.row]], self.scale[parent]])

        def tensor(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device)

        dense, sparse = _inputs(inputs, where, graph.num_clients, width, device)
        mask = tensor(outer.scatter(np.ones(len(rows), np.float32)))
        return SageView(
            dense=dense,
            sparse=sparse,
            inner=None,
            outer=SparseOp.of(sp.csr_matrix((weights, (rows_at, columns)), shape=(outer.size, size)), device),
            labels=tensor(outer.scatter(graph.labels[rows])),
            mask=mask,
            counts=mask.sum(1),
            slots=tensor(outer.slot),
            root=tensor(outer.scatter(place[rows]).ravel()),
            degree=tensor(outer.scatter(self.degree[rows].astype(np.float32))),
        )


@dataclass(frozen=True)
class MendedInputs(Inputs):
    """Training rows in the mended graphs, all neighbours at hand or a few drawn ones."""

    mended: MendedGraph

    def cut(self, views: Views, rows: np.ndarray) -> SageView:
        return self.mended.view(rows, views.device)

    @cached_property
    def neighbours(self) -> Neighbours:
        return self.mended.neighbours(self.views.device)


def distances(mended: MendedGraph) -> dict[str, dict[str, list[float]]]:
    """How far the mean feature of a node's neighbours is from that in the base graph (FedSage, Table D1).

    Returns:
        Mean and std of the L2 distance, of the ``original`` graph and of the ``mended`` one, over ``all`` union nodes
        and over those that ``lost`` neighbours; no neighbours count as a mean of 0.
    """
    graph, base = mended.graph, mended.graph.base
    whole, own = base.adjacency[graph.node], base.features[graph.node]
    parts: dict[str, list[np.ndarray]] = {"original": [], "mended": []}
    for start in range(0, graph.num_nodes, ROWS):
        part = slice(start, start + ROWS)
        truth = (whole[part] @ base.features).toarray() / _some(whole[part])
        real = (graph.adjacency[part] @ own).toarray()
        made = mended.hung[part] @ mended.generated.features
        mean = (real + made) / np.maximum(mended.degree[part], 1)[:, None].astype(np.float32)
        parts["original"].append(np.linalg.norm(real / _some(graph.adjacency[part]) - truth, axis=1))
        parts["mended"].append(np.linalg.norm(mean - truth, axis=1))
    found = {name: np.concatenate(values) for name, values in parts.items()}
    lost = np.diff(whole.indptr) > np.diff(graph.adjacency.indptr)
    nodes = {"all": np.ones_like(lost), "lost": lost if lost.any() else ~lost}
    return {
        which: {name: [float(values[chosen].mean()), float(values[chosen].std())] for name, values in found.items()}
        for which, chosen in nodes.items()
    }


def _some(adjacency: sp.csr_matrix) -> np.ndarray:
    """Entries of each row, at least 1, ``[n, 1]``."""
    count: np.ndarray = np.maximum(np.diff(adjacency.indptr), 1)[:, None].astype(np.float32)
    return count


def _inputs(
    inputs: sp.csr_matrix, where: np.ndarray, clients: int, width: int, device: torch.device
) -> tuple[DenseOp | None, SparseOp | None]:
    """Rows ``[m, 2d]`` at the places ``where`` of ``[K * width]``; zero elsewhere."""
    size, columns = clients * width, inputs.shape[1]
    if inputs.nnz >= views_of.SPARSE_BELOW * size * columns:
        padded = torch.zeros(size, columns)
        padded[torch.from_numpy(where)] = torch.from_numpy(inputs.toarray())
        return DenseOp(padded.view(clients, width, columns).to(device)), None
    coo = sp.coo_array(inputs)
    row = where[coo.row]
    block = sp.csr_matrix((coo.data, (row, row // width * columns + coo.col)), shape=(size, clients * columns))
    return None, SparseOp.of(block, device)
