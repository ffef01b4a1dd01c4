"""Worlds: the published class counts, invariants on random graphs against plain searches, messages."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_repro.core.errors import UserError
from fgl_repro.core.registry import options
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners.random import Random
from fgl_repro.federation.settings import fedlog
from fgl_repro.federation.settings.common import client_data
from fgl_repro.federation.split import TEST, TRAIN, VALIDATION, Split
from fgl_repro.federation.world import World
from support.worlds import (
    HOPS,
    SPLIT,
    build,
    build_or_skip,
    counts,
    global_split,
    graphs,
    probes,
    random_graph,
    world_of,
)

COUNTS = json.loads((Path(__file__).parents[1] / "support" / "facts" / "closed_set_counts.json").read_text())
RealGraph = Callable[[str], Graph]


def new_counts(world: World) -> np.ndarray:
    """New nodes, unseen and missing together, by client and class, ``[K, C]``: these do not depend on the roles."""
    unseen, missing = probes(world)["unseen_node"], probes(world)["missing_class"]
    new: np.ndarray = counts(unseen.graph, unseen.rows) + counts(missing.graph, missing.rows)
    return new


# --- published counts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expected", COUNTS, ids=[f"{row['dataset']}-{row['clients']}" for row in COUNTS])
def test_closed_set_counts(expected: dict[str, Any], real_graph: RealGraph) -> None:
    world = world_of("closed_set", real_graph(expected["dataset"]), expected["clients"])
    facts: Any = world.facts
    assert facts["source"] == "stored METIS 5.1.0"
    assert facts["cut"] == expected["cut"]
    assert facts["sizes"] == expected["sizes"]
    assert facts["removed"] == expected["removed"]
    assert facts["sizes_after_removal"] == expected["sizes_after_removal"]
    assert facts["missing_before_split"] == expected["missing"]
    new = new_counts(world)
    known = np.ones_like(new, dtype=bool)
    for client, classes in enumerate(expected["missing"]):
        known[client, classes] = False
    assert (new * known).sum(axis=1).tolist() == expected["unseen"]
    assert (new * ~known).sum(axis=1).tolist() == expected["missing_class"]
    newcomer = probes(world)["new_client"]
    assert counts(newcomer.graph, newcomer.rows).tolist() == [expected["new_client_classes"]] * expected["clients"]


def printed_counts(table: int) -> dict[tuple[str, int, str], int]:
    text = (files("fgl_repro.tables") / "reference" / "fedlog" / f"table_{table}.csv").read_text()
    rows = csv.DictReader(text.splitlines())
    return {(row["client"], int(row["class"]), row["split"]): int(row["count"]) for row in rows if row["count"]}


#: What the paper's Tables 12-16 print beyond our counts, by (client, class); every other cell is equal. Cora's class 6
#: has one validation node at client 0, which the paper counts as unseen and as missing too.
NEW_NODES_BEYOND_OURS = {"cora": {(0, 6): 2, (2, 0): 1}, "computers": {(1, 8): -1}}
SEEN_NODES_BEYOND_OURS = {"computers": {(2, 4): -2}}
MISSING_CLASSES_BEYOND_OURS = {"cora": {(0, 6)}}


@pytest.mark.parametrize(("table", "dataset"), list(enumerate(HOPS, start=12)))
def test_class_counts_of_the_paper(table: int, dataset: str, real_graph: RealGraph) -> None:
    graph, printed = real_graph(dataset), printed_counts(table)
    world = world_of("closed_set", graph, clients=3)

    def of_client(*splits: str) -> np.ndarray:
        cells = [
            [sum(printed[f"Client {k}", c, s] for s in splits) for c in range(graph.num_classes)] for k in range(3)
        ]
        return np.array(cells)

    def difference(theirs: np.ndarray, ours: np.ndarray) -> dict[tuple[int, int], int]:
        return {(int(k), int(c)): int(theirs[k, c] - ours[k, c]) for k, c in np.argwhere(theirs != ours)}

    new = difference(of_client("unseen_node", "missing_class"), new_counts(world))
    assert new == NEW_NODES_BEYOND_OURS.get(dataset, {})
    everyone = np.arange(world.graph.num_nodes)
    seen = difference(of_client("train", "valid", "test"), counts(world.graph, everyone))
    assert seen == SEEN_NODES_BEYOND_OURS.get(dataset, {})
    structural: Any = world.facts["missing_before_split"]
    ours = {(client, c) for client, classes in enumerate(structural) for c in classes}
    theirs = {(int(k), int(c)) for k, c in np.argwhere(of_client("missing_class") > 0)}
    assert ours <= theirs
    assert theirs - ours == MISSING_CLASSES_BEYOND_OURS.get(dataset, set())
    newcomer = [printed["New Client", c, "test"] for c in range(graph.num_classes)]
    assert counts(probes(world)["new_client"].graph, probes(world)["new_client"].rows)[0].tolist() == newcomer


# --- invariants -------------------------------------------------------------------------------------------------------


def walk(graph: Graph, start: set[int], hops: int, through: set[int]) -> set[int]:
    """Nodes at most ``hops`` steps from ``start`` by way of ``through``: the plain search."""
    reached, frontier = set(start), set(start)
    for _ in range(hops):
        touched = {int(v) for u in frontier for v in graph.adjacency[u].indices}
        frontier = (touched & through) - reached
        reached |= frontier
    return reached


def check_world(world: World, roles: np.ndarray) -> list[set[int]]:
    """What holds in every world; returns the clients' nodes."""
    union, base = world.graph, world.graph.base
    dense = base.adjacency.toarray()
    own = [set(union.node[union.ptr[k] : union.ptr[k + 1]].tolist()) for k in range(world.num_clients)]
    assert sum(len(nodes) for nodes in own) == union.num_nodes == len(set().union(*own))
    seen = probes(world)["seen_graph"]
    rows = {TRAIN: world.train, VALIDATION: world.validation.rows, TEST: seen.rows}
    assert np.array_equal(np.sort(np.concatenate(list(rows.values()))), np.arange(union.num_nodes))
    assert all((roles[union.node[found]] == role).all() for role, found in rows.items())
    assert world.validation.graph is seen.graph is union
    for probe in (world.validation, *world.probes):
        graph = probe.graph
        assert graph.base is base
        assert graph.ptr[-1] == graph.num_nodes == len(graph.node) == graph.adjacency.shape[0]
        assert np.array_equal(graph.owner, np.sort(graph.owner))
        assert np.all(np.diff(probe.rows) > 0)
        assert np.all((probe.rows >= 0) & (probe.rows < graph.num_nodes))
        pairs = graph.adjacency.tocoo()
        assert np.array_equal(graph.owner[pairs.row], graph.owner[pairs.col])
        assert np.all(dense[graph.node[pairs.row], graph.node[pairs.col]] == 1)
    for client, missing in enumerate(world.missing):
        assert list(missing) == np.flatnonzero(world.class_counts[client] == 0).tolist()
    assert json.loads(json.dumps(world.facts)) == world.facts
    return own


