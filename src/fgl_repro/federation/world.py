"""The federation as one graph: what flows from a setting to the engine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import sparse as sp
from fgl_repro.data.graph import Graph, induced, offsets

Average = Literal["pooled", "clients", "nodes"]


@dataclass(frozen=True)
class UnionGraph:
    """Disjoint union of K graphs cut from one base graph; a base node may occur at several clients.

    Attributes:
        base: The graph the nodes come from.
        node: Base-graph node of each union node, int64 ``[N]``; clients contiguous, ascending inside a client.
        ptr: Client k owns union nodes ``ptr[k]:ptr[k + 1]``, int64 ``[K + 1]``.
        adjacency: Block-diagonal symmetric CSR float32 ``[N, N]``, no self-loops; links weigh 1, but of condensed
            graphs anything above 0.
        block: The graph of one client, where the union was made as copies of it; else None.
    """

    base: Graph
    node: np.ndarray
    ptr: np.ndarray
    adjacency: sp.csr_matrix
    block: UnionGraph | None = None

    @staticmethod
    def copies(base: Graph, clients: int) -> UnionGraph:
        """Give the whole of ``base`` to every client."""
        everything = np.arange(base.num_nodes)
        whole = UnionGraph.induced(base, [everything] * clients)
        return replace(whole, block=UnionGraph.induced(base, [everything]))

    @staticmethod
    def induced(base: Graph, nodes: list[np.ndarray]) -> UnionGraph:
        """Unite the induced subgraphs of ``base`` on each array of (ascending) nodes."""
        ptr = offsets([len(own) for own in nodes])
        blocks = [induced(base.adjacency, n) for n in nodes]
        adjacency = sp.block_diag(blocks, format="csr", dtype=np.float32)
        return UnionGraph(base, np.concatenate(nodes).astype(np.int64), ptr, sp.csr_matrix(adjacency))

    def of_clients(self, which: np.ndarray) -> tuple[UnionGraph, np.ndarray]:
        """Return the graph of some clients alone, and their union nodes here, ascending.

        Args:
            which: Numbers of the clients, ascending.
        """
        nodes = np.flatnonzero(np.isin(self.owner, which))
        ptr = offsets(np.diff(self.ptr)[which])
        return UnionGraph(self.base, self.node[nodes], ptr, induced(self.adjacency, nodes), self.block), nodes

    def once(self, rows: np.ndarray) -> tuple[UnionGraph, np.ndarray]:
        """Return ``block`` and the nodes of it that ``rows``, ascending, are at every client alike, int64 ``[R / K]``.

        Where clients are asked about different ones, or have graphs of their own, these are this graph and its rows.
        """
        if self.block is None:
            return self, rows
        parts = np.split(rows, np.searchsorted(rows, self.ptr[1:-1]))
        own = [part - first for part, first in zip(parts, self.ptr[:-1], strict=True)]
        return (self.block, own[0]) if all(np.array_equal(part, own[0]) for part in own) else (self, rows)

    @property
    def num_clients(self) -> int:
        return len(self.ptr) - 1

    @property
    def num_nodes(self) -> int:
        return int(self.ptr[-1])

    @cached_property
    def owner(self) -> np.ndarray:
        """Client of each union node, int64 ``[N]``."""
        return np.repeat(np.arange(self.num_clients), np.diff(self.ptr))

    @cached_property
    def labels(self) -> np.ndarray:
        """Class of each union node, int64 ``[N]``."""
        labels: np.ndarray = self.base.labels[self.node]
        return labels

    @cached_property
    def degree(self) -> np.ndarray:
        """Neighbours of each union node, int32 ``[N]``."""
        return np.diff(self.adjacency.indptr)

    @cached_property
    def nodes_by_class(self) -> np.ndarray:
        """Nodes of each class at each client, int64 ``[K, C]``."""
        return self.counts(np.arange(self.num_nodes))

    @cached_property
    def links(self) -> np.ndarray:
        """All links, the smaller union node first, in their order, int64 ``[2, L]``."""
        upper = sp.coo_matrix(sp.triu(self.adjacency, k=1))
        order = np.lexsort((upper.col, upper.row))
        return np.stack([upper.row[order], upper.col[order]]).astype(np.int64)

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Count how many of these union nodes are of each class at each client, int64 ``[K, C]``."""
        table = np.zeros((self.num_clients, self.base.num_classes), dtype=np.int64)
        np.add.at(table, (self.owner[rows], self.labels[rows]), 1)
        return table


