"""A data set of one's own: from a PyG object, pinned at first load, checked after."""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset

from fgl_repro.cli import data as cli
from fgl_repro.core.errors import UserError
from fgl_repro.core.registry import options
from fgl_repro.core.schema import how
from fgl_repro.data import NAMES, dataset, process
from fgl_repro.data.dataset import Dataset
from fgl_repro.data.sources.generated import Generated
from fgl_repro.data.sources.source import RawGraph


@dataclass
class Own(Dataset):
    """A data set of one's own: what ``raw`` gives is set by the tests."""

    name: ClassVar[str] = "own"
    given: ClassVar[Any] = None

    def raw(self, cache: Path) -> Any:
        return self.given


def pyg(labels: list[int], edges: list[tuple[int, int]], x: Any = None) -> Data:
    x = torch.eye(len(labels)) if x is None else x
    return Data(x=x, edge_index=torch.tensor(edges).T, y=torch.tensor(labels))


def raw(**changed: Any) -> RawGraph:
    """Three nodes, two classes and a link, one of these arrays changed."""
    arrays = {
        "features": sp.identity(3, np.float32, "csr"),
        "edges": np.array([[0], [1]]),
        "labels": np.array([0, 1, 1]),
    }
    return RawGraph(**{"num_classes": 2, **arrays, **changed})


def malformed(**changed: list[int]) -> Any:
    """One of an identity's index arrays is another."""
    out = sp.identity(3, np.float32, "csr")
    for name, values in changed.items():
        setattr(out, name, np.array(values, dtype=np.int32))
    return out


def linked(edge_index: Any) -> Data:
    return Data(x=torch.eye(3), edge_index=edge_index, y=torch.tensor([0, 1, 1]))


def test_masks_that_are_not_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for masks, told in (((), ""), (("train_mask", "test_mask"), "train_mask, test_mask of own")):
        data = pyg([0, 1, 1], [(0, 1), (1, 2)])
        for name in masks:
            data[name] = torch.ones(3, dtype=torch.bool)
        monkeypatch.setattr(Own, "given", data)
        Own().build(tmp_path)
        assert capsys.readouterr().err.partition(" are not")[0] == told
        Own().load(tmp_path, split_drawn=False)  # a partitioner may have its roles from them
        assert capsys.readouterr().err == ""
        Own().cache_path(tmp_path).unlink()


def test_a_data_set_of_ones_own_is_pinned_at_first_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Own, "given", pyg([0, 1, 2, 1, 0], [(0, 1), (1, 2), (2, 2), (3, 4)]))
    own = Own(features="raw")
    first = own.load(tmp_path)
    assert (first.num_nodes, first.num_edges, first.num_classes, first.num_features) == (3, 2, 3, 5)
    assert first.original_id.tolist() == [0, 1, 2]
    assert Own("raw", "whole").load(tmp_path).num_nodes == 5
    path = own.cache_path(tmp_path)
    assert json.loads(path.with_suffix(".json").read_text())["fingerprint"] == first.fingerprint
    process.write_cache(path, replace(first, labels=first.labels[::-1].copy()))
    assert own.load(tmp_path).fingerprint == first.fingerprint
    assert "built again" in capsys.readouterr().err
    monkeypatch.setattr(Own, "given", pyg([0, 1, 1, 1, 0], [(0, 1), (1, 2), (3, 4)]))
    assert own.load(tmp_path).fingerprint == first.fingerprint, "what is cached is what was loaded first"
    path.unlink()
    with pytest.raises(UserError, match=r"own \(raw\) has fingerprint .*: if it was changed on purpose"):
        own.load(tmp_path)


@pytest.mark.parametrize(
    ("raised", "told"), [(False, "its class still gives the cached graph"), (True, "cannot be built")]
)
def test_a_check_builds_a_data_set_of_ones_own_anew(
    raised: bool, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_dataset", lambda name, features: Own("raw"))
    monkeypatch.setattr(Own, "given", pyg([0, 1], [(0, 1)]))
    Own("raw").load(tmp_path)
    if raised:
        monkeypatch.setattr(Own, "raw", lambda self, cache: np.load(tmp_path / "absent.npz"))
    assert cli._check("own", SimpleNamespace(cache=tmp_path, features=None)) == 0
    assert told in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.setattr(cli, "_dataset", lambda name, features: Own("raw"))
    monkeypatch.setattr(Own, "given", pyg([1, 0], [(0, 1)]))
    with pytest.raises(UserError, match=r"own \(raw\): its runs rest on the graph .* raise revision in its class"):
        cli._check("own", SimpleNamespace(cache=tmp_path, features=None))


def test_a_cached_graph_is_good_where_the_cache_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Own, "given", pyg([0, 1], [(0, 1)]))
    path = Own().cache_path(tmp_path)
    first = Own().load(tmp_path)
    path.with_suffix(".json").unlink()  # a cache of others may lack it

    def refuse(path: Path, content: str) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(dataset, "write_atomic", refuse)
    assert Own().load(tmp_path).fingerprint == first.fingerprint
    assert list(path.parent.iterdir()) == [path]
    path.unlink()
    with pytest.raises(OSError, match="Read-only"):  # a graph that was built and not pinned could change unseen
        Own().load(tmp_path)


