"""A question of one's own: how well nodes with many neighbours are classified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.settings import Setting, common
from fgl_repro.federation.split import TEST, Split
from fgl_repro.federation.world import Probe, World


@dataclass
class Hubs(Setting):
    """Attributes:
    degree: Neighbours at its client that a test node of the probe ``hubs`` has at least.
    """

    name: ClassVar[str] = "hubs"
    probes: ClassVar[tuple[str, ...]] = ("hubs", "seen_graph")

    degree: int = 2

    def build(self, graph: Graph, partitioner: Partitioner, split: Split) -> World:
        """Nothing is removed and nobody is new; probes ``hubs`` and ``seen_graph``."""
        members = partitioner.divide(graph, partitioner.clients, split.seed)
        data = common.client_data(graph, list(members.nodes), partitioner, split)
        rows = data.rows(TEST)
        hubs = rows[np.diff(data.graph.adjacency.indptr)[rows] >= self.degree]
        probes = (Probe("hubs", data.graph, hubs), common.seen_graph(data))
        return common.as_world(data, members, probes, {})
