"""One attributed graph, as every other module sees it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fgl_repro.core.lazy import sparse as sp


@dataclass(frozen=True)
class Graph:
    """An undirected attributed graph; knows nothing of clients.

    Attributes:
        name: Dataset name, for example ``cora``.
        features: Node features, CSR float32 ``[N, d]``.
        adjacency: Symmetric CSR float32 ``[N, N]``, no self-loops, neighbour lists ascending; links weigh 1, but of
            condensed graphs anything above 0.
        labels: Class of each node, int64 ``[N]``.
        num_classes: Number of classes C of the whole data set.
        original_id: Node id in the raw files, int32 ``[N]``, ascending.
    """

    name: str
    features: sp.csr_matrix
    adjacency: sp.csr_matrix
    labels: np.ndarray
    num_classes: int
    original_id: np.ndarray

    @property
    def num_nodes(self) -> int:
        return int(self.labels.shape[0])

    @property
    def num_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def num_edges(self) -> int:
        """Undirected edges."""
        return int(self.adjacency.nnz // 2)

    @property
    def targets(self) -> np.ndarray | None:
        """The number to predict for each node, float32 ``[N]``; None where classes are predicted, as of one graph."""
        return None

    @property
    def sizes(self) -> dict[str, int]:
        """How large the graph is, by what is counted."""
        counts = {"nodes": self.num_nodes, "edges": self.num_edges}
        return counts | {"features": self.num_features, "classes": self.num_classes}

    @cached_property
    def degree(self) -> np.ndarray:
        """Neighbours of each node, int32 ``[N]``."""
        return np.diff(self.adjacency.indptr)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the arrays, independent of the file they came from."""
        parts = (
            self.original_id.astype("<i4"),
            self.labels.astype("<i8"),
            self.adjacency.indptr.astype("<i8"),
            self.adjacency.indices.astype("<i4"),
            self.features.indptr.astype("<i8"),
            self.features.indices.astype("<i4"),
            self.features.data.astype("<f4"),
        )
        return array_hash(*parts)

    def subgraph(self, nodes: np.ndarray) -> Graph:
        """Return the induced subgraph on ``nodes``, int64 ``[n]``, ascending, relabelled in that order."""
        return Graph(
            name=self.name,
            features=self.features[nodes],
            adjacency=induced(self.adjacency, nodes),
            labels=self.labels[nodes],
            num_classes=self.num_classes,
            original_id=self.original_id[nodes],
        )


def induced(adjacency: sp.csr_matrix, nodes: np.ndarray) -> sp.csr_matrix:
    """Cut rows and columns ``nodes`` ``[n]`` out of ``adjacency`` ``[N, N]``, neighbour lists ascending: ``[n, n]``."""
    sub = sp.csr_matrix(adjacency[nodes][:, nodes])
    sub.sort_indices()
    return sub


def within(adjacency: sp.csr_matrix, start: np.ndarray, hops: int, through: np.ndarray | None = None) -> np.ndarray:
    """Find the nodes within ``hops`` of a start set, or of several at once, by one sparse product a hop.

    Args:
        adjacency: Symmetric 0/1 ``[N, N]``.
        start: Start sets, bool ``[N]`` or ``[N, K]``.
        through: Nodes outside the start sets that paths may use, of the shape ``[N]`` or ``[N, 1]``; None for all.

    Returns:
        Expanded sets, start sets included, bool, of the shape of ``start``.
    """
    reached = start
    for _ in range(hops):
        touched = (adjacency @ reached.astype(np.float32)) > 0
        reached = reached | (touched if through is None else touched & through)
    return reached


def offsets(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return where parts of these ``lengths``, laid end to end, begin, and where the last ends; int64 ``[n + 1]``."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def array_hash(*arrays: np.ndarray) -> str:
    """Return the SHA-256 hex digest over the raw bytes of ``arrays``."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
