"""Partitioners: which nodes of a graph each client gets. One file a partitioner, found by its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import sparse as sp
from fgl_repro.core.schema import Option
from fgl_repro.data.dataset import Dataset
from fgl_repro.data.graph import Graph, array_hash
from fgl_repro.data.graphset import GraphSet
from fgl_repro.federation.split import Split


@dataclass(frozen=True)
class Membership:
    """The nodes of each part and what identifies them.

    Attributes:
        nodes: Nodes of each part, int64, ascending; none is empty, and a node may be in several or in none.
        source: Who computed it, for example ``stored METIS 5.1.0`` or ``random``.
        hash: First ten hex digits of a SHA-256: of the part of each node as raw bytes (uint8; uint16 above 256 parts)
            where every node has just one, else of the sizes and then the nodes of the parts (int32).
        cut: Undirected edges that are inside no part.
        sizes: Nodes of each part.
    """

    nodes: tuple[np.ndarray, ...]
    source: str
    hash: str
    cut: int
    sizes: tuple[int, ...]


@dataclass
class Partitioner(Option):
    """A partitioner divides a graph among ``clients``. Subclasses add their parameters and override ``assign``.

    Attributes:
        overlapping: Whether parts may share nodes.
        units: What it can divide: ``node`` for those of one graph, ``graph`` where there are many without links.
        clients: Number of clients K that train.
    """

    axis: ClassVar[str] = "partitioner"
    overlapping: ClassVar[bool] = False
    units: ClassVar[tuple[str, ...]] = ("node",)

    clients: int = 3

    def check(self) -> None:
        self.at_least(1, "clients")

    def check_sizes(self, dataset: Dataset) -> None:
        """Refuse, with a :class:`UserError`, what the data set is known to be too small for before it is loaded."""

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[np.ndarray | list[np.ndarray], str]:
        """Return the part of each node ``[N]``, or, where parts may share nodes, the ascending nodes of each; and how
        they were made.

        Args:
            graph: Graph to divide.
            parts: Number of parts.
            seed: Seed of whatever is drawn at random; stored memberships ignore it.
        """
        raise NotImplementedError(f"the partitioner {self.name} assigns nothing")

    def roles(self, graph: Graph) -> np.ndarray | None:
        """Return the published role of each node ``[N]`` where ``clients`` are all parts; default: none.

        They are for protocols that draw roles client by client.
        """
        return None

    def drawn_roles(self, graph: Graph, split: Split) -> np.ndarray | None:
        """Return the role of each node ``[N]`` as it is drawn together with the parts; default: this is not done."""
        return None

    def divide(self, graph: Graph, parts: int, seed: int) -> Membership:
        """Divide ``graph`` into ``parts``; a setting with a new client wants one more than there are clients.

        Raises:
            UserError: More parts than nodes, or an empty part.
        """
        extra = f" ({self.clients} clients and a new one)" if parts > self.clients else ""
        if parts > graph.num_nodes:
            what = "graphs" if isinstance(graph, GraphSet) else "nodes"
            raise UserError(
                f"{graph.name} has {graph.num_nodes} {what}, too few for {parts} parts{extra}; "
                "lower partitioner.clients."
            )
        made = self.assign(graph, parts, seed)
        if fault := _fault(made, graph.num_nodes, parts):
            raise UserError(f"the partitioner {self.name} {fault}: see assign() in docs/adding.md.")
        assigned, source = made
        if isinstance(assigned, np.ndarray):
            hashed: tuple[np.ndarray, ...] = (assigned.astype("u1" if parts <= 256 else "<u2"),)
            nodes = tuple(np.flatnonzero(assigned == k) for k in range(parts))
        else:
            nodes = tuple(assigned)
            hashed = (np.array([len(own) for own in nodes], dtype="<i4"), np.concatenate(nodes).astype("<i4"))
        sizes = tuple(len(own) for own in nodes)
        if min(sizes) == 0:
            raise UserError(
                f"{source} left part {sizes.index(0)} of {parts} of {graph.name} empty{extra}; "
                "lower partitioner.clients or take another partitioner, or, if it draws, another protocol.split_seed."
            )
        return Membership(nodes, source, array_hash(*hashed)[:10], edge_cut(graph, nodes), sizes)


def _fault(made: object, nodes: int, parts: int) -> str:
    """Tell what is wrong with what a partitioner's ``assign`` has returned; empty if nothing is."""
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], str)):
        return "returns something other than the parts and, in words, how they were made"
    assigned = made[0]
    if isinstance(assigned, np.ndarray):
        if assigned.dtype.kind not in "iub" or assigned.shape != (nodes,):
            return f"gives {assigned.dtype} {list(assigned.shape)}, where whole numbers [{nodes}] belong, one a node"
        low, high = int(assigned.min()), int(assigned.max())
        return "" if low >= 0 and high < parts else f"gives parts {low} to {high}, where there are 0 to {parts - 1}"
    if not isinstance(assigned, list | tuple) or len(assigned) != parts:
        return f"gives neither an array, the part of each node, nor a list of {parts} arrays, the nodes of each part"
    for k, own in enumerate(assigned):
        if not isinstance(own, np.ndarray) or own.ndim != 1:
            return f"gives part {k} something other than an array of nodes"
        if own.size and not (own.dtype.kind in "iu" and _ascending(own.astype(np.int64), nodes)):
            return f"gives part {k} something other than ascending numbers of nodes, below {nodes}"
    return ""


def _ascending(own: np.ndarray, nodes: int) -> bool:
    return bool(own[0] >= 0 and own[-1] < nodes and (np.diff(own) > 0).all())


def edge_cut(graph: Graph, nodes: Sequence[np.ndarray]) -> int:
    """Count the undirected edges of ``graph`` whose ends share none of the parts with these ``nodes``."""
    upper = sp.triu(graph.adjacency, format="coo")
    inside = np.zeros(upper.nnz, dtype=bool)
    for own in nodes:
        has = np.zeros(graph.num_nodes, dtype=bool)
        has[own] = True
        inside |= has[upper.row] & has[upper.col]
    return int(np.count_nonzero(~inside))
