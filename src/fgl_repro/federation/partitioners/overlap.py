"""Clients that share nodes: five random halves of each METIS part (FED-PUB, ICML 2023, supplement B.1).

Parts are those of ``published``: stored METIS 5.1.0 memberships where there are any (2, 6 and 10 parts for 10, 30
and 50 clients). Client 5 p + j holds the j-th half of part p, floor(n / 2) nodes drawn without replacement; about one
node in 32 is in no half. Drawn as the released generator draws, so that with its seed, ``protocol.split_seed=1234``,
the halves are the published ones on Cora, CiteSeer and PubMed (see :mod:`fgl_repro.federation.fedpub_draws`); nodes
are ascending here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.fedpub_draws import turns_before
from fgl_repro.federation.partitioners import Partitioner, published

HALVES = 5


@dataclass
class Overlap(Partitioner):
    name: ClassVar[str] = "overlap"
    overlapping: ClassVar[bool] = True

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[list[np.ndarray], str]:
        """Nodes of each of ``parts`` halves, ascending int64.

        Raises:
            UserError: ``parts`` is no multiple of five.
        """
        if parts % HALVES:
            raise UserError(
                f"partitioner=overlap makes {HALVES} clients of each part and cannot make {parts}: "
                f"choose a multiple of {HALVES} for partitioner.clients, in a setting without a new client."
            )
        part, source = published.Published(parts // HALVES).assign(graph, parts // HALVES, seed)
        rng = random.Random(seed)
        for name, count in turns_before(graph.name, parts, overlap=True):
            earlier = published.stored(name, count // HALVES)
            if earlier is not None:
                _halves(earlier, rng)
        return _halves(part, rng), f"halves of {source}"


def _halves(part: np.ndarray, rng: random.Random) -> list[np.ndarray]:
    """Five halves of each part, from the part of each node."""
    owns = [np.flatnonzero(part == k) for k in range(int(part.max()) + 1)]
    return [np.sort(rng.sample(own.tolist(), len(own) // 2)) for own in owns for _ in range(HALVES)]
