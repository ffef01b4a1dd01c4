"""Local graphs made better: generated neighbours attached to the nodes of a union graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp
import torch

from fgl_repro.federation.world import UnionGraph
from fgl_repro.fl.inputs import Inputs
from fgl_repro.nn import view as views_of
from fgl_repro.nn.models.sage import SageView
from fgl_repro.nn.sampling import Neighbours
from fgl_repro.nn.sparse import DenseOp, SparseOp
from fgl_repro.nn.view import Padded, Views

ROWS = 1024
"""Nodes whose surroundings are laid out at a time."""


class MendedGraph:
    """A union graph with generated neighbours; a batch takes its rows from what is laid out once for all nodes.

    Attributes:
        parent: Union node that each generated neighbour hangs on, int64 ``[S]``, ascending.
        features: Of the generated neighbours, float32 ``[S, d]``.
        slots: At most so many hang on one node.
    """

    def __init__(self, graph: UnionGraph, parent: np.ndarray, features: np.ndarray, slots: int) -> None:
        """Take generated nodes in any order of parents."""
        order = np.argsort(parent, kind="stable")
        self.graph, self.parent, self.features, self.slots = graph, parent[order], features[order], slots

    @cached_property
    def hung(self) -> sp.csr_matrix:
        """Which generated neighbour hangs on which node: 0/1 ``[N, S]``."""
        size = len(self.parent)
        ones = np.ones(size, dtype=np.float32)
        return sp.csr_matrix((ones, (self.parent, np.arange(size))), shape=(self.graph.num_nodes, size))

    @cached_property
    def degree(self) -> np.ndarray:
        """Neighbours of both kinds, int64 ``[N]``."""
        return np.asarray(self.graph.degree + np.diff(self.hung.indptr))

    @cached_property
    def scale(self) -> np.ndarray:
        """1 / degree, float32 ``[N]``."""
        return np.asarray(1 / np.maximum(self.degree, 1), dtype=np.float32)

    @cached_property
    def inputs(self) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """Of real nodes ``[N, 2d]`` and of generated ones ``[S, 2d]``: mean over neighbours, beside own features."""
        own, new = self.graph.base.features[self.graph.node], sp.csr_matrix(self.features)
        around = sp.diags_array(self.scale) @ (self.graph.adjacency @ own + self.hung @ new)
        real, made = sp.hstack([around, own]), sp.hstack([own[self.parent], new])
        return sp.csr_matrix(real, dtype=np.float32), sp.csr_matrix(made, dtype=np.float32)

    def neighbours(self, device: torch.device) -> Neighbours:
        """Return what sampled batches are drawn from: generated neighbours follow the real nodes."""
        graph = self.graph
        adjacency = sp.csr_matrix(sp.block_array([[graph.adjacency, self.hung], [self.hung.T, None]], format="csr"))
        owner = np.concatenate([graph.owner, graph.owner[self.parent]])
        return Neighbours(graph, adjacency, owner, device, self.features)

    def view(self, rows: np.ndarray, device: torch.device) -> SageView:
        """Build what GraphSAGE needs to predict ``rows`` (union nodes, ascending).

        Inner nodes are the rows, their neighbours, and ``slots`` places for generated neighbours of each row, used or
        not: the width, and with it what dropout draws for a client, does not depend on what others generated.
        Inputs in closed form, g_v generated neighbours and d_v real ones: a real node has
        ``[(sum of both kinds of neighbours) / (d_v + g_v) | x_v]``, a generated one ``[x_parent | x]``.
        """
        graph, links, hung = self.graph, self.graph.adjacency[rows], self.hung[rows]
        close = np.union1d(rows, links.indices).astype(np.int64)
        outer, real = Padded.of(rows, graph), Padded.of(close, graph)
        width = real.width + outer.width * self.slots
        at = np.repeat(np.arange(len(rows)), np.diff(hung.indptr))
        column, rank = outer.slot[at] % outer.width, np.arange(hung.nnz) - hung.indptr[at]
        places = graph.owner[close] * width + real.slot % real.width
        made = graph.owner[rows[at]] * width + real.width + column * self.slots + rank
        nodes, slot = np.concatenate([close, rows[at]]), np.concatenate([places, made])
        order = np.argsort(slot)
        inner = Padded(nodes[order], slot[order], graph.num_clients, width)
        of_real, of_made = self.inputs
        inputs = sp.csr_matrix(sp.vstack([of_real[close], of_made[hung.indices]]))[order].sorted_indices()
        thin = views_of.few(inputs.nnz, inner.size, inputs.shape[1])
        links = sp.hstack([links[:, close], hung[:, hung.indices]], format="csr")[:, order]
        mean = sp.diags_array(self.scale[rows]) @ links
        tensor = partial(torch.as_tensor, device=device)
        return SageView(
            dense=None if thin else DenseOp(tensor(inner.scatter(inputs.toarray()))),
            sparse=SparseOp.of(views_of.blocks(inputs, inner, graph), device) if thin else None,
            inner=None,
            outer=SparseOp.of(outer.place(mean, inner), device),
            root=tensor(outer.scatter(places[np.searchsorted(close, rows)]).ravel()),
            degree=tensor(outer.scatter(self.degree[rows].astype(np.float32))),
            **outer.tensors(graph, device),
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
    """Measure how far the mean feature of a node's neighbours is from that in the base graph (FedSage, Table D1).

    Returns:
        Mean and std of the L2 distance, of the ``original`` graph and of the ``mended`` one, over ``all`` union nodes
        and over those that ``lost`` neighbours; no neighbours count as a mean of 0.
    """
    graph, base = mended.graph, mended.graph.base
    whole, own = base.adjacency[graph.node], base.features[graph.node]
    degrees, everything = graph.degree, np.diff(whole.indptr)
    parts: dict[str, list[np.ndarray]] = {"original": [], "mended": []}
    for start in range(0, graph.num_nodes, ROWS):
        part = slice(start, start + ROWS)
        truth = (whole[part] @ base.features).toarray() / _some(everything[part])
        real = (graph.adjacency[part] @ own).toarray()
        made = mended.hung[part] @ mended.features
        parts["original"].append(np.linalg.norm(real / _some(degrees[part]) - truth, axis=1))
        parts["mended"].append(np.linalg.norm((real + made) / _some(mended.degree[part]) - truth, axis=1))
    found = {name: np.concatenate(values) for name, values in parts.items()}
    lost = everything > degrees
    nodes = {"all": np.ones_like(lost), "lost": lost if lost.any() else ~lost}
    return {
        which: {name: [float(values[chosen].mean()), float(values[chosen].std())] for name, values in found.items()}
        for which, chosen in nodes.items()
    }


def _some(degree: np.ndarray) -> np.ndarray:
    """Return degrees, at least 1, as a column ``[n, 1]``."""
    return np.asarray(np.maximum(degree, 1)[:, None], dtype=np.float32)
