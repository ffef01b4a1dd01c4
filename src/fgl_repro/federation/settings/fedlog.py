"""FedLoG's worlds, whose clients meet new nodes at test time: its closed set and its open set.

"Subgraph Federated Learning for Local Generalization" (ICLR 2025), appendix A.10. Node arrays hold nodes of the whole
graph, ascending; K clients, C classes, N nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import Graph, induced, within
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.settings import Setting
from fgl_repro.federation.settings.common import ClientData, as_world, class_lists, client_data, seen_graph
from fgl_repro.federation.split import Split
from fgl_repro.federation.world import Probe, UnionGraph, World


@dataclass
class NewNodes(Setting):
    """A setting whose clients meet new nodes at test time.

    Attributes:
        hops: Distance h up to which they do.
    """

    hops: int = 0

    def check(self) -> None:
        super().check()
        self.at_least(0, "hops")


@dataclass
class ClosedSet(NewNodes):
    """New nodes come from other clients, and one part is a client that never trained (appendix A.10.1).

    The generator was not released; these rules reproduce the class counts of the paper's Tables 12-16:

    * METIS into K + 1 parts, the last one the new client; nodes isolated by the cut are dropped.
    * Each client loses its rarest class; M_k are the classes it then has no training node of, so that they hang on
      the draw of roles, which is not published: on Photo with five clients one node of client 4, the only one of its
      class there and no training node under split 0, more than doubles the rows of the missing-class probe.
    * U_k: all nodes within h hops of the client's nodes R_k in the *whole* graph, so also in the new client's part,
      though the text speaks of other clients only. New nodes U_k minus R_k may include the client's own removed ones.
      The h of each data set (2 on Cora, 3 on CiteSeer, else 1) was found with three clients, is not stated, and is
      taken to be the same for five and ten. Nor are classes added where missing ones have few nodes, of which the text
      speaks and Tables 12-16 show nothing.
    * New client: K copies of part K, each answered by one client's model, all nodes count; a plain mean over models.
    """

    name: ClassVar[str] = "closed_set"
    probes: ClassVar[tuple[str, ...]] = ("seen_graph", "unseen_node", "missing_class", "new_client")
    apart: ClassVar[bool] = True  # or others would have trained on the new client's nodes
    recorded: ClassVar[Mapping[str, Any]] = {"crop": 0.0}

    @property
    def option_name(self) -> str:
        return self.focus

    def build(self, graph: Graph, partitioner: Partitioner, split: Split) -> World:
        """Build the world with probes ``seen_graph``, ``unseen_node``, ``missing_class``, ``new_client``."""
        members = partitioner.divide(graph, partitioner.clients + 1, split.seed)
        parts = connected_parts(graph, members.nodes)
        data, facts = without_rarest_class(graph, parts, partitioner, split)
        reached = within(graph.adjacency, indicator(data.nodes, graph.num_nodes), self.hops)
        if len(parts[-1]) == 0:
            raise UserError(
                f"The new client of {graph.name} has no connected node; "
                "lower partitioner.clients or take another partitioner."
            )
        copies = UnionGraph.induced(graph, [parts[-1]] * partitioner.clients)
        newcomer = Probe("new_client", copies, np.arange(copies.num_nodes), "clients")
        probes = (seen_graph(data), *new_node_probes(data, reached), newcomer)
        return as_world(data, members, probes, facts)


@dataclass
class OpenSet(NewNodes):
    """New nodes are ones that no client had (appendix A.10.2; neither data nor code was released).

    A random share of the nodes (20 % in the paper) is cropped before the rest is divided into K + 1 parts; clients lose
    their rarest class as in the closed set. The last part is set aside; the paper reports no new client here.

    The paper does not say which cropped nodes return to a client at test time, so both readings are probed, each on the
    whole graph's edges among the client's nodes R_k and those that return:

    * ``unseen_node``, ``missing_class``: all of them, also those far from R_k. This reading gives the printed level.
    * ``unseen_node_reached``, ``missing_class_reached``: those that a path of at most h steps inside R_k and the
      cropped nodes joins to R_k.

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
        """Build the world with probes ``seen_graph``, then ``unseen_node`` and ``missing_class`` in both readings."""
        cropped = crop_nodes(graph.num_nodes, self.crop, split.seed)
        rest = np.flatnonzero(~cropped)
        # The rest may fall apart into components; METIS does not mind, and the largest one is not taken again.
        members = partitioner.divide(graph.subgraph(rest), partitioner.clients + 1, split.seed)
        parts = connected_parts(graph, [rest[own] for own in members.nodes])
        data, facts = without_rarest_class(graph, parts, partitioner, split)
        own = indicator(data.nodes, graph.num_nodes)
        reached = within(graph.adjacency, own, self.hops, through=cropped[:, None])
        new, near = new_node_probes(data, own | cropped[:, None]), new_node_probes(data, reached, "_reached")
        return as_world(data, members, (seen_graph(data), *new, *near), facts | {"cropped": int(cropped.sum())})


