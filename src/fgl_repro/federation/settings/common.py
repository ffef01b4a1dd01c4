"""Pieces the worlds share. Node arrays hold nodes of the whole graph, ascending; K clients, C classes, N nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import sparse as sp
from fgl_repro.data.graph import Graph, induced
from fgl_repro.federation.partitioners import Membership, Partitioner
from fgl_repro.federation.split import TEST, TRAIN, VALIDATION, Split
from fgl_repro.federation.world import Probe, UnionGraph, World


@dataclass(frozen=True)
class Training:
    """What the clients train on.

    Attributes:
        nodes: Nodes R_k of each client.
        graph: Disjoint union of the induced subgraphs on R_k.
        roles: Role of each node of the whole graph, int8 ``[N]``.
        absent: Classes without any node in R_k, bool ``[K, C]``: the removed class and those never there.
        missing: Classes M_k without a *training* node in R_k, bool ``[K, C]``: ``absent`` and those that merely happen
            to have no training node under these roles.
    """

    nodes: list[np.ndarray]
    graph: UnionGraph
    roles: np.ndarray
    absent: np.ndarray
    missing: np.ndarray

    def rows(self, role: int) -> np.ndarray:
        """Union nodes of one role, int64 ``[R]``, ascending."""
        return np.flatnonzero(self.roles[self.graph.node] == role)

    def probe(self, name: str, role: int) -> Probe:
        """The nodes of one role, seen in the training graph."""
        return Probe(name, self.graph, self.rows(role))


def connected_parts(graph: Graph, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Nodes of each part that keep an edge inside it.

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
                "lower partitioner.clients or take another partitioner."
            )
        rarest = int(counts.argmin())
        kept.append(own[labels != present[rarest]])
        removed.append((int(present[rarest]), int(counts[rarest])))
    return kept, removed


def training(graph: Graph, nodes: list[np.ndarray], partitioner: Partitioner, split: Split) -> Training:
    """Roles, training graph and missing classes for clients with ``nodes`` R_k.

    Raises:
        UserError: A client has no training node.
    """
    roles = split.roles(graph.name, graph.num_nodes, partitioner.clients, partitioner.overlapping)
    union = UnionGraph.induced(graph, nodes)
    is_train = roles[union.node] == TRAIN
    of_class = class_counts(union, np.ones_like(is_train))
    trained = class_counts(union, is_train)
    empty = np.flatnonzero(trained.sum(axis=1) == 0)
    if len(empty):
        raise UserError(
            f"Client {empty[0]} of {graph.name} has no training node; lower partitioner.clients, "
            "or take another partitioner or protocol.split_seed."
        )
    return Training(nodes, union, roles, absent=of_class == 0, missing=trained == 0)


def class_counts(union: UnionGraph, chosen: np.ndarray) -> np.ndarray:
    """Nodes of each class at each client, int64 ``[K, C]``, among the ``chosen`` ones (bool, one per union node)."""
    classes = union.base.num_classes
    cell = union.owner[chosen] * classes + union.labels[chosen]
    return np.bincount(cell, minlength=union.num_clients * classes).reshape(union.num_clients, classes)


def indicator(nodes: list[np.ndarray], num_nodes: int) -> np.ndarray:
    """Which client has which node, bool ``[N, K]``."""
    has = np.zeros((num_nodes, len(nodes)), dtype=bool)
    for client, own in enumerate(nodes):
        has[own, client] = True
    return has


def expand(adjacency: sp.csr_matrix, start: np.ndarray, hops: int, through: np.ndarray | None = None) -> np.ndarray:
    """Nodes within ``hops`` of each client's start set, all clients at once: one sparse product a hop, O(hops * edges).

    Args:
        adjacency: Symmetric 0/1 ``[N, N]``.
        start: Start sets R_k, bool ``[N, K]``.
        hops: h.
        through: Nodes outside the start set that paths may use, bool ``[N]``; None for all.

    Returns:
        Expanded sets, start sets included, bool ``[N, K]``.
    """
    reached = start.copy()
    frontier = start
    for _ in range(hops):
        touched = (adjacency @ frontier.astype(np.float32)) > 0
        frontier = touched & ~reached
        if through is not None:
            frontier &= through[:, None]
        if not frontier.any():
            break
        reached |= frontier
    return reached


def new_node_probes(learned: Training, reached: np.ndarray, suffix: str = "") -> tuple[Probe, Probe]:
    """``unseen_node`` and ``missing_class``: nodes a client meets only at test time, by whether it knows their class.

    Both are read from one graph, the subgraph of the whole graph induced on each client's expanded set. A node's role
    elsewhere does not matter: another client's training node is a test node here.

    Args:
        learned: What the clients trained on.
        reached: Expanded sets U_k (R_k included), bool ``[N, K]``.
        suffix: Added to both names, where a world has several expansions.
    """
    base = learned.graph.base
    graph = UnionGraph.induced(base, [np.flatnonzero(column) for column in reached.T])
    own = indicator(learned.nodes, base.num_nodes)
    new = ~own[graph.node, graph.owner]
    missing = learned.missing[graph.owner, graph.labels]
    return (
        Probe(f"unseen_node{suffix}", graph, np.flatnonzero(new & ~missing)),
        Probe(f"missing_class{suffix}", graph, np.flatnonzero(new & missing)),
    )


def as_world(learned: Training, members: Membership, probes: tuple[Probe, ...], facts: dict[str, object]) -> World:
    """Put the pieces together; ``facts`` are the world's own, added to those every world has."""
    missing = class_lists(learned.missing)
    common: dict[str, object] = {
        "source": members.source,
        "hash": members.hash,
        "cut": members.cut,
        "sizes": list(members.sizes),
        "client_nodes": np.diff(learned.graph.ptr).tolist(),
        "missing": missing,
        "test_rows": {probe.name: rows_per_client(probe) for probe in probes},
    }
    return World(
        graph=learned.graph,
        train=learned.rows(TRAIN),
        validation=learned.probe("validation", VALIDATION),
        probes=probes,
        missing=tuple(tuple(classes) for classes in missing),
        facts=common | facts,
    )


def seen_graph(learned: Training) -> Probe:
    """The clients' own test nodes in their training graphs."""
    return learned.probe("seen_graph", TEST)


def rows_per_client(probe: Probe) -> list[int]:
    """Number of probed rows of each client."""
    return [int(count) for count in np.bincount(probe.graph.owner[probe.rows], minlength=probe.graph.num_clients)]


def class_lists(flags: np.ndarray) -> list[list[int]]:
    """Labels of the flagged classes of each client, ascending, from bool ``[K, C]``."""
    return [np.flatnonzero(row).tolist() for row in flags]


def removal_facts(learned: Training, removed: list[tuple[int, int]], parts: list[np.ndarray]) -> dict[str, object]:
    """Facts of the worlds that remove classes; ``parts`` are all parts, the new client's last, isolates dropped."""
    return {
        "part_nodes_connected": [len(nodes) for nodes in parts],
        "removed": [list(pair) for pair in removed],
        "sizes_after_removal": [len(nodes) for nodes in learned.nodes],
        "missing_before_split": class_lists(learned.absent),
    }
