"""Many graphs as one data set, for tasks whose unit is a whole graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import sparse as sp
from fgl_repro.data.catalog import NAMES, facts
from fgl_repro.data.graph import Graph, array_hash


@dataclass(frozen=True)
class GraphSet(Graph):
    """A graph whose nodes are graphs, without links between them.

    Whatever divides, splits, batches or probes nodes thus does so with graphs; models alone look inside. There, all
    graphs are laid end to end as one disjoint union of M nodes.

    Attributes:
        features: Empty CSR ``[N, d]``, whose width is that of the features inside.
        adjacency: Empty CSR ``[N, N]``.
        labels: Class of each graph, int64 ``[N]``; zeros where a number is to be predicted, with ``num_classes`` 1.
        original_id: Number of each graph in the order of its source, int32 ``[N]``, ascending.
        ptr: Graph g has the inner nodes ``ptr[g]:ptr[g + 1]``, int64 ``[N + 1]``.
        inner: Features of the inner nodes, CSR float32 ``[M, d]``; where they are categories, a one in the block of
            columns of each.
        links: Symmetric 0/1 CSR float32 ``[M, M]`` between inner nodes of one graph, no self-loops, neighbours
            ascending.
        environment: Which distribution each graph is drawn from, int64 ``[N]``, ascending from 0.
        targets: The number to predict for each graph, float32 ``[N]``; None where classes are predicted.
        fields: Width of each category's block of columns; empty where features are numbers.
        bonds: Categories of each stored link, uint8 ``[nnz, B]``, in the order of ``links``; None: all links are alike.
        bond_fields: How many values each of those B categories has.
    """

    ptr: np.ndarray
    inner: sp.csr_matrix
    links: sp.csr_matrix
    environment: np.ndarray
    targets: np.ndarray | None = None
    fields: tuple[int, ...] = ()
    bonds: np.ndarray | None = None
    bond_fields: tuple[int, ...] = ()

    @staticmethod
    def of(
        name: str,
        ptr: np.ndarray,
        inner: sp.csr_matrix,
        links: sp.csr_matrix,
        environment: np.ndarray,
        *,
        labels: np.ndarray | None = None,
        num_classes: int = 1,
        targets: np.ndarray | None = None,
        fields: tuple[int, ...] = (),
        bonds: np.ndarray | None = None,
        bond_fields: tuple[int, ...] = (),
    ) -> GraphSet:
        """Build the data set of these graphs, with ``labels`` or with ``targets``.

        Raises:
            UserError: There is neither; or they or the environments are not one a graph; or these do not ascend.
        """
        count = len(ptr) - 1
        if labels is None and targets is None:
            raise UserError(f"{name} has nothing to predict: give GraphSet.of labels and num_classes, or targets.")
        where = _whole(name, "environment", environment, count)
        steps = np.diff(where, prepend=-1)
        if steps[0] != 1 or steps.min() < 0 or steps.max() > 1:
            raise UserError(
                f"environment of {name} must ascend from 0 without gaps: number environments 0, 1, ... and sort its "
                "graphs by them."
            )
        classes = np.zeros(count, dtype=np.int64) if labels is None else _whole(name, "labels", labels, count)
        with np.errstate(over="ignore"):  # what is too large for float32 is refused in a sentence
            numbers = None if targets is None else np.asarray(targets, dtype=np.float32)
        if numbers is not None and numbers.shape != (count,):
            raise UserError(f"targets of {name} must be a number for each of its {count} graphs.")
        empty = sp.csr_matrix((count, inner.shape[1]), dtype=np.float32)
        apart = sp.csr_matrix((count, count), dtype=np.float32)
        ids = np.arange(count, dtype=np.int32)
        inside = (np.asarray(ptr).astype(np.int64), inner, links, where)
        about = (numbers, fields, bonds, bond_fields)
        return GraphSet(name, empty, apart, classes, num_classes, ids, *inside, *about)

    @property
    def sizes(self) -> dict[str, int]:
        counts = {"graphs": self.num_nodes, "nodes": self.inner.shape[0], "edges": self.links.nnz // 2}
        return counts | {"features": self.num_features, "classes": self.num_classes}

    @property
    def shuffled(self) -> bool:
        """Whether graphs of an environment lie in random order, as in the data sets whose environments are known."""
        return self.name in NAMES and len(facts(self.name).graphs) > 1

    @property
    def num_environments(self) -> int:
        return int(self.environment[-1]) + 1

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the arrays, independent of the file they came from."""
        parts = [
            self.labels.astype("<i8", copy=False),
            self.environment.astype("<i8", copy=False),
            self.ptr.astype("<i8", copy=False),
            self.links.indptr.astype("<i8", copy=False),
            self.links.indices.astype("<i4", copy=False),
            self.inner.indptr.astype("<i8", copy=False),
            self.inner.indices.astype("<i4", copy=False),
            self.inner.data.astype("<f4", copy=False),
            np.array([*self.fields, *self.bond_fields], dtype="<i8"),
        ]
        parts += [] if self.targets is None else [self.targets.astype("<f4", copy=False)]
        parts += [] if self.bonds is None else [self.bonds.astype("u1", copy=False)]
        return array_hash(*parts)


def _whole(name: str, what: str, values: np.ndarray, count: int) -> np.ndarray:
    """Return a whole number for each graph, int64 ``[N]``; UserError if ``values`` are something else."""
    found = np.asarray(values)
    if count < 1 or found.shape != (count,) or found.dtype.kind not in "iub":
        raise UserError(f"{what} of {name} must be a whole number for each graph, of which there are {count}.")
    return found.astype(np.int64)