def crop_nodes(num_nodes: int, share: float, seed: int) -> np.ndarray:
    """Draw a uniformly random round(``share`` N) of the nodes, bool ``[N]``.

    Raises:
        UserError: Nothing is cropped, so that there would be no new node.
    """
    count = round(share * num_nodes)
    if count == 0:
        raise UserError(f"setting.crop={share} holds back no node; the open set needs it above 0, for example 0.2.")
    cropped = np.zeros(num_nodes, dtype=bool)
    cropped[numpy_rng("crop", seed).permutation(num_nodes)[:count]] = True
    return cropped


def connected_parts(graph: Graph, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the nodes of each part that keep an edge inside it.

    Nodes isolated by the cut are dropped, as in FedLoG's split tables; nodes isolated later, by class removal, stay.

    Args:
        graph: The whole graph.
        parts: Nodes of each part, ascending.
    """
    return [own[np.diff(induced(graph.adjacency, own).indptr) > 0] for own in parts]


def remove_rarest_class(graph: Graph, nodes: list[np.ndarray]) -> tuple[list[np.ndarray], list[tuple[int, int]]]:
    """Take from every client all nodes, of whatever role, of the rarest class it has (ties: the lowest label).

    Returns:
        The nodes R_k that stay, and the (class, number of nodes) taken from each client.

    Raises:
        UserError: A client has one class only and would be left without nodes.
    """
    kept, removed = [], []
    for client, own in enumerate(nodes):
        labels = graph.labels[own]
        present, counts = np.unique(labels, return_counts=True)
        if len(present) < 2:
            raise UserError(
                f"Client {client} of {graph.name} has no node left once its rarest class is removed; "
                "lower partitioner.clients, take another partitioner, or setting=plain, which removes no class."
            )
        rarest = int(counts.argmin())
        kept.append(own[labels != present[rarest]])
        removed.append((int(present[rarest]), int(counts[rarest])))
    return kept, removed


def without_rarest_class(
    graph: Graph, parts: list[np.ndarray], partitioner: Partitioner, split: Split
) -> tuple[ClientData, dict[str, object]]:
    """Take from every part but the last its rarest class; return what they train on then, and facts about that."""
    nodes, removed = remove_rarest_class(graph, parts[:-1])
    data = client_data(graph, nodes, partitioner, split, len(parts))
    return data, {
        "part_nodes_connected": [len(own) for own in parts],
        "removed": [list(pair) for pair in removed],
        "sizes_after_removal": [len(own) for own in nodes],
        "missing_before_split": class_lists(data.graph.nodes_by_class == 0),
    }


def indicator(nodes: list[np.ndarray], num_nodes: int) -> np.ndarray:
    """Mark which client has which node, bool ``[N, K]``."""
    has = np.zeros((num_nodes, len(nodes)), dtype=bool)
    for client, own in enumerate(nodes):
        has[own, client] = True
    return has


def new_node_probes(data: ClientData, reached: np.ndarray, suffix: str = "") -> tuple[Probe, Probe]:
    """Probe nodes that clients meet only at test time, by whether they know the class.

    These are ``unseen_node`` and ``missing_class``.

    Both are read from one graph, the subgraph of the whole graph induced on each client's expanded set. A node's role
    elsewhere does not matter: another client's training node is a test node here.

    Args:
        data: What the clients trained on.
        reached: Expanded sets U_k (R_k included), bool ``[N, K]``.
        suffix: Added to both names, where a world has several expansions.
    """
    base = data.graph.base
    graph = UnionGraph.induced(base, [np.flatnonzero(column) for column in reached.T])
    own = indicator(data.nodes, base.num_nodes)
    new = ~own[graph.node, graph.owner]
    missing = data.missing[graph.owner, graph.labels]
    return (
        Probe(f"unseen_node{suffix}", graph, np.flatnonzero(new & ~missing)),
        Probe(f"missing_class{suffix}", graph, np.flatnonzero(new & missing)),
    )
