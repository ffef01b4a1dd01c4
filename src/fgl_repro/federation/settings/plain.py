"""K parts, nothing removed, nobody new: the subgraph-FL benchmark of FED-PUB (ICML 2023) and most others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.settings import Setting, common
from fgl_repro.federation.split import Split
from fgl_repro.federation.world import World


@dataclass
class Plain(Setting):
    name: ClassVar[str] = "plain"
    recorded: ClassVar[Mapping[str, Any]] = MappingProxyType({"hops": 0, "crop": 0.0})

    def build(self, graph: Graph, partitioner: Partitioner, split: Split) -> World:
        """Probe ``seen_graph``; every node of a part belongs to its client, isolated ones too."""
        members = partitioner.divide(graph, partitioner.clients, split.seed)
        learned = common.training(graph, list(members.nodes), partitioner, split)
        return common.as_world(learned, members, (common.seen_graph(learned),), {})
