"""O-pFGL's label-imbalanced clients: small packs of nodes, grouped by their shares of classes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner, louvain
from fgl_repro.federation.partitioners.louvain import communities, communities_seed, numbered
from fgl_repro.federation.partitioners.metis import Metis

STORED = files("fgl_repro.federation.partitioners") / "stored"
PACKS = 100
"""Packs that a graph is cut into, whatever its size."""
DELTA = 20
"""By how many nodes Louvain's pieces are smaller, and packs may grow larger, than N / PACKS."""
STARTS = 10
"""k-means runs, of which the one with the smallest distances counts."""


@dataclass
class Grouped(Partitioner):
    """Packs of nodes whose vectors of class shares k-means has put in one of K clusters are one client.

    O-pFGL (2025), released code. Clients differ in size and in their shares of classes. Class shares are those of all
    nodes of a pack, validation and test nodes included.

    Attributes:
        division: Whose clients and node roles these are: the ``published`` ones where they are stored (Cora, CiteSeer
            and PubMed, whole, 10 or 20 clients; elsewhere cut anew): what the released code draws by its default seed
            and its authors' versions; one client of CiteSeer by Louvain is described in the paper, and is there.
            ``published_mkl`` (Cora by Louvain, 10 clients, where a tie in k-means was broken by rounding and the
            authors' machine may have broken it the other way), ``recomputed`` (Photo, Computers, CS and Physics, whole,
            10 clients, as ``scripts/opfgl_divisions.py`` draws them, which gives those stored of Cora, by Louvain
            ``published_mkl``, and CiteSeer to the bit), or cut ``anew``, with the seed of the split.
    """

    division: str = "published"
    cut: ClassVar[str]
    clients: int = 10

    def check(self) -> None:
        super().check()
        self.one_of(division=("published", "published_mkl", "recomputed", "anew"))

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[np.ndarray, str]:
        """Return the client of each node, int64 ``[N]``; cut anew where none are stored (the source says so).

        Raises:
            UserError: The alternative is asked for where there is none, or there are fewer packs than clients.
        """
        published = self.division != "recomputed"
        if (part := self.stored(graph, parts, "client")) is not None:
            return part.astype(np.int64), f"{'stored' if published else 'recomputed'} O-pFGL {self.cut}"
        if self.division == "recomputed":
            raise UserError(
                f"no recomputed division of {graph.name} into {parts} clients is stored: there are those of photo, "
                "computers, cs and physics, whole, into 10. Set partitioner.division to anew, or protocol.component to "
                "whole."
            )
        if self.division == "published_mkl":
            raise UserError(
                f"partitioner.division=published_mkl is stored for whole Cora, {OpfglLouvain.name} and 10 clients "
                "alone: set it to published."
            )
        pack = self.packs(graph, seed)
        return grouped(graph, pack, parts, seed), f"O-pFGL {self.cut}, cut anew"

    def roles(self, graph: Graph) -> np.ndarray | None:
        return self.stored(graph, self.clients, "role")

    def stored(self, graph: Graph, parts: int, what: str) -> np.ndarray | None:
        """Load an array of a stored division, uint8 ``[N]``; None where there is none, or where it is not asked for."""
        if self.division == "anew":
            return None
        which = f"{parts}_mkl" if self.division == "published_mkl" else str(parts)
        kept = STORED / ("opfgl_recomputed.npz" if self.division == "recomputed" else "opfgl_partitions.npz")
        with kept.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            name = f"{graph.name}/{self.cut}/{which}/{what}"
            if name not in arrays.files or not np.array_equal(graph.original_id, np.arange(len(arrays[name]))):
                return None
            out: np.ndarray = arrays[name]
            return out

    def packs(self, graph: Graph, seed: int) -> np.ndarray:
        """Return the pack of each node, int64 ``[N]``."""
        raise NotImplementedError(f"the partitioner {self.name} makes no packs")


