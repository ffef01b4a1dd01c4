"""FedLoG's open set: new nodes are ones that no client had.

"Subgraph Federated Learning for Local Generalization" (ICLR 2025), appendix A.10.2; neither data nor code was released.
A random share of the nodes (20 % in the paper) is cropped before the rest is divided into K + 1 parts; clients lose
their rarest class as in the closed set. The last part is set aside; the paper reports no new client here.

The paper does not say which cropped nodes return to a client at test time, so both readings are probed, each on the
whole graph's edges among the client's nodes R_k and those that return:

* ``unseen_node``, ``missing_class``: all of them, also those far from R_k. This reading gives the printed level.
* ``unseen_node_reached``, ``missing_class_reached``: those that a path of at most h steps inside R_k and the cropped
  nodes joins to R_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.settings import WithHops, common
from fgl_repro.federation.split import Split
from fgl_repro.federation.world import World


@dataclass
class OpenSet(WithHops):
    """FedLoG's open set.

    Attributes:
        crop: Share of the nodes that is held back before the rest is divided.
    """

    name: ClassVar[str] = "open_set"
    revision: ClassVar[int] = 2  # 1 probed only the cropped nodes within reach
    probes: ClassVar[tuple[str, ...]] = (
        *("seen_graph", "unseen_node", "missing_class"),
        *("unseen_node_reached", "missing_class_reached"),
    )

    crop: float = 0.2

    def check(self) -> None:
        super().check()
        if not 0 <= self.crop < 1:
            raise UserError(f"setting.crop={self.crop} must be a share of the nodes, at least 0 and below 1.")

    def build(self, graph: Graph, partitioner: Partitioner, split: Split) -> World:
        """Probes ``seen_graph``, then ``unseen_node`` and ``missing_class`` in both readings."""
        cropped = crop_nodes(graph.num_nodes, self.crop, split.seed)
        rest = np.flatnonzero(~cropped)
        # The rest may fall apart into components; METIS does not mind, and the largest one is not taken again.
        members = partitioner.divide(graph.subgraph(rest), partitioner.clients + 1, split.seed)
        parts = common.connected_parts(graph, [rest[own] for own in members.nodes])
        nodes, removed = common.remove_rarest_class(graph, parts[:-1])
        learned = common.training(graph, nodes, partitioner, split)
        own = common.indicator(nodes, graph.num_nodes)
        reached = common.expand(graph.adjacency, own, self.hops, through=cropped)
        probes = (
            common.seen_graph(learned),
            *common.new_node_probes(learned, own | cropped[:, None]),
            *common.new_node_probes(learned, reached, "_reached"),
        )
        facts = common.removal_facts(learned, removed, parts) | {"cropped": int(cropped.sum())}
        return common.as_world(learned, members, probes, facts)


def crop_nodes(num_nodes: int, share: float, seed: int) -> np.ndarray:
    """A uniformly random round(``share`` N) of the nodes, bool ``[N]``.

    Raises:
        UserError: Nothing is cropped, so that there would be no new node.
    """
    count = round(share * num_nodes)
    if count == 0:
        raise UserError(f"setting.crop={share} holds back no node; the open set needs it above 0, for example 0.2.")
    cropped = np.zeros(num_nodes, dtype=bool)
    cropped[numpy_rng("crop", seed).permutation(num_nodes)[:count]] = True
    return cropped
