"""METIS multilevel k-way as packaged by pymetis, every other option at its default, no weights.

Not the build behind the published tables: same quality, other parts (see ``published``).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import ClassVar

import numpy as np

from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner


@dataclass
class Metis(Partitioner):
    name: ClassVar[str] = "metis"

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[np.ndarray, str]:
        """K-way parts of ``graph``, int64 ``[N]``; the same seed always gives the same parts."""
        import pymetis

        adjacency = graph.adjacency
        csr = pymetis.CSRAdjacency(adjacency.indptr.tolist(), adjacency.indices.tolist())
        # Shifted by one: METIS draws with C's rand(), for which seeds 0 and 1 are the same, and -1 means its default.
        options = pymetis.Options(seed=seed % (2**31 - 1) + 1)
        result = pymetis.part_graph(parts, csr, recursive=False, options=options)
        return np.asarray(result.vertex_part, dtype=np.int64), f"pymetis {version('pymetis')}"
