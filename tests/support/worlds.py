"""Worlds for tests: on the real graphs as FedLoG has them, and on random ones."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from hypothesis import assume
from hypothesis import strategies as st

from fgl_repro.core.errors import UserError
from fgl_repro.core.registry import option
from fgl_repro.data.graph import Graph
from fgl_repro.data.graphset import GraphSet
from fgl_repro.federation.partitioners import Membership
from fgl_repro.federation.split import Ratios, Split
from fgl_repro.federation.world import Probe, UnionGraph, World

HOPS = {"cora": 2, "citeseer": 3, "pubmed": 1, "photo": 1, "computers": 1}
SPLIT = (0.4, 0.3, 0.3)


def build(
    setting: str,
    graph: Graph,
    partitioner: str,
    clients: int,
    seed: int = 0,
    ratios: Ratios = SPLIT,
    source: Literal["stream", "fedpub"] = "stream",
    **parameters: Any,
) -> World:
    """The world of a setting and a partitioner by name; ``parameters`` are the setting's."""
    parts = option("partitioner", partitioner)(clients)
    world: World = option("setting", setting)(**parameters).build(graph, parts, Split(ratios, seed, source))
    return world


def membership(partitioner: str, graph: Graph, parts: int, seed: int) -> Membership:
    """What a partitioner makes of a graph."""
    found: Membership = option("partitioner", partitioner)(parts).divide(graph, parts, seed)
    return found


def world_of(name: str, graph: Graph, clients: int, seed: int = 0, partitioner: str = "published") -> World:
    own = {"closed_set": {"hops": HOPS.get(graph.name, 2)}, "open_set": {"hops": HOPS.get(graph.name, 2), "crop": 0.2}}
    return build(name, graph, partitioner, clients, seed, **own.get(name, {}))


def global_split(num_nodes: int, ratios: Ratios, seed: int) -> np.ndarray:
    """Roles as most protocols draw them, by no graph and for no clients in particular."""
    return Split(ratios, seed).roles("", num_nodes, clients=1, overlapping=False)


def probes(world: World) -> dict[str, Probe]:
    return {probe.name: probe for probe in world.probes}


def counts(graph: UnionGraph, rows: np.ndarray) -> np.ndarray:
    """Rows by client and class, ``[K, C]``."""
    table = np.zeros((graph.num_clients, graph.base.num_classes), dtype=np.int64)
    np.add.at(table, (graph.owner[rows], graph.labels[rows]), 1)
    return table


def random_graph(num_nodes: int, degree: float, classes: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    upper = sp.csr_matrix(np.triu(rng.random((num_nodes, num_nodes)) < degree / num_nodes, k=1), dtype=np.float32)
    adjacency = sp.csr_matrix(upper + upper.T)
    adjacency.sort_indices()
    return Graph(
        name="random",
        features=sp.identity(num_nodes, dtype=np.float32, format="csr"),
        adjacency=adjacency,
        labels=rng.integers(0, classes, num_nodes),
        num_classes=classes,
        original_id=np.arange(num_nodes, dtype=np.int32),
    )


def build_or_skip(*arguments: Any, **parameters: Any) -> World:
    try:
        return build(*arguments, **parameters)
    except UserError:
        assume(False)
        raise


graphs = st.builds(random_graph, st.integers(40, 90), st.floats(2.0, 8.0), st.integers(2, 5), st.integers(0, 2**31 - 1))


def graph_set(
    each: int = 20, environments: int = 3, *, molecules: bool = False, numbers: bool = False, seed: int = 0
) -> GraphSet:
    """Small random graphs, ``each`` of an environment; with categories of nodes and links where they are molecules."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 8, each * environments)
    blocks = [random_graph(int(n), 2.5, 3, int(rng.integers(1 << 30))).adjacency for n in sizes]
    links = sp.csr_matrix(sp.block_diag(blocks, format="csr", dtype=np.float32))
    links.sort_indices()
    nodes, fields = int(sizes.sum()), (4, 3) if molecules else ()
    if molecules:
        columns = np.stack([rng.integers(0, 4, nodes), 4 + rng.integers(0, 3, nodes)], axis=1)
        inner = sp.csr_matrix((np.ones(2 * nodes, np.float32), columns.ravel(), 2 * np.arange(nodes + 1)), (nodes, 7))
    else:
        inner = sp.csr_matrix(rng.normal(size=(nodes, 5)).astype(np.float32))
    upper = sp.triu(links, format="coo")
    codes = np.stack([rng.integers(0, width, upper.nnz) for width in (5, 6, 2)], axis=1)
    number = sp.csr_matrix((np.arange(1, upper.nnz + 1), (upper.row, upper.col)), shape=links.shape)
    both = sp.csr_matrix(number + number.T)
    both.sort_indices()
    return GraphSet.of(
        "graphs",
        np.concatenate([[0], np.cumsum(sizes)]),
        inner,
        links,
        np.repeat(np.arange(environments), each),
        labels=None if numbers else rng.integers(0, 3, len(sizes)),
        num_classes=1 if numbers else 3,
        targets=rng.normal(size=len(sizes)).astype(np.float32) if numbers else None,
        fields=fields,
        bonds=codes[both.data - 1].astype(np.uint8) if molecules else None,
        bond_fields=(5, 6, 2) if molecules else (),
    )


def of_graphs(base: GraphSet, clients: int = 3, graphs: int = 15, seed: int = 0, mixed: float = 0.0) -> World:
    """Clients with graphs of one environment each; two thirds train, the others validate and test in equal parts."""
    parts = option("partitioner", "environment")(clients, graphs, mixed)
    world: World = option("setting", "plain")().build(base, parts, Split((4 / 6, 1 / 6, 1 / 6), seed, "partitioner"))
    return world
