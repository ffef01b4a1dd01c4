"""FedLoG's closed set: new nodes come from other clients, and one part is a client that never trained.

"Subgraph Federated Learning for Local Generalization" (ICLR 2025), appendix A.10.1. The generator was not released; the
rules here are those that reproduce the class counts of the paper's Tables 12-16:

* METIS into K + 1 parts, the last one the new client; nodes isolated by the cut are dropped.
* Each client loses its rarest class; M_k are the classes it then has no training node of.
* U_k: all nodes within h hops of the client's nodes R_k in the *whole* graph, so also in the new client's part, though
  the text speaks of other clients only. New nodes U_k minus R_k may include the client's own removed ones.
* New client: K copies of part K, each answered by one client's model, all nodes count; a plain mean over models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.settings import WithHops, common
from fgl_repro.federation.split import Split
from fgl_repro.federation.world import Probe, UnionGraph, World


@dataclass
class ClosedSet(WithHops):
    name: ClassVar[str] = "closed_set"
    probes: ClassVar[tuple[str, ...]] = ("seen_graph", "unseen_node", "missing_class", "new_client")
    recorded: ClassVar[Mapping[str, Any]] = MappingProxyType({"crop": 0.0})

    def build(self, graph: Graph, partitioner: Partitioner, split: Split) -> World:
        """Probes ``seen_graph``, ``unseen_node``, ``missing_class``, ``new_client``."""
        members = partitioner.divide(graph, partitioner.clients + 1, split.seed)
        parts = common.connected_parts(graph, members.nodes)
        nodes, removed = common.remove_rarest_class(graph, parts[:-1])
        learned = common.training(graph, nodes, partitioner, split)
        own = common.indicator(nodes, graph.num_nodes)
        reached = common.expand(graph.adjacency, own, self.hops)
        probes = (
            common.seen_graph(learned),
            *common.new_node_probes(learned, reached),
            new_client(graph, parts[-1], partitioner.clients),
        )
        return common.as_world(learned, members, probes, common.removal_facts(learned, removed, parts))


def new_client(graph: Graph, nodes: np.ndarray, clients: int) -> Probe:
    """Every client's model on its own copy of the new client's graph, all nodes."""
    if len(nodes) == 0:
        raise UserError(
            f"The new client of {graph.name} has no connected node; "
            "lower partitioner.clients or take another partitioner."
        )
    copies = UnionGraph.induced(graph, [nodes] * clients)
    return Probe("new_client", copies, np.arange(copies.num_nodes), "clients")
