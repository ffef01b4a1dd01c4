"""Pieces all worlds share. Node arrays hold nodes of the whole graph, ascending; K clients, C classes, N nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.data.graphset import GraphSet
from fgl_repro.federation.partitioners import Membership, Partitioner
from fgl_repro.federation.split import BY_CLASS, PUBLISHED, TEST, TRAIN, VALIDATION, Split
from fgl_repro.federation.world import Probe, UnionGraph, World


@dataclass(frozen=True)
class ClientData:
    """What the clients train on.

    Attributes:
        nodes: Nodes R_k of each client.
        graph: Disjoint union of the induced subgraphs on R_k.
        roles: Role of each node of the whole graph, int8 ``[N]``.
    """

    nodes: list[np.ndarray]
    graph: UnionGraph
    roles: np.ndarray

    def rows(self, role: int) -> np.ndarray:
        """Return the union nodes of one role, int64 ``[R]``, ascending."""
        return np.flatnonzero(self.roles[self.graph.node] == role)

    def probe(self, name: str, role: int) -> Probe:
        """Build the probe of the nodes of one role, seen in the training graph."""
        return Probe(name, self.graph, self.rows(role))

    @cached_property
    def counts(self) -> np.ndarray:
        """Training nodes of each class at each client, int64 ``[K, C]``."""
        return self.graph.counts(self.rows(TRAIN))

    @cached_property
    def missing(self) -> np.ndarray:
        """Classes M_k without a *training* node in R_k, bool ``[K, C]``.

        The removed class, those never there, and those that merely happen to have no training node under these roles.
        """
        lacks: np.ndarray = self.counts == 0
        return lacks


def client_data(
    graph: Graph, nodes: list[np.ndarray], partitioner: Partitioner, split: Split, parts: int | None = None
) -> ClientData:
    """Work out roles, training graph and missing classes for clients with ``nodes`` R_k.

    Args:
        parts: How many parts there are, those of no client among them; None: one for each client, as roles are
            published for.

    Raises:
        UserError: A client has no training node.
    """
    if split.source == "partitioner":
        drawn = partitioner.drawn_roles(graph, split)
        if drawn is None:
            asked = "graphs" if isinstance(graph, GraphSet) else "nodes"
            raise UserError(
                f"protocol.split_source=partitioner is for a partitioner that draws roles with its parts, which "
                f"{partitioner.name} does not do: choose a protocol for {asked}, or set it to stream."
            )
        roles = drawn
    elif split.source not in BY_CLASS:
        roles = split.roles(graph.name, graph.num_nodes, partitioner.clients, partitioner.overlapping)
    elif partitioner.overlapping:
        raise UserError(f"protocol.split_source={split.source} is for clients that share no nodes: set it to stream.")
    else:
        known = parts in (None, partitioner.clients) and (split.seed, split.ratios) == PUBLISHED
        published = partitioner.roles(graph) if known else None
        roles = split.roles_by_class(graph.labels, nodes) if published is None else published
    data = ClientData(nodes, UnionGraph.induced(graph, nodes), roles)
    empty = np.flatnonzero(data.missing.all(axis=1))
    if len(empty):
        raise UserError(
            f"Client {empty[0]} of {graph.name} has no training node; lower partitioner.clients, "
            "or take another partitioner or protocol.split_seed."
        )
    return data


def as_world(data: ClientData, members: Membership, probes: tuple[Probe, ...], facts: dict[str, object]) -> World:
    """Put the pieces together; ``facts`` are the world's own, added to those every world has."""
    missing = class_lists(data.missing)
    common: dict[str, object] = {
        "source": members.source,
        "hash": members.hash,
        "cut": members.cut,
        "sizes": list(members.sizes),
        "client_nodes": np.diff(data.graph.ptr).tolist(),
        "missing": missing,
        "test_rows": {probe.name: probe.counts.sum(axis=1).tolist() for probe in probes},
    }
    validation = data.probe("validation", VALIDATION)
    return World(data.graph, data.rows(TRAIN), validation, probes, missing, common | facts)


def seen_graph(data: ClientData) -> Probe:
    """Build the probe of the clients' own test nodes in their training graphs."""
    return data.probe("seen_graph", TEST)


def class_lists(flags: np.ndarray) -> list[list[int]]:
    """List the labels of the flagged classes of each client, ascending, from bool ``[K, C]``."""
    return [np.flatnonzero(row).tolist() for row in flags]
