"""TU data sets from a small copy of their raw layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fgl_repro.core.errors import UserError
from fgl_repro.data import catalog, dataset, facts, load
from fgl_repro.data import download as files
from fgl_repro.data.graphset import GraphSet

# Two molecules: a path of three atoms and a pair, numbered from 1 through both.
PARTS = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "0\n2\n0\n1\n0\n",
    "edge_labels": "0\n0\n1\n1\n0\n0\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    raw = tmp_path / "data" / "TUDataset" / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    for part, lines in PARTS.items():
        (raw / f"MUTAG_{part}.txt").write_text(lines)
    monkeypatch.setenv("FGL_DATA", str(tmp_path / "data"))
    return raw


def test_raw_layout_is_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = replace(facts("mutag"), full_nodes=5, full_edges=6, features=3, classes=2, graphs=(2,))
    for module in (catalog, dataset, files):
        monkeypatch.setattr(module, "facts", lambda name: known)
    for _ in range(2):
        graphs = load("mutag", tmp_path / "cache")
        assert isinstance(graphs, GraphSet)
        assert graphs.ptr.tolist() == [0, 3, 5]
        assert graphs.labels.tolist() == [1, 0]
        assert graphs.environment.tolist() == [0, 0]
        assert graphs.inner.toarray().argmax(1).tolist() == [0, 2, 0, 1, 0]
        links = sorted(zip(*(ends.tolist() for ends in graphs.links.nonzero()), strict=True))
        assert links == [(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)]


def test_another_size_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    said = r"the graphs built are not the published mutag \(2 graphs, expected 188, 5 nodes, expected 3371"
    with pytest.raises(UserError, match=said):
        load("mutag", tmp_path / "cache")
    (folder / "MUTAG_A.txt").write_text("nothing")
    with pytest.raises(UserError, match=r"one of the files in \S+ cannot be read"):
        load("mutag", tmp_path / "cache")
