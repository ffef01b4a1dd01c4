"""O-pFGL's clients and roles: the published ones, those cut anew, and both codes' rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_repro.core.errors import UserError
from fgl_repro.core.registry import option
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import opfgl
from fgl_repro.federation.partitioners.opfgl import DELTA, chopped, clusters, packed
from fgl_repro.federation.split import PUBLISHED, TEST, TRAIN, VALIDATION, Ratios, Split
from fgl_repro.federation.world import World
from support import worlds

RATIOS = PUBLISHED[1]
FACTS = {  # undirected edges kept; train, validation and test nodes; nodes of the first clients
    ("cora", "louvain", "published", 10): (2052, [520, 1059, 1129], [252, 280, 168, 448]),
    ("cora", "louvain", "published_mkl", 10): (1927, [517, 1055, 1136], [355, 168, 364, 226]),
    ("cora", "metis", "published", 10): (3873, [514, 1057, 1137], [595, 189, 271, 244]),
    ("citeseer", "louvain", "published", 20): (2198, [624, 1286, 1417], [78, 279, 545, 78]),
    ("photo", "louvain", "recomputed", 10): (59242, [1506, 3032, 3112], [1468, 1202, 524, 448]),
    ("pubmed", "metis", "published", 20): (34724, [3921, 7863, 7933], [597, 976, 1356, 589]),
}


def world(
    graph: Graph, cut: str, division: str, clients: int, seed: int = PUBLISHED[0], shares: Ratios = PUBLISHED[1]
) -> World:
    parts = option("partitioner", f"opfgl_{cut}")(clients, division)
    built: World = option("setting", "plain")().build(graph, parts, Split(shares, seed, "opfgl"))
    return built


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: "-".join(map(str, fact)))
def test_published_clients_have_the_published_sizes(
    real_graph: Callable[..., Graph], fact: tuple[str, str, str, int]
) -> None:
    name, cut, division, clients = fact
    edges, roles, sizes = FACTS[fact]
    found = world(real_graph(name, "raw", "whole"), cut, division, clients)
    assert found.graph.adjacency.nnz // 2 == edges
    assert [len(found.train), len(found.validation.rows), len(found.probes[0].rows)] == roles
    assert np.diff(found.graph.ptr)[:4].tolist() == sizes


def test_other_shares_than_the_published_roles_have_are_drawn(real_graph: Callable[..., Graph]) -> None:
    """The published clients, half of whose nodes train."""
    graph = real_graph("cora", "raw", "whole")
    published, other = (
        world(graph, "metis", "published", 10, shares=shares) for shares in (PUBLISHED[1], (0.5, 0.3, 0.2))
    )
    assert np.array_equal(other.graph.node, published.graph.node)
    assert abs(len(other.train) / graph.num_nodes - 0.5) < 0.05
    assert abs(len(published.train) / graph.num_nodes - 0.2) < 0.05


def test_the_client_that_the_paper_describes(real_graph: Callable[..., Graph]) -> None:
    """CiteSeer by Louvain: a client of 339 nodes, 50 of class 1 and 14 of class 2, of which 20 and 7 are tested."""
    found = world(real_graph("citeseer", "raw", "whole"), "louvain", "published", 10)
    assert found.graph.nodes_by_class[1].sum() == 339
    assert found.graph.nodes_by_class[1, 1:3].tolist() == [50, 14]
    assert found.probes[0].counts[1, 1:3].tolist() == [20, 7]


@pytest.mark.parametrize("cut", ["louvain", "metis"])
def test_cut_anew_they_cover_the_graph_and_move_with_the_seed(real_graph: Callable[..., Graph], cut: str) -> None:
    graph = real_graph("cora", "raw", "whole")
    first, again, other = (world(graph, cut, "anew", 10, seed) for seed in (1, 1, 2))
    assert np.array_equal(np.sort(first.graph.node), np.arange(graph.num_nodes))
    assert np.array_equal(first.graph.node, again.graph.node)
    assert np.array_equal(first.train, again.train)
    held = [{frozenset(own) for own in np.split(found.graph.node, found.graph.ptr[1:-1])} for found in (first, other)]
    assert held[0] != held[1], "renumbered clients are the same division"
    shares = first.graph.nodes_by_class / first.graph.nodes_by_class.sum(1, keepdims=True)
    assert shares.max(1).mean() > 1.5 * np.bincount(graph.labels).max() / graph.num_nodes, "no client leans to a class"


@given(sizes=st.lists(st.integers(1, 200), min_size=1, max_size=20), most=st.integers(1, 50))
def test_pieces_are_short_and_cover_and_packs_hold_them_all(sizes: list[int], most: int) -> None:
    ends = np.cumsum([0, *sizes])
    groups = [np.arange(a, b) for a, b in pairwise(ends)]
    pieces = chopped(groups, most)
    assert max(map(len, pieces)) <= most
    assert np.array_equal(np.sort(np.concatenate(pieces)), np.arange(ends[-1]))
    held = packed(pieces, most + DELTA)
    assert sorted(len(piece) for pack in held for piece in pack) == sorted(map(len, pieces))


def test_tails_of_groups_are_cut_after_the_first_pieces_of_all() -> None:
    """By hand, two nodes at most: first pieces of the three groups, then second ones, then third ones."""
    groups = [np.arange(5), np.arange(10, 13), np.arange(20, 27)]
    found = [piece.tolist() for piece in chopped(groups, 2)]
    assert found == [[0, 1], [10, 11], [20, 21], [2, 3], [12], [22, 23], [4], [24, 25], [26]]


def test_packs_are_filled_by_the_largest_pieces_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, three packs of 30 nodes, none of 50: the largest three pieces go to one pack each.

    The piece of 21 would make any of them 50, and goes to the first of the emptiest, which is closed then. The first of
    8 closes the second pack, so that the other one goes to the third, and so does what is left.
    """
    monkeypatch.setattr(opfgl, "PACKS", 3)
    sizes = {"c": 3, "l": 8, "x": 29, "n": 21, "y": 29, "m": 8, "z": 29}
    held = packed([np.full(size, ord(name)) for name, size in sizes.items()], 30)
    assert [[chr(piece[0]) for piece in pack] for pack in held] == [["x", "n"], ["y", "l"], ["z", "m", "c"]]


