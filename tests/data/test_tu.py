"""TU data sets from a small copy of their raw layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fgl_repro import config as configs
from fgl_repro.core.errors import UserError
from fgl_repro.data import catalog, dataset, facts, load
from fgl_repro.data import download as files
from fgl_repro.data.graphset import GraphSet
from fgl_repro.federation.partitioners.environment import Environment

# Two molecules: a path of three atoms and a pair, numbered from 1 through both.
PARTS = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "0\n2\n0\n1\n0\n",
    "edge_labels": "0\n0\n1\n1\n0\n0\n",
}


# A star of four, and a pair beside someone alone, every link of them twice, as in the files of IMDB-BINARY.
PEOPLE = {
    "A": "1, 2\n1, 3\n1, 4\n2, 1\n3, 1\n4, 1\n5, 6\n6, 5\n" * 2,
    "graph_indicator": "1\n1\n1\n1\n2\n2\n2\n",
    "graph_labels": "3\n1\n",
}


def written(title: str, parts: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write raw files where ``FGL_DATA`` has them."""
    raw = tmp_path / "data" / "TUDataset" / title / "raw"
    raw.mkdir(parents=True)
    for part, lines in parts.items():
        (raw / f"{title}_{part}.txt").write_text(lines)
    monkeypatch.setenv("FGL_DATA", str(tmp_path / "data"))
    return raw


def publish(name: str, monkeypatch: pytest.MonkeyPatch, **sizes: object) -> None:
    """Take ``sizes`` for those of the published data set."""
    known = replace(facts(name), **sizes)  # type: ignore[arg-type]
    for module in (catalog, dataset, files):
        monkeypatch.setattr(module, "facts", lambda name: known)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return written("MUTAG", PARTS, tmp_path, monkeypatch)


def test_raw_layout_is_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish("mutag", monkeypatch, full_nodes=5, full_edges=6, features=3, classes=2, graphs=(2,))
    for _ in range(2):
        graphs = load("mutag", tmp_path / "cache")
        assert isinstance(graphs, GraphSet)
        assert graphs.ptr.tolist() == [0, 3, 5]
        assert graphs.labels.tolist() == [1, 0]
        assert graphs.environment.tolist() == [0, 0]
        assert graphs.inner.toarray().argmax(1).tolist() == [0, 2, 0, 1, 0]
        links = sorted(zip(*(ends.tolist() for ends in graphs.links.nonzero()), strict=True))
        assert links == [(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)]


def test_nci1_has_the_labels_of_its_nodes_and_none_of_its_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels there begin at 1, and classes at 0."""
    parts = {part: lines for part, lines in PARTS.items() if part != "edge_labels"}
    written("NCI1", parts | {"node_labels": "1\n3\n1\n2\n1\n", "graph_labels": "0\n1\n"}, tmp_path, monkeypatch)
    publish("nci1", monkeypatch, full_nodes=5, full_edges=6, features=3, classes=2, graphs=(2,))
    graphs = load("nci1", tmp_path / "cache")
    assert isinstance(graphs, GraphSet)
    assert graphs.inner.toarray().argmax(1).tolist() == [0, 2, 0, 1, 0]
    assert graphs.labels.tolist() == [0, 1]


@pytest.mark.parametrize(("name", "title"), [("imdb_binary", "IMDB-BINARY"), ("imdb_multi", "IMDB-MULTI")])
def test_nodes_without_labels_have_their_degrees(
    name: str, title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link counts once, a column stands for a degree that no node has, and who is alone has degree 0."""
    written(title, PEOPLE, tmp_path, monkeypatch)
    publish(name, monkeypatch, full_nodes=7, full_edges=8, features=4, classes=2, graphs=(2,))
    for _ in range(2):
        graphs = load(name, tmp_path / "cache")
        assert isinstance(graphs, GraphSet)
        assert graphs.inner.toarray().argmax(1).tolist() == [3, 1, 1, 1, 1, 1, 0]
        assert (graphs.inner.shape, graphs.inner.nnz, graphs.inner.sum()) == ((7, 4), 7, 7)
        assert graphs.ptr.tolist() == [0, 4, 7]
        assert graphs.labels.tolist() == [1, 0]


@pytest.mark.parametrize("name", ["mutag", "proteins", "nci1", "imdb_binary", "imdb_multi"])
def test_five_clients_take_all_graphs_but_a_remainder(name: str) -> None:
    parts = configs.build({}, dataset=name, partitioner="environment", setting="plain", protocol="fedvn").partitioner
    assert isinstance(parts, Environment)
    assert (parts.clients, parts.graphs) == (5, facts(name).graphs[0] // 5)


def test_another_size_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    said = r"the graphs built are not the published mutag \(2 graphs, expected 188, 5 nodes, expected 3371"
    with pytest.raises(UserError, match=said):
        load("mutag", tmp_path / "cache")
    (folder / "MUTAG_A.txt").write_text("nothing")
    with pytest.raises(UserError, match=r"one of the files in \S+ cannot be read"):
        load("mutag", tmp_path / "cache")