@dataclass
class OpfglLouvain(Grouped):
    """Packs of pieces of Louvain communities, by O-pFGL's code; most edges end up between clients.

    The paper calls it OpenFGL's split, which keeps communities whole. Cut anew, communities are networkx's,
    largest first (the code's are in the order of their first nodes), and where no pack has room the emptiest one takes
    the piece (the code searches among the first).
    """

    name: ClassVar[str] = "opfgl_louvain"
    cut: ClassVar[str] = "louvain"

    def packs(self, graph: Graph, seed: int) -> np.ndarray:
        quota = graph.num_nodes // PACKS
        if quota <= DELTA:
            raise UserError(
                f"{graph.name} has {graph.num_nodes} nodes, too few for {PACKS} packs of more than {DELTA}: "
                "take another partitioner."
            )
        found = communities(graph, communities_seed(seed))
        return numbered(packed(chopped(found, quota - DELTA), quota), graph.num_nodes)


@dataclass
class OpfglMetis(Grouped):
    """Packs are METIS parts (pymetis), with METIS's seed from that of the split, where the code has METIS's own.

    On graphs as small as Cora and CiteSeer METIS cuts the same packs whatever its seed: divisions drawn anew differ by
    k-means and by roles there, and two of them may have the same clients.
    """

    name: ClassVar[str] = "opfgl_metis"
    cut: ClassVar[str] = "metis"

    def packs(self, graph: Graph, seed: int) -> np.ndarray:
        return Metis(PACKS).assign(graph, PACKS, seed)[0]


def chopped(groups: list[np.ndarray], most: int) -> list[np.ndarray]:
    """Cut groups into pieces of at most ``most`` nodes.

    A group keeps its first ones, what is left joins the end of the queue.
    """
    queue, out = list(groups), []
    for nodes in queue:
        out.append(nodes[:most])
        if len(nodes) > most:
            queue.append(nodes[most:])
    return out


def packed(pieces: list[np.ndarray], quota: int) -> list[list[np.ndarray]]:
    """Pack the pieces, the largest first: a pack is closed at ``quota`` nodes and never grows to DELTA more."""
    return louvain.packed(sorted(pieces, key=len, reverse=True), PACKS, quota, DELTA)


def grouped(
    graph: Graph, pack: np.ndarray, parts: int, seed: int, mend: str = "lower partitioner.clients"
) -> np.ndarray:
    """Group packs of like class shares into clients, and return the client of each node, int64 ``[N]``.

    Args:
        pack: Pack of each node, int64 ``[N]``.
        mend: What a user can do where packs are too few.

    Raises:
        UserError: There are fewer packs than clients.
    """
    found = np.unique(pack)
    if len(found) < parts:
        raise UserError(f"{graph.name} falls into {len(found)} packs, too few for {parts} clients: {mend}.")
    shares = np.stack([np.bincount(graph.labels[pack == p], minlength=graph.num_classes) for p in found])
    cluster = clusters(shares / shares.sum(1, keepdims=True), parts, seed)
    return cluster[np.searchsorted(found, pack)]


def clusters(points: np.ndarray, parts: int, seed: int) -> np.ndarray:
    """Cluster the points ``[P, C]`` by k-means (scipy), the best of ten starts, int64 ``[P]``; no cluster is empty."""
    from scipy.cluster.vq import kmeans2

    best: np.ndarray | None = None
    least = np.inf
    for start in range(STARTS):
        rng = numpy_rng(f"k-means/{start}", seed)
        centres, found = kmeans2(points, parts, iter=300, minit="++", rng=rng)
        distance = float(((points - centres[found]) ** 2).sum())
        if distance < least and len(np.unique(found)) == parts:
            best, least = found.astype(np.int64), distance
    if best is None:
        raise UserError(f"k-means (scipy {version('scipy')}) leaves one of {parts} clients empty; lower their number.")
    return best