@dataclass
class Chain(Dataset):
    """A chain of nodes with a field that changes it, and one that does not."""

    name: ClassVar[str] = "chain"
    length: int = 3
    progress: bool = how(True)

    def raw(self, cache: Path) -> Any:
        return pyg([0] * self.length, [(node, node + 1) for node in range(self.length - 1)])


def test_each_value_of_a_field_of_ones_own_has_its_graph(tmp_path: Path) -> None:
    found = [Chain(length=length).load(tmp_path) for length in (3, 5, 3)]
    assert [graph.num_nodes for graph in found] == [3, 5, 3]
    assert Chain(progress=False).cache_path(tmp_path) == Chain().cache_path(tmp_path)
    assert len(list((tmp_path / "graphs").glob("chain-row-*.npz"))) == 2


def test_what_was_edited_and_given_another_revision_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Own, "given", pyg([0, 1], [(0, 1)]))
    first = Own().load(tmp_path)
    monkeypatch.setattr(Own, "given", pyg([0, 1, 1], [(0, 1), (1, 2)]))
    with monkeypatch.context() as raised:
        raised.setattr(Own, "revision", 2)
        assert Own().load(tmp_path).num_nodes == 3
        pin = json.loads(Own().cache_path(tmp_path).with_suffix(".json").read_text())
        assert pin["nodes"] == 3
    assert Own().load(tmp_path).fingerprint == first.fingerprint, "the first revision has its graph yet"


def test_another_text_of_an_announced_class_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, labels in (("a", [0, 1]), ("b", [0, 1, 2])):  # as ``announce`` notes it
        monkeypatch.setattr(Own, "recorded", {"source": text})
        monkeypatch.setattr(Own, "given", pyg(labels, [(node, node + 1) for node in range(len(labels) - 1)]))
        assert Own().load(tmp_path).num_nodes == len(labels)


def ours() -> dict[str, type[Dataset]]:
    """Data sets of this package; others may be installed."""
    return {name: made for name, made in options("dataset").items() if made.__module__.startswith("fgl_repro.")}


def test_files_of_our_data_sets_have_the_names_they_always_had() -> None:
    """There are gigabytes of them in the caches of those who use this package."""
    for name, made in ours().items():
        file = made().cache_path(Path()).name
        known = {"node": f"{name}-row-v1.npz", "graph": f"{name}-graphs-v1.npz"}
        assert file == (known[made.unit] if name in NAMES else "generated-row-pubmed-1000000-100-2.0-20-100.0-0-v1.npz")
    assert ours()["cora"]("raw", "whole").cache_path(Path()).name == "cora-whole-raw-v1.npz"


def test_every_field_of_our_data_sets_is_in_the_name_of_their_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for made in (made for made in ours().values() if made.unit == "node"):
        plain = made()
        others: dict[str, Any] = {"features": "raw", "component": "whole", "like": "cora"}
        for field in fields(made):
            other = replace(plain, **{field.name: others.get(field.name) or getattr(plain, field.name) + 1})
            assert other.cache_path(Path()) != plain.cache_path(Path()), field.name
    before = Generated().cache_path(Path())
    monkeypatch.setattr(Generated, "revision", 2)
    assert Generated().cache_path(Path()) != before