def check_new_nodes(world: World, own: list[set[int]], reached: list[set[int]], suffix: str = "") -> None:
    unseen, missing = probes(world)[f"unseen_node{suffix}"], probes(world)[f"missing_class{suffix}"]
    graph = unseen.graph
    assert graph is missing.graph
    for client in range(world.num_clients):
        lo, hi = graph.ptr[client], graph.ptr[client + 1]
        assert graph.node[lo:hi].tolist() == sorted(reached[client])
        new = reached[client] - own[client]
        lacks = set(world.missing[client])
        rows = [{int(graph.node[row]) for row in probe.rows if lo <= row < hi} for probe in (unseen, missing)]
        assert rows[0] == {v for v in new if graph.base.labels[v] not in lacks}
        assert rows[1] == {v for v in new if graph.base.labels[v] in lacks}
        block = graph.adjacency[lo:hi, lo:hi]
        nodes = graph.node[lo:hi]
        assert (block != graph.base.adjacency[nodes][:, nodes]).nnz == 0


@settings(max_examples=40)
@given(graphs, st.sampled_from(["metis", "random"]), st.integers(1, 3), st.integers(0, 3), st.integers(0, 100))
def test_closed_set_invariants(graph: Graph, partitioner: str, clients: int, hops: int, seed: int) -> None:
    world = build_or_skip("closed_set", graph, partitioner, clients, seed, hops=hops)
    own = check_world(world, global_split(graph.num_nodes, SPLIT, seed))
    facts: Any = world.facts
    everyone = set(range(graph.num_nodes))
    check_new_nodes(world, own, [walk(graph, nodes, hops, everyone) for nodes in own])
    for client, (removed, count) in enumerate(facts["removed"]):
        left = np.bincount(graph.labels[sorted(own[client])], minlength=graph.num_classes)
        assert left[removed] == 0
        assert count <= min(n for n in left if n)
        assert all(left[c] > count for c in range(removed) if left[c])
        assert removed in world.missing[client]
    newcomer = probes(world)["new_client"]
    assert newcomer.average == "clients"
    assert newcomer.rows.tolist() == list(range(newcomer.graph.num_nodes))
    copies = np.split(newcomer.graph.node, newcomer.graph.ptr[1:-1])
    assert len(copies) == clients
    assert all(np.array_equal(copy, copies[0]) for copy in copies)
    assert not set(copies[0].tolist()) & set().union(*own)
    assert len(np.unique(newcomer.graph.adjacency.nonzero()[0])) == newcomer.graph.num_nodes


