"""Worlds of K parts, nothing removed, nobody new."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import added
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.settings import NoNewNodes, common
from fgl_repro.federation.split import TEST, Split
from fgl_repro.federation.world import Probe, UnionGraph, World


@dataclass
class Plain(NoNewNodes):
    """The subgraph-FL benchmark of FED-PUB (ICML 2023) and most others.

    Attributes:
        by_class: Whether records hold which class was taken for which.
    """

    name: ClassVar[str] = "plain"
    units: ClassVar[tuple[str, ...]] = ("node", "graph")

    by_class: bool = added(False)

    def build(self, graph: Graph, partitioner: Partitioner, split: Split) -> World:
        """Build the world with ``seen_graph``; every node of a part belongs to its client, isolated ones too.

        Raises:
            UserError: As any setting's, or ``by_class`` is asked for where numbers are predicted.
        """
        if self.by_class and graph.targets is not None:
            raise UserError(
                f"setting.by_class=true is for classes, and of {graph.name} numbers are predicted: set it to false."
            )
        members = partitioner.divide(graph, partitioner.clients, split.seed)
        data = common.client_data(graph, list(members.nodes), partitioner, split)
        tests = replace(common.seen_graph(data), by_class=self.by_class)
        return common.as_world(data, members, (tests,), {})


@dataclass
class GlobalGraph(NoNewNodes):
    """FedSage's question: models trained on parts answer for nodes that are queried on the whole graph.

    Zhang et al., NeurIPS 2021, section 5.1: every owner keeps all nodes of its part, links between owners are lost to
    training, and test nodes of all owners are asked for on the global graph with all its links. Where clients' models
    differ, the accuracy is the mean over the models.

    Roles are drawn once over the whole graph, so that one model trained on everything (``partitioner.clients=1``) sees
    the training nodes of all owners and is tested on the same test nodes. The released code draws them by owner and
    class.
    """

    name: ClassVar[str] = "global_graph"
    probes: ClassVar[tuple[str, ...]] = ("global_graph", "seen_graph")

    def build(self, graph: Graph, partitioner: Partitioner, split: Split) -> World:
        """Build the world with ``global_graph`` and ``seen_graph``, the same test nodes in the owners' own graphs."""
        members = partitioner.divide(graph, partitioner.clients, split.seed)
        data = common.client_data(graph, list(members.nodes), partitioner, split)
        copies = UnionGraph.copies(graph, partitioner.clients)
        rows = np.flatnonzero(data.roles[copies.node] == TEST)
        whole = Probe("global_graph", copies, rows, "clients", histogram=True)
        return common.as_world(data, members, (whole, common.seen_graph(data)), {})
