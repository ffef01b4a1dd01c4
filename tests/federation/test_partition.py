"""Partitioners: published facts, coverage, repeatability, messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph, array_hash, induced
from fgl_repro.federation.partitioners import Membership, Partitioner, edge_cut, louvain
from fgl_repro.federation.partitioners.louvain import communities
from fgl_repro.federation.partitioners.random import Dirichlet
from fgl_repro.runs.summary import NONE_STORED
from support.worlds import membership

FACTS = json.loads((Path(__file__).parents[1] / "support" / "facts" / "partition_facts.json").read_text())
RealGraph = Callable[..., Graph]


def graph_of(num_nodes: int, edges: list[tuple[int, int]], name: str = "toy", classes: int = 2) -> Graph:
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    rows, columns = np.concatenate([ends, ends[:, ::-1]]).T
    adjacency = sp.csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=(num_nodes, num_nodes))
    adjacency.sort_indices()
    return Graph(
        name=name,
        features=sp.identity(num_nodes, dtype=np.float32, format="csr"),
        adjacency=adjacency,
        labels=np.arange(num_nodes) % classes,
        num_classes=classes,
        original_id=np.arange(num_nodes, dtype=np.int32),
    )


def part_of(members: Membership, num_nodes: int) -> np.ndarray:
    """Part of each node; -1 for nodes in none."""
    part = np.full(num_nodes, -1)
    for k, own in enumerate(members.nodes):
        part[own] = k
    return part


def ring(num_nodes: int) -> Graph:
    return graph_of(num_nodes, [(i, (i + 1) % num_nodes) for i in range(num_nodes)])


@pytest.mark.parametrize("name", sorted(FACTS))
def test_published_memberships_have_the_published_cuts(name: str, real_graph: RealGraph) -> None:
    graph, facts = real_graph(name), FACTS[name]
    assert (graph.num_nodes, graph.num_edges) == (facts["nodes"], facts["edges"])
    assert array_hash(graph.original_id.astype("<i4"))[:12] == facts["lcc_hash"]
    for parts, expected in facts["parts"].items():
        found = membership("published", graph, int(parts), seed=0)
        assert found.source == "stored METIS 5.1.0"
        assert {"cut": found.cut, "hash": found.hash} == expected
        assert sum(found.sizes) == graph.num_nodes
        assert len(found.sizes) == int(parts)


def test_published_ignores_the_seed(real_graph: RealGraph) -> None:
    graph = real_graph("cora")
    assert membership("published", graph, 4, seed=0).hash == membership("published", graph, 4, seed=9).hash


@pytest.mark.parametrize("case", ["another number of parts", "cropped graph", "another data set"])
def test_published_says_when_it_falls_back(case: str, real_graph: RealGraph) -> None:
    graph, parts = real_graph("cora"), 4
    if case == "another number of parts":
        parts = 7
    elif case == "cropped graph":
        graph = graph.subgraph(np.arange(5, graph.num_nodes))
    else:
        graph = ring(40)
    found = membership("published", graph, parts, seed=0)
    assert found.source.startswith("pymetis ")
    assert found.source.endswith(f"({NONE_STORED})")
    assert found.hash == membership("metis", graph, parts, seed=0).hash


def test_cut_counts_each_edge_between_parts_once() -> None:
    graph = graph_of(5, [(0, 1), (1, 2), (2, 3), (0, 4)])
    assert edge_cut(graph, [np.array([0, 1]), np.array([2, 3]), np.array([4])]) == 2
    assert edge_cut(graph, [np.array([0, 1, 2]), np.array([2, 3])]) == 1, "a node may be in two parts, or in none"


@pytest.mark.parametrize("name", ["metis", "random", "dirichlet"])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_parts_cover_the_graph(name: str, parts: int) -> None:
    graph = ring(60)
    found = membership(name, graph, parts, seed=3)
    part = part_of(found, 60)
    assert part.min() == 0, "every node has a part"
    assert sum(found.sizes) == 60
    assert found.cut == sum(part[i] != part[(i + 1) % 60] for i in range(60))


@pytest.mark.parametrize("name", ["metis", "random", "dirichlet"])
def test_same_seed_same_parts(name: str, real_graph: RealGraph) -> None:
    graph = real_graph("cora")
    assert membership(name, graph, 4, seed=1).hash == membership(name, graph, 4, seed=1).hash
    hashes = {membership(name, graph, 4, seed=seed).hash for seed in range(4)}
    assert len(hashes) == 4


def test_louvain_owners_are_of_similar_size_and_have_every_class(real_graph: RealGraph) -> None:
    """Cora as FedSage cuts it: sizes about N / M, cuts near the printed 403, 589 and 929 links of another Cora."""
    graph = real_graph("cora", features="raw", component="whole")
    for owners, printed in ((3, 403), (5, 589), (10, 929)):
        found = membership("louvain", graph, owners, seed=0)
        assert found.hash == membership("louvain", graph, owners, seed=0).hash
        assert found.hash != membership("louvain", graph, owners, seed=1).hash
        assert found.source.startswith("Louvain (networkx ")
        assert "N/M - 20" in found.source
        size = graph.num_nodes // owners
        assert max(found.sizes) < size + 3 * louvain.DELTA
        assert abs(found.cut - printed) < 0.25 * printed
        counts = np.zeros((owners, graph.num_classes))
        for owner, own in enumerate(found.nodes):
            np.add.at(counts[owner], graph.labels[own], 1)
        assert counts.min() >= louvain.SMALLEST_CLASS


def test_louvain_packing_by_hand() -> None:
    """S = 10, delta = 3: pieces of 7, 6, 5, 5, 4 and 3 nodes, worked out from the rules."""
    pieces = [np.full(length, number) for number, length in enumerate((7, 6, 5, 5, 4, 3))]
    assert [len(piece) for piece in louvain.cut([np.arange(9), np.arange(4)], 7)] == [7, 4, 2]
    # 7 to the first; 6 would make 13, so on to the second; 5 fits there (11), which ends it; 5 more opens the third;
    # 4 fits there (9), and so does 3 (12)
    owners = louvain.packed(pieces, 3, 10, 3)
    assert [[int(piece[0]) for piece in own] for own in owners] == [[0], [1, 2], [3, 4, 5]]
    full, small = louvain.packed([np.arange(10), np.arange(2)], 2, 10, 3)
    assert (len(full[0]), len(small[0])) == (10, 2), "an owner with S nodes is done, though 12 would not be too many"


def test_louvain_repair_takes_the_last_node_of_each_donor() -> None:
    part, labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2]), np.array([0, 0, 0, 0, 0, 0, 1, 1, 0])
    assert louvain.repaired(part, labels, 3).tolist() == [0, 0, 2, 1, 1, 2, 2, 2, 2]


def test_random_parts_are_balanced() -> None:
    assert sorted(membership("random", ring(11), 3, seed=0).sizes) == [3, 4, 4]


def test_halves_of_the_published_parts(real_graph: RealGraph) -> None:
    """FED-PUB's overlapping clients: five halves of each part, drawn anew, of the sizes its supplement prints."""
    graph = real_graph("cora")
    for clients, mean in ((10, 621), (30, 207), (50, 124)):
        found = membership("overlap", graph, clients, seed=0)
        assert found.source == "halves of stored METIS 5.1.0"
        assert round(np.mean(found.sizes)) == mean
        parts = membership("published", graph, clients // 5, seed=0)
        for k, own in enumerate(found.nodes):
            assert np.isin(own, parts.nodes[k // 5]).all()
            assert len(own) == len(parts.nodes[k // 5]) // 2
            assert (np.diff(own) > 0).all()
        assert len({own.tobytes() for own in found.nodes}) == clients
        assert found.hash == membership("overlap", graph, clients, seed=0).hash
        assert found.hash != membership("overlap", graph, clients, seed=1).hash


def test_halves_have_the_printed_numbers_of_edges(real_graph: RealGraph) -> None:
    """FED-PUB's supplement, Table 1: the released generator's draws, repeated over three graphs and three counts."""
    printed = {"cora": (1249, 379, 215), "citeseer": (889, 293, 170), "pubmed": (10675, 3374, 1903)}
    for name, edges in printed.items():
        graph = real_graph(name)
        for clients, wanted in zip((10, 30, 50), edges, strict=True):
            found = membership("overlap", graph, clients, seed=1234)
            assert round(np.mean([induced(graph.adjacency, own).nnz for own in found.nodes])) == wanted


def test_louvain_communities_are_merged_whole(real_graph: RealGraph) -> None:
    graph = real_graph("citeseer")
    found = membership("louvain_merged", graph, 10, seed=0)
    part = part_of(found, graph.num_nodes)
    assert part.min() == 0
    assert all(len(set(part[own])) == 1 for own in communities(graph, 0))
    assert found.hash != membership("louvain_merged", graph, 10, seed=1).hash


def test_louvain_communities_are_dealt_out_in_random_order(toy_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    found = np.array_split(np.arange(toy_graph.num_nodes), 6)
    monkeypatch.setattr("fgl_repro.federation.partitioners.louvain.communities", lambda *_: found)
    parts = {tuple(membership("louvain_merged", toy_graph, 3, seed).nodes[0].tolist()) for seed in range(5)}
    assert len(parts) > 1


def test_hash_uses_two_bytes_above_256_parts() -> None:
    found = membership("random", ring(600), 300, seed=0)
    part = part_of(found, 600)
    assert found.hash == array_hash(part.astype("<u2"))[:10]
    assert found.hash != array_hash(part.astype("u1"))[:10]


@pytest.mark.parametrize(
    ("name", "parts", "message"),
    [
        (
            "louvian",
            2,
            (
                r"partitioner louvian does not exist \(did you mean louvain\?\): "
                r"choose from [a-z_, ]*metis, overlap, published, random\."
            ),
        ),
        ("random", 0, r"partitioner\.clients=0 is out of range: give at least 1\."),
        ("overlap", 3, r"overlap makes 5 clients of each part and cannot make 3: choose a multiple of 5"),
        ("louvain_merged", 3, r"toy has \d Louvain communities, too few for 3 parts; lower partitioner\.clients\."),
        ("random", 7, r"toy has 6 nodes, too few for 7 parts; lower partitioner\.clients\."),
        ("dirichlet", 3, r"fewer than 10 nodes in each of 100 draws: raise partitioner\.alpha=0\.5, or lower"),
        ("metis", 5, r"pymetis \S+ left part \d of 5 of toy empty; lower partitioner\.clients"),
    ],
)
def test_messages_name_the_fix(name: str, parts: int, message: str) -> None:
    star = graph_of(6, [(0, i) for i in range(1, 6)])
    with pytest.raises(UserError, match=message):
        membership(name, star, parts, seed=0)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ((np.arange(6) % 4, "own"), "gives parts 0 to 3, where there are 0 to 2"),
        ((np.arange(6) - 1, "own"), "gives parts -1 to 4"),
        ((np.arange(5) % 3, "own"), r"gives int64 \[5\], where whole numbers \[6\] belong, one a node"),
        ((np.arange(6) / 2, "own"), r"gives float64 \[6\], where whole numbers"),
        ((torch.arange(6) % 3, "own"), "gives neither an array, the part of each node, nor a list of 3 arrays"),
        (
            ([np.arange(3), np.arange(3, 6)], "own"),
            "gives neither an array, the part of each node, nor a list of 3 arrays, the nodes of each part",
        ),
        (([np.arange(2), np.arange(2), np.arange(4, 9)], "own"), "gives part 2 something other than ascending numbers"),
        (([np.arange(2), np.arange(2), np.array([4, 3])], "own"), "gives part 2 something other than ascending"),
        (([np.arange(2), np.arange(2), np.array([4, 3], np.uint64)], "own"), "gives part 2 something other"),
        (np.arange(6) % 3, "returns something other than the parts and, in words, how they were made"),
    ],
)
def test_what_an_own_partitioner_gets_wrong_is_told(made: Any, told: str) -> None:
    """Nodes of a part that does not exist would be in no client, and nobody would see it."""

    class Own(Partitioner):
        name: ClassVar[str] = "own"

        def assign(self, graph: Graph, parts: int, seed: int) -> Any:
            return made

    with pytest.raises(UserError, match=f"the partitioner own {told}"):
        Own(3).divide(ring(6), 3, seed=0)


def test_an_empty_part_of_an_own_partitioner_is_told_as_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dirichlet, "assign", lambda *_: ([np.arange(3), np.arange(3, 6), np.array([])], "own"))
    with pytest.raises(UserError, match="own left part 2 of 3 of toy empty; lower"):
        Dirichlet(3).divide(ring(6), 3, seed=0)


def test_a_message_tells_of_the_part_that_a_new_client_has() -> None:
    with pytest.raises(UserError, match=r"too few for 7 parts \(6 clients and a new one\); lower"):
        Dirichlet(6).divide(graph_of(6, [(0, i) for i in range(1, 6)]), 7, seed=0)


def test_dirichlet_skews_labels_by_alpha(real_graph: RealGraph) -> None:
    """The smaller alpha, the larger the share of a client's commonest class; every client has nodes."""
    graph = real_graph("cora")

    def commonest(alpha: float) -> float:
        found = Dirichlet(5, alpha=alpha).divide(graph, 5, seed=0)
        assert sum(found.sizes) == graph.num_nodes
        assert min(found.sizes) >= 10
        assert found.source == f"Dirichlet({alpha:g}) over labels"
        counts = [np.bincount(graph.labels[own], minlength=graph.num_classes) for own in found.nodes]
        return float(np.mean([own.max() / own.sum() for own in counts]))

    even = np.bincount(graph.labels).max() / graph.num_nodes
    assert commonest(1000) == pytest.approx(even, abs=0.03)
    assert commonest(1000) < commonest(1) < commonest(0.1)
    with pytest.raises(UserError, match=r"partitioner\.alpha=nan is out of range: give at least 0\.001"):
        Dirichlet(5, alpha=float("nan"))
