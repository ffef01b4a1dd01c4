"""Small graphs whose links have weights, as any network's own view reads them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import UnionGraph


def weighted_union(
    name: str, features: np.ndarray, links: sp.csr_matrix, labels: np.ndarray, copies: int = 1
) -> UnionGraph:
    """Make the graph that of one client, or of several that are all alike, with the links' weights in the adjacency.

    Args:
        name: Of the graph.
        features: ``[M, d]``.
        links: Weights, 0 on the diagonal ``[M, M]``.
        labels: int64 ``[M]``.
        copies: Of how many clients.
    """
    nodes = np.arange(len(labels))
    base = Graph(
        name=name,
        features=sp.csr_matrix(features),
        adjacency=links,
        labels=labels,
        num_classes=int(labels.max()) + 1,
        original_id=nodes.astype(np.int32),
    )
    adjacency = sp.csr_matrix(sp.block_diag([links] * copies, format="csr"))
    return UnionGraph(base, np.tile(nodes, copies), np.arange(copies + 1) * len(nodes), adjacency)
