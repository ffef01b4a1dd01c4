"""FedSage's question: models trained on parts answer for nodes that are queried on the whole graph.

Zhang et al., NeurIPS 2021, section 5.1: every owner keeps all nodes of its part, links between owners are lost to
training, and test nodes of all owners are asked for on the global graph with all its links. Where clients' models
differ, the accuracy is the mean over the models.

Roles are drawn once over the whole graph, so that one model trained on everything (``partitioner.clients=1``) sees the
training nodes of all owners and is tested on the same test nodes. The released code draws them by owner and class.
"""

from __future__ import annotations

import numpy as np

from fgl_repro.federation.partitioners import membership
from fgl_repro.federation.settings import common
from fgl_repro.federation.settings.common import Plan
from fgl_repro.federation.split import TEST
from fgl_repro.federation.world import Probe, UnionGraph, World


def build(plan: Plan) -> World:
    """Probes ``global_graph`` and ``seen_graph``, the same test nodes in the owners' own graphs."""
    members = membership(plan.partitioner, plan.graph, plan.clients, plan.split_seed)
    learned = common.training(plan, list(members.nodes))
    graph = UnionGraph.copies(plan.graph, plan.clients)
    rows = np.flatnonzero(learned.roles[graph.node] == TEST)
    asked = Probe("global_graph", graph, rows, "clients", histogram=True)
    return common.as_world(learned, members, (asked, common.seen_graph(learned)), {})