@settings(max_examples=40)
@given(graphs, st.sampled_from(["metis", "random"]), st.integers(1, 3), st.integers(0, 3), st.integers(0, 100))
def test_open_set_invariants(graph: Graph, partitioner: str, clients: int, hops: int, seed: int) -> None:
    world = build_or_skip("open_set", graph, partitioner, clients, seed, hops=hops, crop=0.2)
    own = check_world(world, global_split(graph.num_nodes, SPLIT, seed))
    unseen, missing = probes(world)["unseen_node"], probes(world)["missing_class"]
    new = set(unseen.graph.node[np.concatenate([unseen.rows, missing.rows])].tolist())
    facts: Any = world.facts
    assert facts["cropped"] == round(0.2 * graph.num_nodes)
    assert sum(facts["sizes"]) == graph.num_nodes - facts["cropped"]
    assert not new & set().union(*own)
    assert "new_client" not in probes(world)
    cropped = set(np.flatnonzero(fedlog.crop_nodes(graph.num_nodes, 0.2, seed)).tolist())
    assert new == cropped
    check_new_nodes(world, own, [cropped | nodes for nodes in own])
    check_new_nodes(world, own, [walk(graph, nodes, hops, cropped | nodes) for nodes in own], "_reached")


@settings(max_examples=30)
@given(graphs, st.sampled_from(["metis", "random"]), st.integers(1, 4), st.integers(0, 100))
def test_plain_invariants(graph: Graph, partitioner: str, clients: int, seed: int) -> None:
    world = build_or_skip("plain", graph, partitioner, clients, seed)
    own = check_world(world, global_split(graph.num_nodes, SPLIT, seed))
    assert set().union(*own) == set(range(graph.num_nodes))
    assert list(probes(world)) == ["seen_graph"]


@pytest.mark.parametrize("name", sorted(options("setting")))
def test_a_setting_probes_what_it_names(name: str, toy_graph: Graph) -> None:
    """``setting.focus`` is checked against the names before anything is built."""
    world = build(name, toy_graph, "random", 3)
    after_training = [] if world.links is None else ["links"]
    assert [*(probe.name for probe in world.probes), *after_training] == list(options("setting")[name].probes)


# --- the parts of a world ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["closed_set", "open_set", "plain"])
def test_a_world_is_a_function_of_its_arguments(name: str, real_graph: RealGraph) -> None:
    graph = real_graph("cora")
    first, again, other = (world_of(name, graph, 3, seed) for seed in (0, 0, 1))
    assert first.facts == again.facts
    assert np.array_equal(first.train, again.train)
    for one, two in zip(first.probes, again.probes, strict=True):
        assert np.array_equal(one.rows, two.rows)
        assert np.array_equal(one.graph.node, two.graph.node)
    assert not np.array_equal(first.train, other.train)


