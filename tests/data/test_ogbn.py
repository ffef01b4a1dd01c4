"""ogbn-arxiv, whose checksums are not known: read from a small copy of its raw layout, judged by its sizes."""

from __future__ import annotations

import gzip
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from fgl_repro.cli import data as cli
from fgl_repro.config import build
from fgl_repro.core.errors import UserError
from fgl_repro.data import NAMES, catalog, dataset, facts, load, process
from fgl_repro.data import download as files
from fgl_repro.data.graph import Graph
from fgl_repro.data.sources.ogbn import Arxiv
from support.worlds import membership

NODES, FEATURES, CLASSES = 30, 4, 3
CHAIN = [(node + 1, node) for node in range(NODES - 1)]
CITED = [*CHAIN, (0, 1), (7, 2), (9, 9)]  # one pair in both directions, one paper that cites itself
SIZES = {"full_nodes": NODES, "full_edges": len(CITED), "nodes": NODES, "edges": len(CHAIN) + 1}
VALUES = np.round(np.random.default_rng(0).standard_normal((NODES, FEATURES)), 4).astype(np.float32)


def write_raw(folder: Path) -> Path:
    """The five files of the raw layout."""
    folder.mkdir(parents=True)
    tables: dict[str, list[list[object]]] = {
        "edge": [list(pair) for pair in CITED],
        "node-feat": [list(row) for row in VALUES],
        "node-label": [[node % CLASSES] for node in range(NODES)],
        "num-node-list": [[NODES]],
        "num-edge-list": [[len(CITED)]],
    }
    for name, lines in tables.items():
        with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
            file.writelines(",".join(map(str, line)) + "\n" for line in lines)
    return folder


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small copy passes for the published graph."""
    known = replace(facts("arxiv"), **SIZES, features=FEATURES, classes=CLASSES)
    for module in (catalog, dataset, files, cli):
        monkeypatch.setattr(module, "facts", lambda name: known if name == "arxiv" else facts(name))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Raw folder below FGL_DATA."""
    monkeypatch.setenv("FGL_DATA", str(tmp_path / "data"))
    return write_raw(tmp_path / "data" / "ogbn_arxiv" / "raw")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, list[str]]]:
    """A server of ours in the place of the data set's own: its archive, and what it was asked for."""
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            asked.append(self.path)

    served = tmp_path / "site"
    served.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(served)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}/arxiv.zip"
    monkeypatch.setattr(Arxiv, "source", replace(Arxiv.source, archive=address))
    monkeypatch.delenv("FGL_DATA", raising=False)
    yield served / "arxiv.zip", asked
    server.shutdown()
    server.server_close()
    thread.join()


def pack(archive: Path, raw: Path, without: str = "") -> None:
    """The archive as it is published, and a member that would leave the folder it is unpacked in."""
    with zipfile.ZipFile(archive, "w") as packed:
        for path in raw.iterdir():
            if path.name != without:
                packed.write(path, f"arxiv/raw/{path.name}")
        packed.writestr("arxiv/RELEASE_v1.txt", "")
        packed.writestr("../outside.csv.gz", "")


def is_the_small_one(graph: Graph) -> bool:
    """Whether it is what ``write_raw`` writes, undirected, without doubles and loops."""
    edges = {(int(a), int(b)) for a, b in zip(*graph.adjacency.nonzero(), strict=True)}
    cited = {pair for pair in CITED if pair[0] != pair[1]}
    same = edges == cited | {(b, a) for a, b in cited}
    same &= graph.labels.tolist() == [node % CLASSES for node in range(NODES)]
    return same and np.array_equal(graph.features.toarray(), VALUES) and graph.num_classes == CLASSES


def test_what_is_known_of_it() -> None:
    known = facts("arxiv")
    assert "arxiv" in NAMES
    assert (known.full_nodes, known.full_edges, known.features, known.classes) == (169343, 1166243, 128, 40)
    assert (known.nodes, 2 * known.edges) == (169343, 2315598)
    assert [*known.fingerprint, *known.sha256] == []
    run = build(dataset="arxiv", protocol="fedpub", method="fedavg", clients=10)
    assert (run.dataset.features, run.protocol.split) == ("raw", [0.05, 0.475, 0.475])
    assert (run.protocol.rounds, run.protocol.local_epochs) == (200, 2)


