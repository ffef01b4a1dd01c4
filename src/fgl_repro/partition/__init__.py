"""Partitioners: which client each node of a graph goes to. One module a partitioner, found by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fgl_repro import scan
from fgl_repro.errors import UserError
from fgl_repro.graph import Graph, array_hash

#: ``assign(graph, parts, seed)`` of a partitioner module: part of each node ``[N]``, and where it came from.
Assign = Callable[[Graph, int, int], tuple[np.ndarray, str]]


@dataclass(frozen=True)
class Membership:
    """A node-to-part map and what identifies it.

    Attributes:
        part: Part of each node, int64 ``[N]``, values ``0 .. parts - 1``; no part is empty.
        source: Who computed it, for example ``stored METIS 5.1.0`` or ``random``.
        hash: First ten hex digits of the SHA-256 of the parts as raw bytes (uint8; uint16 above 256 parts).
        cut: Undirected edges between different parts.
        sizes: Nodes of each part.
    """

    part: np.ndarray
    source: str
    hash: str
    cut: int
    sizes: tuple[int, ...]


def membership(name: str, graph: Graph, parts: int, seed: int) -> Membership:
    """Divide ``graph`` into ``parts`` with the partitioner ``name``.

    Args:
        name: Module of this package (``published``, ``metis``, ``random``).
        graph: Graph to divide.
        parts: Number of parts; a setting with a new client asks for one more than there are clients.
        seed: Seed of partitioners that draw at random; stored memberships ignore it.

    Raises:
        UserError: Unknown partitioner, fewer than one part, more parts than nodes, or an empty part.
    """
    assign: Assign = scan.find(__name__, name, "assign", "partitioner.name")
    if parts < 1:
        raise UserError(f"{parts} parts were asked for; partitioner.clients must be at least 1.")
    if parts > graph.num_nodes:
        raise UserError(
            f"{graph.name} has {graph.num_nodes} nodes, too few for {parts} parts; lower partitioner.clients."
        )
    assigned, source = assign(graph, parts, seed)
    part = assigned.astype(np.int64)
    sizes = np.bincount(part, minlength=parts)
    if sizes.min() == 0:
        raise UserError(
            f"{source} left part {int(sizes.argmin())} of {parts} of {graph.name} empty; "
            "lower partitioner.clients or take another partitioner.name."
        )
    compact = part.astype("u1" if parts <= 256 else "<u2")
    return Membership(part, source, array_hash(compact)[:10], edge_cut(graph, part), tuple(sizes.tolist()))


def edge_cut(graph: Graph, part: np.ndarray) -> int:
    """Undirected edges of ``graph`` whose ends lie in different parts; ``part`` is int64 ``[N]``."""
    adjacency = graph.adjacency
    row_part = np.repeat(part, np.diff(adjacency.indptr))
    return int(np.count_nonzero(row_part != part[adjacency.indices])) // 2
