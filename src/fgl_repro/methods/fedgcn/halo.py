"""What clients may see of each other's graphs: neighbour sums and halos (FedGCN), nodes they share (FedGNN)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from fgl_repro.data.graph import induced
from fgl_repro.federation.world import UnionGraph
from fgl_repro.nn.view import gcn_norm


@dataclass(frozen=True)
class Halo:
    """Every client's own nodes with those around them, in the joint graph of all training clients.

    The joint graph A_g has the nodes of all clients and all edges of the base graph among them: cross-client edges are
    in it, a held-out client and removed nodes are not.

    Attributes:
        graph: Own nodes and the first ``hops`` rings around them, induced on A_g.
        own: Union nodes of ``graph`` that are client k's own, in the order of the training graph, int64 ``[N]``.
        adjacency: The same blocks cut from D_g^-1/2 (A_g + I) D_g^-1/2, degrees those of A_g.
        sums: Rows of that matrix times the features: exact neighbour sums of every union node, ``[N', d]``.
        ring: Nodes of the halo alone, per client, int64 ``[K]``.
    """

    graph: UnionGraph
    own: np.ndarray
    adjacency: sp.csr_matrix
    sums: sp.csr_matrix
    ring: np.ndarray


def halo_of(union: UnionGraph, hops: int) -> Halo:
    """Halo of the clients of ``union``."""
    base = union.base
    joint = np.unique(union.node)
    adjacency = induced(base.adjacency, joint)
    normal = gcn_norm(adjacency)
    sums = sp.csr_matrix(normal @ base.features[joint])
    nodes, own, blocks, offset = [], [], [], 0
    for k in range(union.num_clients):
        mine = np.searchsorted(joint, union.node[union.ptr[k] : union.ptr[k + 1]])
        reached = _within(adjacency, mine, hops)
        nodes.append(reached)
        own.append(offset + np.searchsorted(reached, mine))
        blocks.append(induced(normal, reached))
        offset += len(reached)
    ptr = np.concatenate([[0], np.cumsum([len(n) for n in nodes])]).astype(np.int64)
    inside = np.concatenate(nodes)
    plain = sp.csr_matrix(sp.block_diag([induced(adjacency, n) for n in nodes], format="csr", dtype=np.float32))
    weighted = sp.csr_matrix(sp.block_diag(blocks, format="csr", dtype=np.float32))
    graph = UnionGraph(base, joint[inside], ptr, plain)
    return Halo(graph, np.concatenate(own), weighted, sums[inside], np.diff(ptr) - np.diff(union.ptr))


@dataclass(frozen=True)
class Widened:
    """Every client's graph with the neighbours that other clients know of its nodes (FedGNN).

    Attributes:
        graph: Own nodes and their neighbours, with all edges among them that some client holds.
        own: Union nodes of ``graph`` that are client k's own, in the order of the training graph, int64 ``[N]``.
    """

    graph: UnionGraph
    own: np.ndarray


def widened(union: UnionGraph) -> Widened:
    """Only edges inside some client's graph are known, so clients that share no node gain nothing."""
    size, held = union.base.num_nodes, union.adjacency.tocoo()
    known = sp.csr_matrix((held.data, (union.node[held.row], union.node[held.col])), shape=(size, size))
    known.data[:] = 1  # an edge that several clients hold is one edge
    nodes, own, offset = [], [], 0
    for k in range(union.num_clients):
        mine = union.node[union.ptr[k] : union.ptr[k + 1]]
        nodes.append(_within(known, mine, 1))
        own.append(offset + np.searchsorted(nodes[-1], mine))
        offset += len(nodes[-1])
    return Widened(UnionGraph.induced(replace(union.base, adjacency=known), nodes), np.concatenate(own))


def _within(adjacency: sp.csr_matrix, start: np.ndarray, hops: int) -> np.ndarray:
    """Nodes at most ``hops`` steps from ``start``, ascending."""
    reached = np.zeros(adjacency.shape[0], dtype=bool)
    reached[start] = True
    for _ in range(hops):
        reached |= (adjacency @ reached.astype(np.float32)) > 0
    return np.flatnonzero(reached)
