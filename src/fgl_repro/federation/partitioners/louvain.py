"""Louvain communities, packed into owners or merged at random."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import numpy_rng, stream_seed
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner

DELTA = 20
"""By how many nodes pieces are smaller, and owners may grow larger, than S; at most half of S."""
SMALLEST_CLASS = 2
"""Nodes of each class that every owner should have."""


_FOUND: dict[tuple[str, int, float], list[np.ndarray]] = {}
"""Communities that were found, by graph, seed and resolution: they are the same for every number of clients."""


def communities(graph: Graph, seed: int, resolution: float = 1.0) -> list[np.ndarray]:
    """Find disjoint node sets of largest modularity (Blondel et al., 2008), largest first, each ascending int64."""
    asked = graph.fingerprint, seed, resolution
    if asked not in _FOUND:
        _FOUND[asked] = _communities(graph, seed, resolution)
    return list(_FOUND[asked])


def _communities(graph: Graph, seed: int, resolution: float) -> list[np.ndarray]:
    import networkx as nx

    whole = nx.from_scipy_sparse_array(graph.adjacency)
    found = nx.community.louvain_communities(whole, resolution=resolution, seed=seed)
    arrays = [np.array(sorted(nodes), dtype=np.int64) for nodes in found]
    for array in arrays:
        array.setflags(write=False)  # several worlds share them
    return sorted(arrays, key=lambda nodes: (-len(nodes), int(nodes[0])))


def communities_seed(seed: int) -> int:
    """Return the seed of the stream ``louvain``, cut to the 32 bits that networkx takes."""
    return stream_seed("louvain", seed) % 2**32


def numbered(held: Iterable[Iterable[np.ndarray]], num_nodes: int) -> np.ndarray:
    """Return for each node the place in ``held`` of the pieces that it is in, int64 ``[N]``; every node is in one."""
    place = np.empty(num_nodes, dtype=np.int64)
    for number, pieces in enumerate(held):
        for nodes in pieces:
            place[nodes] = number
    return place


@dataclass
class Louvain(Partitioner):
    """FedSage's packing of communities into M owners of about equal size.

    Zhang et al., NeurIPS 2021, section 5.1, say no more. The rules are those of the released code; S = N // M:

    1. Communities longer than S - 20 nodes are cut into pieces of S - 20 (nodes in the graph's order).
    2. Pieces, longest first, go to the owner at hand. Owners with S nodes or more are done; the next one is at hand
       while the piece would bring this one to S + 20 or more. The code loops for ever if no owner can take it; here the
       one with the fewest nodes does.
    3. Class by class, an owner with fewer than two nodes of the class gets one, the last, from each owner with more
       than two.

    The code's Louvain is python-louvain, unseeded; this one is networkx's, with the stream ``louvain`` of the seed.
    """

    name: ClassVar[str] = "louvain"

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[np.ndarray, str]:
        """Give the nodes to owners of about equal size, int64 ``[N]``; one part is the whole graph."""
        size = graph.num_nodes // parts
        delta = min(DELTA, size // 2)
        source = f"Louvain (networkx {version('networkx')}), pieces of at most N/M - {delta}, packed"
        if parts == 1:
            return np.zeros(graph.num_nodes, dtype=np.int64), source
        found = communities(graph, communities_seed(seed))
        part = numbered(packed(cut(found, size - delta), parts, size, delta), graph.num_nodes)
        return repaired(part, graph.labels, parts), f"{source}, {SMALLEST_CLASS} nodes of each class"


@dataclass
class LouvainMerged(Partitioner):
    """Louvain communities merged at random to the wanted number of clients (FED-PUB, ICML 2023, supplement C.2).

    The supplement says no more than that; the released code has no such generator. Here the communities are dealt out
    in random order, one to each client in turn, so that clients get equally many communities, not nodes.
    """

    name: ClassVar[str] = "louvain_merged"

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[np.ndarray, str]:
        """Merge communities into parts, and return the part of each node, int64 ``[N]``.

        Raises:
            UserError: There are fewer communities than ``parts``.
        """
        found = communities(graph, seed)  # not of the stream: with another seed recorded runs would have other clients
        if len(found) < parts:
            raise UserError(
                f"{graph.name} has {len(found)} Louvain communities, too few for {parts} parts; "
                "lower partitioner.clients."
            )
        part = np.empty(graph.num_nodes, dtype=np.int64)
        for place, number in enumerate(numpy_rng("louvain", seed).permutation(len(found))):
            part[found[number]] = place % parts
        return part, f"{len(found)} Louvain communities of networkx {version('networkx')}, merged"


def cut(found: list[np.ndarray], most: int) -> list[np.ndarray]:
    """Cut node sets into pieces of at most ``most`` nodes, longest first."""
    pieces = [nodes[start : start + most] for nodes in found for start in range(0, len(nodes), most)]
    return sorted(pieces, key=lambda nodes: -len(nodes))


def packed(pieces: list[np.ndarray], parts: int, size: int, delta: int) -> list[list[np.ndarray]]:
    """Pack the pieces, and return those of each owner in the order in which they came.

    An owner is full at ``size``, below ``size + delta``.
    """
    held: list[list[np.ndarray]] = [[] for _ in range(parts)]
    count, open_to, at = [0] * parts, list(range(parts)), 0
    for piece in pieces:
        while len(open_to) > 1 and count[open_to[at]] >= size:
            del open_to[at]
            at %= len(open_to)
        for _ in open_to:
            if count[open_to[at]] + len(piece) < size + delta:
                break
            at = (at + 1) % len(open_to)
        else:
            at = min(range(len(open_to)), key=lambda i: count[open_to[i]])
        owner = open_to[at]
        held[owner].append(piece)
        count[owner] += len(piece)
    return held


def repaired(part: np.ndarray, labels: np.ndarray, parts: int) -> np.ndarray:
    """Move single nodes of rare classes to owners with too few, and return the owners ``[N]`` (rule 3)."""
    part = part.copy()
    for label in np.unique(labels):
        held = [np.flatnonzero((part == owner) & (labels == label)).tolist() for owner in range(parts)]
        for owner, own in enumerate(held):
            if len(own) >= SMALLEST_CLASS:
                continue
            for donor in held:
                if len(donor) > SMALLEST_CLASS:
                    part[donor[-1]] = owner
                    own.append(donor.pop())
    return part
