"""OpenFGL's clients: whole communities, and label skew with a quota."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fgl_repro.core.errors import UserError
from fgl_repro.core.registry import option
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners.louvain import communities
from fgl_repro.federation.partitioners.openfgl import OpfglDirichlet
from support import worlds


def leaning(graph: Graph, nodes: tuple[np.ndarray, ...]) -> float:
    """Mean over clients of the share of their commonest class."""
    return float(np.mean([np.bincount(graph.labels[own]).max() / len(own) for own in nodes]))


def test_like_communities_are_one_client_and_most_edges_stay(real_graph: Callable[..., Graph]) -> None:
    graph = real_graph("cora", "raw", "whole")
    first, again = (worlds.membership("louvain_plus", graph, 10, seed=42) for _ in range(2))
    assert first.hash == again.hash
    assert first.cut < 0.2 * graph.num_edges
    assert worlds.membership("opfgl_louvain", graph, 10, seed=42).cut > 0.5 * graph.num_edges
    assert leaning(graph, first.nodes) > 0.5
    assert len(communities(graph, 0, 3.0)) > len(communities(graph, 0))


def test_label_skew_leaves_every_client_some_nodes_of_few_classes(real_graph: Callable[..., Graph]) -> None:
    graph = real_graph("actor", "raw", "whole")
    found = OpfglDirichlet(10).divide(graph, 10, 42)
    assert min(found.sizes) >= 5
    assert leaning(graph, found.nodes) > 0.8
    even = OpfglDirichlet(10, alpha=100.0).divide(graph, 10, 42)
    assert leaning(graph, even.nodes) < 0.4
    assert found.hash == worlds.membership("opfgl_dirichlet", graph, 10, seed=42).hash


def test_who_has_a_full_share_gets_no_more(toy_graph: Graph) -> None:
    """Sizes at the end: the last class alone may take a client over its share."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        part = OpfglDirichlet(3, 0.3).drawn(toy_graph, 3, rng)
        if part is None:
            continue
        for label in range(1, toy_graph.num_classes):
            before = np.bincount(part[toy_graph.labels < label], minlength=3)
            now = np.bincount(part[toy_graph.labels == label], minlength=3)
            assert not now[before >= toy_graph.num_nodes / 3].any()


def test_cuts_of_a_class_are_rounded_down() -> None:
    """Eight nodes cut at 0.45 and 0.8 of them, which is 3.6 and 6.4: three nodes, three, and the other two."""

    class FixedDraws:
        def permutation(self, nodes: np.ndarray) -> np.ndarray:
            return nodes

        def dirichlet(self, _: np.ndarray) -> np.ndarray:
            return np.array([0.45, 0.35, 0.2])

    graph = worlds.random_graph(8, 2.0, classes=1, seed=0)
    part = OpfglDirichlet(3).drawn(graph, 3, FixedDraws())  # type: ignore[arg-type]
    assert part is not None
    assert part.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]


def test_what_cannot_be_drawn_is_refused(toy_graph: Graph) -> None:
    with pytest.raises(UserError, match=r"raise partitioner\.alpha=0\.001"):
        OpfglDirichlet(12, 0.001, 20).divide(toy_graph, 12, 0)
    with pytest.raises(UserError, match=r"lower partitioner\.clients"):
        option("partitioner", "louvain_plus")(100).divide(toy_graph, 100, 0)
