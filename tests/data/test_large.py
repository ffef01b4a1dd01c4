"""Graphs too large to be at hand (Flickr, Reddit, Reddit2, genius, ogbn-products): small files of their layouts."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import savemat

from fgl_repro.config import build
from fgl_repro.core.errors import UserError
from fgl_repro.data import dataset, facts, load
from fgl_repro.data import download as files

NODES, FEATURES, CLASSES = 12, 3, 2
EDGES = np.array([[0, 1, 1, 2, 5, 7, 9], [1, 0, 2, 3, 5, 8, 4]])  # one link in both directions, one loop
X = np.random.default_rng(0).standard_normal((NODES, FEATURES))
LABELS = np.arange(NODES) % CLASSES
LARGE = {"flickr": (89250, 7), "reddit": (232965, 41), "reddit2": (232965, 41), "genius": (421961, 2)}
LARGE |= {"products": (2449029, 47)}


def matrix() -> sp.coo_matrix:
    return sp.coo_matrix((np.ones(EDGES.shape[1]), EDGES), shape=(NODES, NODES))


def saint(folder: Path) -> None:
    links = sp.csr_matrix(matrix())
    np.savez(folder / "adj_full.npz", data=links.data, indices=links.indices, indptr=links.indptr, shape=links.shape)
    np.save(folder / "feats.npy", X)
    (folder / "class_map.json").write_text(json.dumps({str(node): int(y) for node, y in enumerate(LABELS)}))
    (folder / "role.json").write_text(json.dumps({"tr": [0], "va": [1], "te": [2]}))


def reddit(folder: Path) -> None:
    np.savez(folder / "reddit_data.npz", feature=X, label=LABELS, node_types=np.ones(NODES, dtype=int))
    sp.save_npz(folder / "reddit_graph.npz", matrix())


def genius(folder: Path) -> None:
    savemat(folder / "data.mat", {"edge_index": EDGES, "node_feat": X, "label": LABELS[None].astype(float)})


def ogb(folder: Path) -> None:
    tables = {"edge": EDGES.T, "node-feat": X, "node-label": LABELS[:, None]}
    tables |= {"num-node-list": np.array([[NODES]]), "num-edge-list": np.array([[EDGES.shape[1]]])}
    for name, lines in tables.items():
        with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
            file.writelines(",".join(map(str, line)) + "\n" for line in lines.tolist())


WRITERS: dict[str, Callable[[Path], None]] = {
    "flickr": saint,
    "reddit": reddit,
    "reddit2": saint,
    "genius": genius,
    "products": ogb,
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small copies pass for the published graphs."""

    def known(name: str) -> object:
        sizes = {"full_nodes": NODES, "full_edges": EDGES.shape[1], "features": FEATURES, "classes": CLASSES}
        return replace(facts(name), **sizes)

    for module in (dataset, files):
        monkeypatch.setattr(module, "facts", known)


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a data set whose raw files lie below FGL_DATA."""
    name: str = request.param
    raw = tmp_path / "data" / files.source_of(name).folder
    raw.mkdir(parents=True)
    WRITERS[name](raw)
    monkeypatch.setenv("FGL_DATA", str(tmp_path / "data"))
    return name


@pytest.mark.parametrize("name", LARGE)
def test_what_is_known_of_it(name: str) -> None:
    known = facts(name)
    assert (known.full_nodes, known.classes) == LARGE[name]
    assert (known.nodes, known.edges, known.fingerprint, known.sha256) == (0, 0, {}, {})
    run = build(
        dataset=name, protocol="opfgl", partitioner="opfgl_louvain", setting="plain", method="opfgl", clients=10
    )
    assert (run.dataset.features, run.dataset.component) == ("raw", "whole")
    assert run.method.per_class == 0


def test_shares_and_rates_are_those_of_the_paper() -> None:
    found = {}
    for name in ("arxiv", *LARGE):
        run = build(
            dataset=name, protocol="opfgl", partitioner="opfgl_louvain", setting="plain", method="opfgl", clients=10
        )
        found[name] = (*run.protocol.split, run.method.rate)
    assert found == {
        "arxiv": (0.6, 0.2, 0.2, 0.0025),
        "products": (0.1, 0.05, 0.85, 0.0004),
        "flickr": (0.6, 0.2, 0.2, 0.002),
        "reddit": (0.8, 0.1, 0.1, 0.0005),
        "reddit2": (0.65, 0.1, 0.25, 0.0005),
        "genius": (0.5, 0.25, 0.25, 0.001),
    }


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("folder", WRITERS, indirect=True)
def test_its_layout_is_read(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = load(folder, tmp_path / "cache", "raw", "whole")
    links = {(int(a), int(b)) for a, b in EDGES.T if a != b}
    assert {(int(a), int(b)) for a, b in zip(*graph.adjacency.nonzero(), strict=True)} == links | {
        (b, a) for a, b in links
    }
    assert graph.features.dtype == np.float32
    assert np.allclose(graph.features.toarray(), X, atol=1e-6)
    assert graph.labels.tolist() == LABELS.tolist()
    assert load(folder, tmp_path / "cache", "raw", "whole").fingerprint == graph.fingerprint
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("folder", WRITERS, indirect=True)
def test_another_size_is_one_sentence(folder: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"published {folder} \(12 nodes, expected {LARGE[folder][0]}") as caught:
        load(folder, tmp_path / "cache", "raw", "whole")
    assert "component" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", WRITERS)
def test_missing_files_are_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no network in this test")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    monkeypatch.setenv("FGL_DATA", str(tmp_path))
    with pytest.raises(files.DataUnavailableError) as caught:
        load(name, tmp_path / "cache", "raw", "whole")
    source = files.source_of(name)
    assert str(caught.value) == (
        f"no raw files for {name}: FGL_DATA lacks {source.folder}/{next(iter(source.urls))}; download of "
        f"{source.archive or next(iter(source.urls.values()))} failed (no network in this test); no package index "
        f"carries it; set FGL_DATA=FOLDER with the files in FOLDER/{source.folder}"
    )
