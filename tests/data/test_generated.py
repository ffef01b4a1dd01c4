"""A generated graph has what it takes from a real one, and is the same each time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.data.sources.generated import Generated
from fgl_repro.data.sources.source import RawGraph

SMALL = Generated("raw", "whole", like="cora", nodes=20_000, dimensions=8)


@pytest.fixture(autouse=True)
def real(monkeypatch: pytest.MonkeyPatch) -> RawGraph:
    """A ring of two classes: 3 nodes in 4 are of class 0, nodes have four neighbours."""
    rng = np.random.default_rng(0)
    labels = (rng.random(400) < 0.25).astype(np.int64)
    near = np.arange(400)
    edges = np.concatenate([np.stack([near, (near + step) % 400]) for step in (1, 2)], axis=1)
    graph = RawGraph(sp.csr_matrix((400, 3), dtype=np.float32), edges, labels, 2)
    monkeypatch.setattr("fgl_repro.data.download.obtain", lambda name, cache: graph)
    return graph


def homophily(graph: Graph) -> float:
    links = graph.adjacency.tocoo()
    return float((graph.labels[links.row] == graph.labels[links.col]).mean())


def test_it_has_the_class_shares_degrees_and_links_of_the_real_one(real: RawGraph, tmp_path: Path) -> None:
    graph = SMALL.load(tmp_path)
    assert graph.num_nodes == 20_000
    assert graph.labels.mean() == pytest.approx(real.labels.mean(), abs=0.03)
    assert 2 * graph.num_edges / graph.num_nodes == pytest.approx(4, rel=0.1)
    same = (real.labels[real.edges[0]] == real.labels[real.edges[1]]).mean()
    assert homophily(graph) == pytest.approx(same, abs=0.03)
    links = graph.adjacency.tocoo()
    assert np.median(abs(links.row - links.col)) < 2 * SMALL.reach


def test_means_of_classes_are_as_far_out_as_asked(tmp_path: Path) -> None:
    graph = replace(SMALL, distance=3.0).load(tmp_path)
    for c in (0, 1):
        mean = np.asarray(graph.features[graph.labels == c].mean(0))
        assert np.linalg.norm(mean) == pytest.approx(3.0, abs=0.1)


def test_the_same_fields_give_the_same_graph_and_others_another(tmp_path: Path) -> None:
    assert SMALL.load(tmp_path / "a").fingerprint == SMALL.load(tmp_path / "b").fingerprint
    others = [replace(SMALL, **change) for change in ({"draw": 1}, {"nodes": 19_999}, {"reach": 5.0}, {"run": 2})]
    prints = {graph.load(tmp_path / "a").fingerprint for graph in (SMALL, *others)}
    assert len(prints) == 5


@pytest.mark.parametrize("wrong", [{"like": "nothing"}, {"nodes": 5}, {"reach": 0.0}, {"distance": float("nan")}])
def test_what_cannot_be_drawn_is_one_sentence(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError, match=f"dataset.{next(iter(wrong))}="):
        replace(SMALL, **wrong)


def test_it_is_like_a_graph_of_nodes() -> None:
    with pytest.raises(UserError, match=r"dataset.like=motif_basis .*choose cora, citeseer"):
        Generated("raw", "whole", like="motif_basis").check()
