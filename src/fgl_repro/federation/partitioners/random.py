"""Uniformly random parts whose sizes differ by at most one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner


@dataclass
class Random(Partitioner):
    name: ClassVar[str] = "random"

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[np.ndarray, str]:
        """Deal the nodes of ``graph`` round-robin in a random order; int64 ``[N]``."""
        part = np.empty(graph.num_nodes, dtype=np.int64)
        part[numpy_rng("partition", seed).permutation(graph.num_nodes)] = np.arange(graph.num_nodes) % parts
        return part, "random"