@dataclass(frozen=True)
class Probe:
    """Something to measure: predict ``rows`` of ``graph`` with each owner's model, then average.

    Attributes:
        name: ``seen_graph``, ``unseen_node``, ...
        graph: Inference graph; probes that share it share one forward pass (same object).
        rows: Union nodes whose predictions count, int64 ``[R]``, ascending; may be empty.
        average: ``pooled`` over rows, plain mean over ``clients``, or their mean weighted by ``nodes``, all of theirs.
        histogram: Whether it is also told how often each class is predicted.
        by_class: Whether it is also told which class was predicted for which.
        nodes: Nodes of each client that the average weighs by, int64 ``[K]``; None: those in ``graph``.
    """

    name: str
    graph: UnionGraph
    rows: np.ndarray
    average: Average = "pooled"
    histogram: bool = False
    by_class: bool = False
    nodes: np.ndarray | None = None

    @property
    def counts(self) -> np.ndarray:
        """Rows of each class at each client, int64 ``[K, C]``."""
        return self.graph.counts(self.rows)


@dataclass(frozen=True)
class Pairs:
    """Pairs of union nodes, both of one client, client by client.

    Attributes:
        nodes: int64 ``[2, P]``.
        linked: Whether a link joins them, bool ``[P]``.
    """

    nodes: np.ndarray
    linked: np.ndarray

    @staticmethod
    def of(linked: np.ndarray, without: np.ndarray) -> Pairs:
        """Join pairs with a link ``[2, P1]`` and pairs without one ``[2, P0]``."""
        flags = np.repeat([True, False], [linked.shape[1], without.shape[1]])
        return Pairs(np.concatenate([linked, without], axis=1), flags)

    @staticmethod
    def joined(parts: list[Pairs]) -> Pairs:
        """Join the pairs of one client after the other."""
        nodes = np.concatenate([part.nodes for part in parts], axis=1)
        return Pairs(nodes, np.concatenate([part.linked for part in parts]))

    def owner(self, graph: UnionGraph) -> np.ndarray:
        """Return the client of each pair, int64 ``[P]``."""
        own: np.ndarray = graph.owner[self.nodes[0]]
        return own

    def counts(self, graph: UnionGraph) -> np.ndarray:
        """Count the pairs of each client, int64 ``[K]``; 0 where those with and without a link are not both there."""
        both = [
            np.bincount(self.owner(graph)[flag], minlength=graph.num_clients) for flag in (self.linked, ~self.linked)
        ]
        return np.where(np.minimum(*both) > 0, both[0] + both[1], 0)


@dataclass(frozen=True)
class HeldLinks:
    """Links that no client sees while it trains, and pairs without a link beside them."""

    validation: Pairs
    test: Pairs


@dataclass(frozen=True)
class World:
    """What clients train on and what is probed.

    Attributes:
        graph: Training graph of all clients.
        train: Union nodes with a training label, int64 ``[T]``, ascending.
        validation: Probe whose accuracy selects the round.
        probes: Test probes in reporting order.
        missing: Missing classes M_k of each client, ascending.
        facts: Plain numbers about the construction that go into the record (membership hash, source, cut, sizes ...).
        links: What is held back to be predicted after the classes; None where no links are.
    """

    graph: UnionGraph
    train: np.ndarray
    validation: Probe
    probes: tuple[Probe, ...]
    missing: list[list[int]]
    facts: dict[str, object] = field(default_factory=dict)
    links: HeldLinks | None = None

    @property
    def num_clients(self) -> int:
        return self.graph.num_clients

    def of_clients(self, which: np.ndarray) -> World:
        """Return what clients ``which``, int64 ``[K']``, ascending, train on and are validated by; without probes."""
        graph, nodes = self.graph.of_clients(which)
        train, judged = (
            np.flatnonzero(np.isin(nodes, rows, assume_unique=True)) for rows in (self.train, self.validation.rows)
        )
        validation = replace(self.validation, graph=graph, rows=judged)
        return World(graph, train, validation, (), [self.missing[k] for k in which])

    def selected_by_test(self) -> World:
        """Give the world in which the rows of the first test probe select the round.

        Raises:
            UserError: That probe is of another graph than the clients'.
        """
        first = self.probes[0]
        if first.graph is not self.graph:
            raise UserError(
                f"protocol.selected_by=test selects the round by the first probe of a setting, and {first.name} is of "
                "another graph than clients train on: set protocol.selected_by=validation."
            )
        return replace(self, validation=replace(first, name=self.validation.name))

    def averaged(self, average: Average) -> World:
        """Give the world in which ``average`` is measured wherever ``pooled`` would be."""
        validation, *probes = (
            replace(probe, average=average) if probe.average == "pooled" else probe
            for probe in (self.validation, *self.probes)
        )
        return replace(self, validation=validation, probes=tuple(probes))

    @cached_property
    def train_of(self) -> list[np.ndarray]:
        """Training nodes of each client, union nodes, ascending."""
        owner = self.graph.owner[self.train]
        return [self.train[owner == k] for k in range(self.num_clients)]

    @cached_property
    def class_counts(self) -> np.ndarray:
        """Training nodes of each class at each client, int64 ``[K, C]``."""
        return self.graph.counts(self.train)
