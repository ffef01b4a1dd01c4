"""The world whose clients hold links back: what is held back is seen by nobody, and drawn client by client."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_repro.config import build as build_config
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.settings.links import held_back, unlinked
from fgl_repro.federation.world import Pairs, UnionGraph, World
from support.worlds import build_or_skip, graphs

SHARES = st.floats(0.05, 0.45)


def held(graph: Graph, seed: int, validation: float = 0.2, test: float = 0.3) -> World:
    return build_or_skip("links", graph, "random", 3, seed, validation=validation, test=test)


def codes(pairs: np.ndarray) -> set[tuple[int, int]]:
    return set(zip(*pairs.tolist(), strict=True))


def linked_in(graph: Graph | UnionGraph) -> set[tuple[int, int]]:
    row, col = graph.adjacency.nonzero()
    return {(int(a), int(b)) for a, b in zip(row, col, strict=True) if a < b}


@settings(max_examples=30)
@given(graphs, SHARES, SHARES, st.integers(0, 100))
def test_links_are_held_back_and_nothing_else_changes(graph: Graph, validation: float, test: float, seed: int) -> None:
    plain, world = build_or_skip("plain", graph, "random", 3, seed), held(graph, seed, validation, test)
    assert world.links is not None
    parts = {name: codes(p.nodes[:, p.linked]) for name, p in vars(world.links).items()}
    left, whole = linked_in(world.graph), linked_in(plain.graph)
    assert left | parts["validation"] | parts["test"] == whole
    assert len(left) + len(parts["validation"]) + len(parts["test"]) == len(whole)
    assert (world.graph.adjacency != world.graph.adjacency.T).nnz == 0
    assert set(world.graph.adjacency.data.tolist()) <= {1.0}
    for name, share in (("validation", validation), ("test", test)):
        pairs: Pairs = getattr(world.links, name)
        others = codes(pairs.nodes[:, ~pairs.linked])
        assert not others & whole
        assert len(others) == int((~pairs.linked).sum()), "no pair comes twice"
        assert np.all(pairs.nodes[0] < pairs.nodes[1])
        assert np.array_equal(*world.graph.owner[pairs.nodes])
        owner = plain.graph.owner[np.array(sorted(whole), dtype=np.int64).reshape(-1, 2)[:, 0]]
        expected = [int((owner == k).sum() * share) for k in range(3)]
        assert np.bincount(pairs.owner(world.graph)[pairs.linked], minlength=3).tolist() == expected
    gone = (world.graph.node[p.nodes[:, p.linked]] for p in vars(world.links).values())
    hidden = {tuple(sorted(pair)) for pairs in gone for pair in pairs.T.tolist()}
    assert hidden <= linked_in(graph)
    assert linked_in(world.graph.base) == linked_in(graph) - hidden, "methods that read the whole graph see none"
    assert np.array_equal(world.train, plain.train)
    assert np.array_equal(world.validation.rows, plain.validation.rows)
    assert {id(world.graph)} == {id(probe.graph) for probe in (world.validation, *world.probes)}
    assert world.facts["test_rows"] == {
        "seen_graph": plain.probes[0].counts.sum(1).tolist(),
        "links": world.links.test.counts(world.graph).tolist(),
    }


def test_a_client_draws_for_itself(toy_graph: Graph) -> None:
    """Another client without links changes nothing of what is held back here."""
    graph = build_or_skip("plain", toy_graph, "random", 3, 0).graph
    first = int(graph.ptr[1])
    lonely = graph.adjacency.tolil(copy=True)
    lonely[:first, :first] = 0
    lonely = lonely.tocsr()
    lonely.eliminate_zeros()
    for ours, theirs in zip(
        vars(held_back(graph, 0.1, 0.2, 7)[1]).values(),
        vars(held_back(replace(graph, adjacency=lonely), 0.1, 0.2, 7)[1]).values(),
        strict=True,
    ):
        mine = ours.owner(graph) > 0
        assert np.array_equal(ours.nodes[:, mine], theirs.nodes)
        assert np.array_equal(ours.linked[mine], theirs.linked)
        assert ours.counts(graph)[0] > 0
        assert theirs.counts(graph)[0] == 0


def test_a_complete_graph_has_no_pairs_without_a_link() -> None:
    links = np.stack(np.triu_indices(5, k=1))
    assert unlinked(links + 3, 3, 8, 4, np.random.default_rng(0)).shape == (2, 0)
    assert unlinked(np.empty((2, 0), np.int64), 3, 3, 0, np.random.default_rng(0)).shape == (2, 0)
    one_less = unlinked(links[:, 1:] + 3, 3, 8, 4, np.random.default_rng(0))
    assert one_less.tolist() == [[3], [4]]


@pytest.mark.parametrize("shares", [(0.0, 0.1), (0.1, 0.0), (0.5, 0.5), (-0.1, 0.2)])
def test_shares_that_leave_nothing_are_refused(shares: tuple[float, float]) -> None:
    overrides = {"setting.validation": shares[0], "setting.test": shares[1]}
    with pytest.raises(UserError, match="above 0 and leave links to train on"):
        build_config(overrides, setting="links")


@settings(max_examples=20)
@given(graphs, st.integers(0, 100))
def test_pairs_without_a_link_are_as_many_and_others_for_tests(graph: Graph, seed: int) -> None:
    parts = held(graph, seed, validation=0.1, test=0.3).links
    assert parts is not None
    for pairs in (parts.validation, parts.test):
        assert (~pairs.linked).sum() == pairs.linked.sum()
    without = [codes(pairs.nodes[:, ~pairs.linked]) for pairs in (parts.validation, parts.test)]
    assert not set.intersection(*without)
