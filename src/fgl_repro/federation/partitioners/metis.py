"""METIS parts: computed, as published, and as five random halves of each."""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.split import turns_before

STORED = files("fgl_repro.federation.partitioners") / "stored" / "metis51_memberships.npz"
HALVES = 5


@dataclass
class Metis(Partitioner):
    """METIS multilevel k-way as packaged by pymetis, every other option at its default, no weights.

    Not the build behind the published tables: same quality, other parts.
    """

    name: ClassVar[str] = "metis"

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[np.ndarray, str]:
        """Cut ``graph`` into k-way parts, int64 ``[N]``; the same seed always gives the same parts."""
        import pymetis

        adjacency = graph.adjacency
        csr = pymetis.CSRAdjacency(adjacency.indptr.tolist(), adjacency.indices.tolist())
        # Shifted by one: METIS draws with C's rand(), for which seeds 0 and 1 are the same, and -1 means its default.
        options = pymetis.Options(seed=seed % (2**31 - 1) + 1)
        result = pymetis.part_graph(parts, csr, recursive=False, options=options)
        return np.asarray(result.vertex_part, dtype=np.int64), f"pymetis {version('pymetis')}"


@dataclass
class PublishedPartition(Partitioner):
    """The partitions behind the published tables: METIS 5.1.0 memberships, stored.

    Recipe: ``METIS_PartGraphKway`` of METIS 5.1.0, every option at its default, no weights, 32-bit indices, on the
    largest connected component without self-loops and with ascending neighbour lists. Other METIS builds (pymetis among
    them) give parts of the same quality but other ones, hence other splits: the class counts in FedLoG's appendix
    (Tables 12-16) and the edge counts in FED-PUB's supplement only come out with these.
    """

    name: ClassVar[str] = "published"

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[np.ndarray, str]:
        """Return the stored parts of ``graph``, int64 ``[N]``, or pymetis ones where none are (the source says so)."""
        ids = stored(graph.name, "lcc")
        if ids is not None and np.array_equal(ids, graph.original_id):  # the same data set, no cropped nodes
            part = stored(graph.name, parts)
            if part is not None:
                return part, "stored METIS 5.1.0"
        part, source = Metis(parts).assign(graph, parts, seed)
        return part, f"{source} (no stored membership for this graph)"


@dataclass
class Overlap(Partitioner):
    """Clients that share nodes: five random halves of each METIS part (FED-PUB, ICML 2023, supplement B.1).

    Parts are those of ``published``: stored METIS 5.1.0 memberships where there are any (2, 6 and 10 parts for 10, 30
    and 50 clients). Client 5 p + j holds the j-th half of part p, floor(n / 2) nodes drawn without replacement; about
    one node in 32 is in no half. Drawn as the released generator draws, so that with its seed,
    ``protocol.split_seed=1234``, the halves are the published ones on Cora, CiteSeer and PubMed (see
    :func:`fgl_repro.federation.split.turns_before`); nodes are ascending here.
    """

    name: ClassVar[str] = "overlap"
    overlapping: ClassVar[bool] = True

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[list[np.ndarray], str]:
        """Draw the nodes of each of ``parts`` halves, ascending int64.

        Raises:
            UserError: ``parts`` is no multiple of five.
        """
        if parts % HALVES:
            raise UserError(
                f"partitioner=overlap makes {HALVES} clients of each part and cannot make {parts}: "
                f"choose a multiple of {HALVES} for partitioner.clients, in a setting without a new client."
            )
        part, source = PublishedPartition(parts // HALVES).assign(graph, parts // HALVES, seed)
        rng = random.Random(seed)
        for name, count in turns_before(graph.name, parts, overlap=True):
            earlier = stored(name, count // HALVES)
            if earlier is not None:
                _halves(earlier, rng)
        return _halves(part, rng), f"halves of {source}"


def stored(name: str, what: int | str) -> np.ndarray | None:
    """Load the part of each node for a number of parts, or the node ids (``lcc``), int64; None where there are none."""
    with STORED.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        keys = {key.lower(): key for key in arrays.files}
        key = keys.get(f"{name}/{what}")
        return None if key is None else np.asarray(arrays[key], dtype=np.int64)


def _halves(part: np.ndarray, rng: random.Random) -> list[np.ndarray]:
    """Draw five halves of each part, from the part of each node."""
    owns = [np.flatnonzero(part == k) for k in range(int(part.max()) + 1)]
    return [np.sort(rng.sample(own.tolist(), len(own) // 2)) for own in owns for _ in range(HALVES)]