def test_nodes_without_features_can_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Own, "given", pyg([0, 1, 2, 3], [(0, 1), (1, 2), (2, 3)], torch.diag(torch.tensor([1.0, 0, 1, 1])))
    )
    graph = Own("raw", "featured").load(tmp_path)
    assert graph.original_id.tolist() == graph.labels.tolist() == [0, 2, 3]
    assert graph.adjacency.toarray().tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "must give a PyG Data with x, edge_index and y, not 3"),
        (Data(x=torch.eye(2)), "must give a PyG Data with x, edge_index and y"),
        (pyg([0, -1], [(0, 1)]), "must hold the class of each node"),
        (pyg([1, 2], [(0, 1)]), "begins with 1: count classes from 0."),
        (pyg([0, 1], [(0, 2)]), "names nodes that x does not have"),
        (linked(torch.tensor([[0, 1], [1, 2], [2, 0]])), r"edge_index of the data set own must be .*\[3, 2\]: transp"),
        (linked(torch.tensor([[0, 1], [1, 2.5]])), r"of whole numbers \[2, links\], not torch\.float32 \[2, 2\]"),
        (linked(torch.tensor([0, 1])), r"edge_index of the data set own must be .*, not torch\.int64 \[2\]"),
        (linked(np.array([[0], [1]])), r"edge_index of the data set own must be .*, not numpy\.ndarray"),
        (linked(torch.eye(2).long().to_sparse()), r"must be a dense tensor .*, not torch\.int64 \[2, 2\] as torch\.sp"),
        (pyg([0, 1], [(0, 1)], np.eye(2)), r"x of the data set own must be a tensor .*, not numpy\.ndarray: call t"),
        (pyg([0, 1], [(0, 1)], torch.eye(2).bfloat16()), r"x of the data set own must be .*, not torch\.bfloat16"),
        (pyg([0, 1], [(0, 1)], torch.eye(2).to(torch.complex64)), "x of the data set own must be .*complex64"),
        (pyg([0, 1], [(0, 1)], torch.ones(2)), r"x of the data set own must be a tensor \[nodes, features\]"),
        (pyg([0, 1], [(0, 1)]).update({"y": np.array([0, 1])}), "must hold the class of each node"),
        (pyg([0, 10**9], [(0, 1)]), "y of the data set own has 1000000001 classes for 2 nodes: number them"),
        (pyg([0, 1], [(0, 1)], torch.full((2, 2), torch.nan)), "no finite number"),
        (FakeDataset(2), "holds 2 graphs: a federation is cut from one"),
        (raw(features=np.eye(3, dtype=np.float32)), r"own: features is a \w+ of float\d\d: give scipy\.sparse"),
        (raw(features=sp.csr_matrix(np.eye(3))), r"own: features is a \w+ of float\d\d: give scipy\.sparse"),
        (raw(features=sp.csr_matrix(np.eye(2, dtype=np.float32))), "must hold the class of each node"),
        (raw(labels=[0, 1, 1]), "must hold the class of each node"),
        (raw(labels=np.array([0, 1, -1])), "must hold the class of each node"),
        (raw(labels=np.array([0, 1, 2])), "has class 2, num_classes is 2"),
        (raw(edges=np.array([[0, 1], [1, 2], [2, 0]])), r"must be a NumPy array of whole numbers \[2, links\]"),
        (raw(edges=np.array([[0.0], [1.0]])), r"must be a NumPy array of whole numbers \[2, links\]"),
        (raw(edges=np.array([[0], [3]])), "names nodes that x does not have"),
        (raw(edges=torch.tensor([[0], [1]])), r"must be a NumPy array of whole numbers \[2, links\]"),
        (raw(labels=torch.tensor([0, 1, 1])), "must hold the class of each node"),
        (raw(features=malformed(indices=[0, 1, 77])), r"the data set own: features is no matrix \("),
        (raw(features=malformed(indices=[0, 1, -1])), r"the data set own: features is no matrix \("),
        (raw(features=malformed(indptr=[0, 2, 1, 3])), r"the data set own: features is no matrix \("),
        (raw(features=sp.csr_matrix((3, 0), dtype=np.float32)), "x of the data set own has no columns: give each node"),
        (pyg([0, 1], [(0, 1)], torch.ones(2, 0)), "x of the data set own has no columns: give each node"),
        *((raw(num_classes=it), "num_classes of the data set own must be a whole number") for it in (2.0, None, "2")),
        (pyg([0, 1], [(0, 1)], torch.ones(2, 2, device="meta")), "not a tensor without data"),
        (pyg([0, 1], [(0, 1)], torch.full((2, 2), 1e300, dtype=torch.double)), "no finite number"),
    ],
)
def test_what_is_no_graph_of_labelled_nodes_is_refused(
    given: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Own, "given", given)
    with pytest.raises(UserError, match=said):
        Own().load(tmp_path)


def test_links_and_features_may_be_of_other_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for convert in (torch.Tensor.long, torch.Tensor.int, torch.Tensor.double, torch.Tensor.to_sparse):
        given = pyg([0, 1, 1], [(0, 1), (1, 2)], convert(torch.eye(3)))
        given.edge_index = given.edge_index.int()
        monkeypatch.setattr(Own, "given", given)
        found.append(Own("raw").build(tmp_path).fingerprint)
    for kind in (np.int8, np.int32, ">i8", np.uint8, np.uint64):
        labels, edges = np.array([0, 1, 1], dtype=kind), np.array([[0, 1], [1, 2]], dtype=kind)
        monkeypatch.setattr(Own, "given", raw(labels=labels, edges=edges, num_classes=np.int64(2)))
        graph = Own("raw").build(tmp_path)
        assert (graph.labels.dtype, type(graph.num_classes)) == (np.int64, int)
        found.append(graph.fingerprint)
    monkeypatch.setattr(Own, "given", pyg([0, 1, 1], [(0, 1), (1, 2)]))
    assert set(found) == {Own("raw").load(tmp_path).fingerprint}


def test_a_field_that_no_form_knows_of_has_a_cache_file_of_its_own_in_this_package_too(tmp_path: Path) -> None:
    """As where somebody puts a data set of one's own into ``data/sources/``."""

    @dataclass
    class Grown(Dataset):
        name: ClassVar[str] = "grown"
        nodes: int = 200

    Grown.__module__ = "fgl_repro.data.sources.grown"
    assert Grown(nodes=100).cache_path(tmp_path) != Grown().cache_path(tmp_path)


def test_a_data_set_of_pyg_says_itself_how_many_classes_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first class may have no node."""
    given = FakeDataset(1, num_classes=3, task="node")
    given._data.y += 1
    monkeypatch.setattr(Own, "given", given)
    graph = Own("raw", "whole").load(tmp_path)
    assert (graph.num_classes, graph.labels.min()) == (4, 1)
