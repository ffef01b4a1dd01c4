"""Local graphs made worse and better: nodes hidden to learn from, generated neighbours attached."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.federation.world import UnionGraph, World
from fgl_repro.methods.fedsageplus.neighgen import Locals, Pool, nearest
from fgl_repro.nn import view as views_of
from fgl_repro.nn.models.sage import SageView
from fgl_repro.nn.ragged import Draws, sums
from fgl_repro.nn.sampling import Neighbours
from fgl_repro.nn.sparse import DenseOp, SparseOp
from fgl_repro.nn.view import Padded

ROWS = 1024
"""Nodes whose surroundings are laid out at a time."""


@dataclass(frozen=True)
class Impaired:
    """Graphs of G clients without their hidden nodes: n nodes are left.

    Attributes:
        local: The graphs.
        nodes: Union node behind each node, int64 ``[n]``.
        missing: True number n_v of hidden neighbours, float ``[n]``.
        candidates: Hidden neighbours as union nodes; those of node v start at ``start[v]``, ``count[v]`` of them.
        weight: 1 / (number of the client's nodes under loss) at those nodes, 0 elsewhere, ``[n]``.
        labelled: Nodes with a training label, int64 ``[m]``.
        labels: Their classes, int64 ``[m]``.
        label_weight: 1 / (number of the client's labelled nodes), ``[m]``.
    """

    local: Locals
    nodes: np.ndarray
    missing: Tensor
    start: Tensor
    count: Tensor
    candidates: Tensor
    weight: Tensor
    labelled: Tensor
    labels: Tensor
    label_weight: Tensor

    @staticmethod
    def of(
        world: World, clients: range, hidden: np.ndarray, under_loss: np.ndarray, most: int | None, device: torch.device
    ) -> Impaired:
        """Cut the graphs of a range of clients.

        Args:
            hidden: Which union nodes are hidden, bool ``[N]``.
            under_loss: Which take part in the losses on counts and features if they are not hidden, bool ``[N]``.
            most: How many hidden neighbours may be targets of a node's generated ones; None: all.
        """
        graph = world.graph
        inside = np.arange(graph.ptr[clients[0]], graph.ptr[clients[-1] + 1])
        nodes, gone = inside[~hidden[inside]], inside[hidden[inside]]
        owner = graph.owner[nodes] - clients[0]
        ptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(clients)))])
        rows = graph.adjacency[nodes]
        local = Locals.of(graph.base.features[graph.node[nodes]], _sorted(rows[:, nodes]), ptr, device)
        lost = _sorted(rows[:, gone])
        number = np.diff(lost.indptr)
        trains = np.zeros(graph.num_nodes, dtype=bool)
        trains[world.train] = True
        labelled = np.flatnonzero(trains[nodes])

        def tensor(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device)

        return Impaired(
            local=local,
            nodes=nodes,
            missing=tensor(number.astype(np.float32)),
            start=tensor(lost.indptr[:-1].astype(np.int64)),
            count=tensor(np.minimum(number, most or number).astype(np.int64)),
            candidates=tensor(gone[lost.indices]),
            weight=tensor(_shares(owner, under_loss[nodes].astype(np.float32), len(clients))),
            labelled=tensor(labelled),
            labels=tensor(graph.labels[nodes[labelled]]),
            label_weight=tensor(_shares(owner[labelled], np.ones(len(labelled), np.float32), len(clients))),
        )

    def sampled(self, most: int, draws: Draws) -> Impaired:
        """The same with losses over random nodes V^t of each client, at most so many (Algorithm 1, step C)."""
        owner, ptr = self.local.owner, torch.tensor(self.local.ptr, device=self.missing.device)
        order = (owner + draws.uniform(self.local.ptr, 1).squeeze(1).double()).argsort()
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device) - ptr[owner]
        share = 1 / ptr.diff().clamp(1, most).float()
        return replace(self, weight=torch.where(rank < most, share[owner], 0.0))

    def mean_missing(self) -> Tensor:
        """Mean of n_v over the nodes under loss, ``[G]``."""
        return sums(self.missing * self.weight, self.local.owner, self.local.clients)

    def count_loss(self, estimate: Tensor) -> Tensor:
        """L^d ``[G]`` of real-valued counts n~_v ``[n]`` (Equation 4)."""
        wrong = F.smooth_l1_loss(estimate, self.missing, reduction="none")
        return sums(wrong * self.weight, self.local.owner, self.local.clients)

    def feature_loss(self, pool: Pool, rows: Tensor, candidates: Tensor, start: Tensor) -> Tensor:
        """L^f ``[G]``: squared distance of each generated vector to the nearest target of its parent (Equation 4).

        Args:
            rows: Features, ``[N, d]``.
            candidates: Targets as rows; a node's start at ``start[v]`` and are as many as its hidden neighbours.
        """
        slots = (self.count * self.weight)[pool.parent].nonzero().squeeze(1)
        parent, made = pool.parent[slots], pool.features[slots]
        with torch.no_grad():
            target = nearest(made, rows, candidates, start[parent], self.count[parent])
        square = ((made - rows[target]) ** 2).sum(1)
        return sums(square * self.weight[parent], pool.owner[slots], self.local.clients)

    def label_loss(self, logits: Tensor) -> Tensor:
        """L^c ``[G]``: mean cross-entropy of training nodes that are left (Equation 2); logits ``[n, C]``."""
        loss = F.cross_entropy(logits[self.labelled], self.labels, reduction="none") * self.label_weight
        return sums(loss, self.local.owner[self.labelled], self.local.clients)

    def strangers(self, graph: UnionGraph, owners: list[int], each: int, rngs: list[np.random.Generator]) -> Tensor:
        """Neighbours of random nodes of other clients, ``each`` for every node with targets, rows for L^f.

        Every draw is with replacement; nodes without neighbours are never drawn.

        Args:
            owners: The other client that each of these clients looks at.
            rngs: Stream of each of these clients.
        """
        nodes = self.targeted
        sizes = torch.bincount(self.local.owner[nodes], minlength=self.local.clients).tolist()
        found = []
        for owner, size, rng in zip(owners, sizes, rngs, strict=True):
            pointers = graph.adjacency.indptr[graph.ptr[owner] : graph.ptr[owner + 1] + 1].astype(np.int64)
            degree = np.diff(pointers)
            connected = np.flatnonzero(degree)
            node = connected[(rng.random(size) * len(connected)).astype(np.int64)]
            place = pointers[node, None] + (rng.random((size, each)) * degree[node, None]).astype(np.int64)
            found.append(graph.adjacency.indices[place].astype(np.int64).ravel())
        return torch.from_numpy(np.concatenate(found)).to(nodes.device)

    @cached_property
    def targeted(self) -> Tensor:
        """Nodes under loss with at least one hidden neighbour, int64."""
        return (self.count * self.weight).nonzero().squeeze(1)


def _shares(owner: np.ndarray, marked: np.ndarray, clients: int) -> np.ndarray:
    total = np.bincount(owner, weights=marked, minlength=clients)
    shares: np.ndarray = (marked / np.maximum(total, 1)[owner]).astype(np.float32)
    return shares


def _sorted(matrix: sp.csr_matrix) -> sp.csr_matrix:
    matrix = sp.csr_matrix(matrix)
    matrix.sort_indices()
    return matrix


def locals_of(graph: UnionGraph, clients: range, device: torch.device) -> Locals:
    """Whole local graphs of a range of clients."""
    low, high = graph.ptr[clients[0]], graph.ptr[clients[-1] + 1]
    features = graph.base.features[graph.node[low:high]]
    ptr = graph.ptr[clients[0] : clients[-1] + 2] - low
    return Locals.of(features, _sorted(graph.adjacency[low:high, low:high]), ptr, device)


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