def test_roles_do_not_move_the_closed_set_graph(real_graph: RealGraph) -> None:
    graph = real_graph("cora")
    first, other = (world_of("closed_set", graph, 3, seed) for seed in (0, 1))
    assert np.array_equal(first.graph.node, other.graph.node)
    assert np.array_equal(new_counts(first), new_counts(other))


def test_a_class_without_training_node_is_missing(real_graph: RealGraph) -> None:
    graph = real_graph("cora")
    worlds = [world_of("closed_set", graph, 10, seed) for seed in range(3)]
    more = 0
    for world in worlds:
        structural: Any = world.facts["missing_before_split"]
        for client, classes in enumerate(structural):
            assert set(classes) <= set(world.missing[client])
            more += len(world.missing[client]) - len(classes)
    assert more > 0


def test_ties_remove_the_lowest_label_and_isolates_go_first() -> None:
    # Two parts 0-5 and 6-11; node 5 hangs on node 6 only, so the cut isolates it and class 2 is gone from client 0.
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (5, 6), (6, 7), (7, 8), (8, 9), (9, 10), (10, 11)]
    rows, columns = np.array(edges + [(v, u) for u, v in edges]).T
    adjacency = sp.csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=(12, 12))
    labels = np.array([0, 0, 0, 1, 1, 2, 0, 0, 1, 1, 2, 2])
    graph = Graph("toy", sp.identity(12, format="csr"), adjacency, labels, 3, np.arange(12, dtype=np.int32))
    parts = fedlog.connected_parts(graph, [np.arange(6), np.arange(6, 12)])
    assert [nodes.tolist() for nodes in parts] == [[0, 1, 2, 3, 4], [6, 7, 8, 9, 10, 11]]
    nodes, removed = fedlog.remove_rarest_class(graph, parts)
    assert removed == [(1, 2), (0, 2)]
    assert [kept.tolist() for kept in nodes] == [[0, 1, 2], [8, 9, 10, 11]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"setting": "close_set"},
            (
                r"setting close_set does not exist \(did you mean closed_set\?\): "
                r"choose from closed_set, global_graph, imbalance, links, open_set, plain\."
            ),
        ),
        ({"setting": "common"}, r"setting common does not exist"),
        (
            {"focus": "nope"},
            r"setting\.focus=nope is unknown: choose seen_graph, unseen_node, missing_class or new",
        ),
        ({"clients": 0}, r"partitioner\.clients=0 is out of range: give at least 1"),
        (
            {"clients": 60},
            r"random has 60 nodes, too few for 61 parts \(60 clients and a new one\); lower partitioner\.clients",
        ),
        ({"hops": -1}, r"setting\.hops=-1 is out of range: give at least 0"),
        ({"setting": "open_set", "crop": 0.0}, r"setting\.crop=0\.0 holds back no node"),
        ({"setting": "open_set", "crop": 1.0}, r"setting\.crop=1\.0 must be a share of the nodes"),
        ({"ratios": (0.4, 0.4, 0.4)}, r"protocol\.split=\[0\.4, 0\.4, 0\.4\] must be three shares"),
        ({"ratios": (0.001, 0.5, 0.499)}, r"Client 0 of random has no training node; lower partitioner\.clients"),
        ({"clients": 40}, r"Client 0 of random has no node left once its rarest class is removed; lower partitioner"),
    ],
)
def test_messages_name_the_fix(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "setting": "closed_set",
        "graph": random_graph(60, 4.0, 3, seed=0),
        "partitioner": "random",
        "clients": 2,
        "hops": 1,
        "ratios": SPLIT,
        "seed": 0,
    }
    with pytest.raises(UserError, match=message):
        build(**(arguments | change))


def test_a_protocol_whose_partitioner_draws_roles_needs_such_a_partitioner() -> None:
    said = r"which random does not do: choose a protocol for nodes, or set it to stream\.$"
    with pytest.raises(UserError, match=said):
        client_data(random_graph(60, 3, 3, 0), [np.arange(60)], Random(), Split(SPLIT, 0, "partitioner"))
