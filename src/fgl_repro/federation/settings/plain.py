"""K parts, nothing removed, nobody new: the subgraph-FL benchmark of FED-PUB (ICML 2023) and most others."""

from __future__ import annotations

from fgl_repro.federation.partitioners import membership
from fgl_repro.federation.settings import common
from fgl_repro.federation.settings.common import Plan
from fgl_repro.federation.world import World


def build(plan: Plan) -> World:
    """Probe ``seen_graph``; every node of a part belongs to its client, isolated ones too."""
    members = membership(plan.partitioner, plan.graph, plan.clients, plan.split_seed)
    learned = common.training(plan, list(members.nodes))
    return common.as_world(learned, members, (common.seen_graph(learned),), {})