@pytest.mark.usefixtures("small", "folder")
def test_raw_layout_is_read_in_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = load("arxiv", tmp_path / "cache", "raw")
    assert is_the_small_one(graph)
    assert is_the_small_one(load("arxiv", tmp_path / "cache", "raw"))
    assert capsys.readouterr() == ("", "")
    assert sys.modules["ogb.version"].check_outdated is None  # else it would have asked a package index
    assert membership("published", graph, 3, 0).source.startswith("pymetis")


@pytest.mark.usefixtures("small", "folder")
def test_command_line_says_that_no_checksum_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("fetch", "check"):
        assert cli.main([command, "arxiv", "--cache", str(tmp_path / "cache")]) == 0
    told = capsys.readouterr().out
    assert "30 nodes, 30 edges, 4 features (raw)" in told
    assert told.count("unknown checksum of") == 5
    assert "no published fingerprint is known" in told
    graph = load("arxiv", tmp_path / "cache", "raw")
    labels = graph.labels[::-1].copy()
    process.write_cache(Arxiv("raw").cache_path(tmp_path / "cache"), replace(graph, labels=labels))
    assert cli.main(["check", "arxiv", "--cache", str(tmp_path / "cache")]) == 0
    assert "does not hold the arxiv it should: built again" in capsys.readouterr().err


def test_another_size_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"published arxiv \(30 nodes, expected 169343, 32 directed") as caught:
        load("arxiv", tmp_path / "cache", "raw")
    assert f"{folder} does not hold" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["edge", "node-label", "node-feat"])
def test_files_that_cannot_be_read_are_one_sentence(name: str, folder: Path, tmp_path: Path) -> None:
    whole = (folder / f"{name}.csv.gz").read_bytes()
    contents = [gzip.compress(lines) for lines in (b"99,99\n" * NODES, b"-1\n" * NODES, b"1\n1,2\n")]
    for content in (b"", b"no archive", whole[:-9], *contents):
        (folder / f"{name}.csv.gz").write_bytes(content)
        with pytest.raises(UserError, match=r"raw (cannot be read|does not hold).*: replace") as caught:
            load("arxiv", tmp_path / "cache", "raw")
        assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("small")
def test_archive_is_fetched_once_and_only_what_is_wanted_is_kept(tmp_path: Path, site: tuple[Path, list[str]]) -> None:
    archive, asked = site
    pack(archive, write_raw(tmp_path / "unpacked"))
    assert is_the_small_one(load("arxiv", tmp_path / "cache", "raw"))
    assert asked == ["/arxiv.zip"]
    kept = {str(path.relative_to(tmp_path / "cache")) for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    raw = {f"raw/ogbn_arxiv/raw/{file}" for file in Arxiv.source.urls}
    assert kept == {*raw, "graphs/arxiv-raw-v1.npz", "graphs/arxiv-raw-v1.json"}
    assert not list(tmp_path.rglob("outside*"))
    Arxiv("raw").build(tmp_path / "cache")
    assert len(asked) == 1


@pytest.mark.usefixtures("small")
def test_site_that_has_it_not_is_one_sentence(tmp_path: Path, site: tuple[Path, list[str]]) -> None:
    archive, _ = site

    def told() -> str:
        with pytest.raises(files.DataUnavailableError, match=r"in FOLDER/ogbn_arxiv/raw$") as caught:
            load("arxiv", tmp_path / "cache", "raw")
        assert not list((tmp_path / "cache").rglob("*.gz"))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "arxiv.zip failed" in told()
    archive.write_text("<html>please log in</html>")
    assert "arxiv.zip failed (not the expected archive (File is not a zip file))" in told()
    pack(archive, write_raw(tmp_path / "unpacked"), without="edge.csv.gz")
    assert "no item named 'arxiv/raw/edge.csv.gz'" in told()


def test_missing_data_names_the_folder_and_no_place_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no network in this test")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    monkeypatch.setenv("FGL_DATA", str(tmp_path))
    with pytest.raises(files.DataUnavailableError) as caught:
        load("arxiv", tmp_path / "cache", "raw")
    assert str(caught.value) == (
        "no raw files for arxiv: FGL_DATA lacks ogbn_arxiv/raw/edge.csv.gz; download of "
        f"{Arxiv.source.archive} failed (no network in this test); no package index carries it; "
        "set FGL_DATA=FOLDER with the files in FOLDER/ogbn_arxiv/raw"
    )