def test_packs_are_grouped_by_their_shares_of_classes_whatever_their_sizes() -> None:
    """Of each class a pack of 40 nodes and one of 4: by numbers of nodes the small ones would be alike."""
    labels = np.repeat([0, 0, 1, 1], [40, 4, 40, 4])
    graph = replace(worlds.random_graph(88, 2.0, classes=2, seed=0), labels=labels)
    client = opfgl.grouped(graph, np.repeat(np.arange(4), [40, 4, 40, 4]), 2, seed=0)
    assert len(set(client.tolist())) == 2
    assert all(len(set(client[labels == label].tolist())) == 1 for label in (0, 1))


def test_the_closest_clusters_of_all_starts_are_taken() -> None:
    """Seven points without clear groups, against every way to divide them; one start alone often ends elsewhere."""
    points = np.random.default_rng(5).random((7, 2))

    def distance(part: np.ndarray) -> float:
        own = [points[part == k] for k in range(3) if (part == k).any()]
        return float(sum(((group - group.mean(0)) ** 2).sum() for group in own))

    least = min(distance(np.array(part)) for part in product(range(3), repeat=7))
    assert [distance(clusters(points, 3, seed)) for seed in range(4)] == pytest.approx([least] * 4)


def test_clusters_find_what_lies_apart() -> None:
    rng = np.random.default_rng(0)
    points = np.repeat(np.eye(4), 25, axis=0) + rng.normal(0, 0.01, (100, 4))
    found = clusters(points, 4, seed=3)
    assert [len(set(found[25 * k : 25 * k + 25].tolist())) for k in range(4)] == [1, 1, 1, 1]
    assert len(set(found.tolist())) == 4


def test_published_roles_are_for_the_published_clients_alone(real_graph: Callable[..., Graph]) -> None:
    """With a new client there is one part more, and other clients: each class at each of them has its shares."""
    graph = real_graph("cora", "raw", "whole")
    parts, setting = option("partitioner", "opfgl_metis")(10, "published"), option("setting", "closed_set")(hops=1)
    found: World = setting.build(graph, parts, Split(RATIOS, PUBLISHED[0], "opfgl"))
    train, _, _ = RATIOS
    expected = np.floor(train * found.graph.nodes_by_class + 1e-9)
    assert np.array_equal(found.class_counts, expected)


@pytest.mark.parametrize(
    ("nodes", "opfgl", "openfgl"),
    [(1, (0, 0, 1), (0, 0, 1)), (2, (0, 0, 2), (0, 1, 1)), (3, (0, 1, 2), (0, 1, 2)), (4, (0, 1, 3), (0, 2, 2)),
     (5, (1, 2, 2), (1, 2, 2)), (9, (1, 3, 5), (1, 4, 4))],
)  # fmt: skip
def test_both_codes_round_as_they_do(nodes: int, opfgl: tuple[int, ...], openfgl: tuple[int, ...]) -> None:
    labels = np.array([0] * 7 + [1] * nodes)
    for source, expected in (("opfgl", opfgl), ("openfgl", openfgl)):
        roles = Split(RATIOS, 3, source).roles_by_class(labels, [np.arange(7), np.arange(7, 7 + nodes)])  # type: ignore[arg-type]
        found = roles[labels == 1]
        assert tuple(int((found == role).sum()) for role in (TRAIN, VALIDATION, TEST)) == expected


def test_roles_of_a_client_do_not_depend_on_another(toy_graph: Graph) -> None:
    split = Split(RATIOS, 0, "opfgl")
    own, some, more = np.arange(40), np.arange(40, 80), np.arange(40, 110)
    first, second = (split.roles_by_class(toy_graph.labels, [own, other]) for other in (some, more))
    assert np.array_equal(first[:40], second[:40])


def test_what_cannot_be_is_refused(toy_graph: Graph) -> None:
    with pytest.raises(UserError, match="too few for 100 packs"):
        world(toy_graph, "louvain", "anew", 3)
    with pytest.raises(UserError, match="set it to published"):
        world(toy_graph, "metis", "published_mkl", 10)
    parts = option("partitioner", "overlap")(5)
    with pytest.raises(UserError, match="share no nodes"):
        option("setting", "plain")().build(toy_graph, parts, Split(RATIOS, 0, "opfgl"))


def test_a_recomputed_division_that_is_not_stored_is_refused(real_graph: Callable[..., Graph]) -> None:
    for name in ("photo", "cora"):
        with pytest.raises(UserError, match=rf"no recomputed division of {name} .* or protocol\.component to whole"):
            world(real_graph(name, "raw", "largest"), "louvain", "recomputed", 10)
