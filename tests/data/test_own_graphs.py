"""A data set of graphs of one's own: from a list of PyG ``Data`` or a ``GraphSet``, and what is wrong with either."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.datasets import FakeDataset

from fgl_repro.core.errors import UserError
from fgl_repro.data import graph_checks, load, process
from fgl_repro.data.dataset import Dataset
from fgl_repro.data.graph_dataset import GraphDataset, disjoint_union
from fgl_repro.data.graphset import GraphSet
from support import worlds

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "adding.md"


@dataclass
class Own(GraphDataset):
    """A data set of one's own: what ``graphs`` gives is set by the tests."""

    name: ClassVar[str] = "own"
    given: ClassVar[Any] = None

    def graphs(self, cache: Path) -> Any:
        return self.given() if callable(self.given) else self.given


@dataclass
class OfNodes(Dataset):
    """A data set whose author took the base class for one graph."""

    name: ClassVar[str] = "of_nodes"

    def raw(self, cache: Path) -> Any:
        return [one(0, 0), one(1, 0)]


@dataclass
class Raw(GraphDataset):
    """A data set whose author overrode the wrong method."""

    name: ClassVar[str] = "raw"

    def raw(self, cache: Path) -> Any:
        return [one(0, 0), one(1, 0)]


def one(y: Any, /, environment: Any = None, nodes: int = 3, **more: Any) -> Data:
    """A path of nodes, each link given once, whose first feature is the class."""
    x = torch.full((nodes, 2), float(y))
    links = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    where = {} if environment is None else {"environment": environment}
    return Data(**{"x": x, "edge_index": links, "y": torch.tensor([y]), **where, **more})


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], GraphSet]:
    def get(given: Any) -> GraphSet:
        monkeypatch.setattr(Own, "given", staticmethod(given) if callable(given) else given)
        found = Own().load(tmp_path)
        assert isinstance(found, GraphSet)
        return found

    return get


def changed(**fields: Any) -> GraphSet:
    return replace(worlds.graph_set(), **fields)


def linked(pairs: list[tuple[int, int]], columns: int | None = None) -> GraphSet:
    """Two graphs of two nodes with these links between all four nodes."""
    rows, to = np.array(pairs).T
    links = sp.csr_matrix((np.ones(len(pairs), np.float32), (rows, to)), shape=(4, columns or 4))
    inner = sp.csr_matrix(np.ones((4, 1), dtype=np.float32))
    ptr, both = np.array([0, 2, 4]), np.array([0, 1])
    return GraphSet.of("two", ptr, inner, links, np.zeros(2, dtype=int), labels=both, num_classes=2)


def of(environment: Any, **answers: Any) -> GraphSet:
    base = worlds.graph_set(2, 2)
    return GraphSet.of("own", base.ptr, base.inner, base.links, np.asarray(environment), **answers)


def test_a_list_of_data_is_a_set_of_graphs_in_the_order_of_its_environments(
    loaded: Callable[[Any], GraphSet],
) -> None:
    found = loaded([one(0, 1), one(1, 0, 2), one(1, 1, 4), one(0, 0)])
    assert found.environment.tolist() == [0, 0, 1, 1]
    assert found.labels.tolist() == [1, 0, 0, 1]
    assert np.diff(found.ptr).tolist() == [2, 3, 3, 4]
    assert found.inner.toarray()[:, 0].tolist() == np.repeat([1, 0, 0, 1], [2, 3, 3, 4]).tolist()
    assert found.links.nnz == 2 * (1 + 2 + 2 + 3), "each link in both directions"
    assert (found.num_classes, found.num_environments) == (2, 2)
    assert found.targets is None


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_a_number_to_predict_may_be_of_any_float_and_have_a_gradient(
    kind: torch.dtype, loaded: Callable[[Any], GraphSet]
) -> None:
    numbers = torch.tensor([2.5, -1.0], dtype=kind, requires_grad=True)
    found = loaded((one(0, y=numbers[0]), one(0, y=numbers[1])))
    assert found.targets is not None
    assert found.targets.tolist() == [2.5, -1.0]


def test_floats_are_numbers_to_predict_and_environments_may_be_left_out(loaded: Callable[[Any], GraphSet]) -> None:
    alone = one(2.5, nodes=2, edge_index=torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1]]), x=torch.ones(2, 2).long())
    found = loaded((alone, one(-1.0, nodes=1)))
    assert found.targets is not None
    assert found.targets.tolist() == [2.5, -1.0]
    assert found.environment.tolist() == found.labels.tolist() == [0, 0]
    assert found.links.toarray()[:2, :2].tolist() == [[0, 1], [1, 0]], "loops are left out, and doubles"
    assert found.inner.dtype == np.float32


def test_a_data_set_of_pyg_is_taken_too(loaded: Callable[[Any], GraphSet]) -> None:
    torch.manual_seed(0)
    fake = FakeDataset(20, avg_num_nodes=5, num_classes=4, task="graph")
    found = loaded(lambda: fake)
    assert (found.num_nodes, found.num_classes, found.num_features) == (20, fake.num_classes, fake.num_features)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, r"graphs\(\) of own must give a list of PyG Data, or a GraphSet, not 3"),
        ([], "must give a list of PyG Data"),
        ([one(0), 3], "must give a list of PyG Data"),
        (Batch.from_data_list([one(0), one(1)]), "must give a list of PyG Data"),
        ([one(0), Data(y=1)], r"graph 1 of own must have x \[nodes, features\] and edge_index"),
        ([one(0), one(1, edge_index=torch.tensor([[0], [3]]))], "edge_index of graph 1 of own names nodes that x"),
        (
            [one(0), one(1, edge_index=torch.tensor([[0, 1], [1, 2], [2, 0]]))],
            r"edge_index of graph 1 .*\[3, 2\]: tran",
        ),
        ([one(0), one(1, edge_index=torch.tensor([[0], [1.5]]))], r"graph 1 of own must be a .*not torch\.float32 \[2"),
        ([one(0), one(1, edge_index=np.array([[0], [1]]))], r"edge_index of graph 1 of own must .*, not numpy\.nda"),
        ([one(0), one(1, edge_index=torch.eye(2).to_sparse())], "edge_index of graph 1 of own must be a dense tensor"),
        ([one(0), one(1, x=np.ones((3, 2)))], r"x of graph 1 of own must be .*, not numpy\.ndarray: call torch"),
        ([one(0), one(1, x=torch.ones(3, 2).bfloat16())], r"x of graph 1 of own must be .*, not torch\.bfloat16 \[3"),
        ([one(0), one(1, x=torch.ones(3))], r"x of graph 1 of own must be a tensor \[nodes, features\]"),
        ([one(0), one(10**9)], "it has 1000000001 classes for 2 graphs: number them"),
        ([one(0), one(1, y=None)], "y of graph 1 of own must be a class or a number to predict, not None"),
        ([one(0), one(1, y=torch.tensor([0, 1]))], "y of graph 1 of own must be a class or a number"),
        ([one(0), one(1.5)], "is a class for some graphs and a number to predict for others"),
        ([one(1), one(2)], "y of the graphs of own begins with 1: count classes from 0"),
        ([one(0), one(1, x=torch.ones(3, 5))], "graphs of own have from 2 to 5 features a node"),
        ([one(0), one(1, x=torch.full((3, 2), torch.nan))], "inner has values that are no finite number"),
        ([one(0), one(1, x=torch.ones(0, 2), edge_index=torch.zeros(2, 0))], "graph 1 has no node: leave it out"),
        ([one(0, 0), one(1, environment="far")], "environment of graph 1 of own must be a whole number, not 'far'"),
        ([one(0, 0), one(1, 2)], "environment of own must ascend from 0 without gaps"),
        ([one(0, 1), one(1, 1)], "environment of own must ascend from 0 without gaps"),
        ([one(0), one(0)], "of one class there is nothing to learn"),
    ],
)
def test_what_is_no_list_of_graphs_is_refused(given: Any, said: str, loaded: Callable[[Any], GraphSet]) -> None:
    with pytest.raises(UserError, match=said):
        loaded(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: of([1, 1, 0, 0], labels=np.arange(4) % 2, num_classes=2), "environment of own must ascend from 0"),
        (lambda: of([0, 1, 0, 1], labels=np.arange(4) % 2, num_classes=2), "environment of own must ascend from 0"),
        (lambda: of([0, 0, 2, 2], labels=np.arange(4) % 2, num_classes=2), "environment of own must ascend from 0"),
        (lambda: of([0, 0, 1], labels=np.arange(4) % 2), "environment of own must be a whole number for each graph"),
        (lambda: of([0, 0, 1, 1], num_classes=2), "own has nothing to predict: give GraphSet.of labels and num_cl"),
        (lambda: of([0, 0, 1, 1], labels=np.full(4, 0.5)), "labels of own must be a whole number for each graph"),
        (lambda: of([0, 0, 1, 1], targets=np.zeros(3)), "targets of own must be a number for each of its 4 graphs"),
        (lambda: of([0, 0, 1, 1], labels=1 + np.arange(4) % 2, num_classes=2), "labels go from 1 to 2 with num_cl"),
        (lambda: of([0, 0, 1, 1], labels=np.arange(4) - 1, num_classes=3), "labels go from -1 to 2 with num_classes=3"),
        (lambda: of([0, 0, 1, 1], labels=np.arange(4) % 2), "labels go from 0 to 1 with num_classes=1"),
        (lambda: of([0, 0, 1, 1], targets=np.array([0, 1, np.inf, 0])), "targets has values that are no finite number"),
        (lambda: of([0, 0, 1, 1], labels=np.arange(4), targets=np.zeros(4)), "it has both classes and targets"),
        (lambda: linked([(0, 1), (2, 3)]), "links go in one direction only: give each in both"),
        (lambda: linked([(0, 1), (1, 0), (1, 2), (2, 1)]), "a link leads out of graph 0"),
        (lambda: linked([(0, 1), (1, 0), (2, 3), (3, 4)], 5), "links has 5 columns for 4 nodes"),
        (lambda: linked([(0, 1), (1, 0), (3, 3)]), "node 3 links to itself"),
        (lambda: linked([(0, 1), (1, 0), (0, 1)]), "links has values other than 1"),
        (lambda: changed(inner=sp.csr_matrix((3, 5), dtype=np.float32)), r"inner has 3 rows for \d+ nodes"),
        (lambda: changed(inner=worlds.graph_set().inner.astype(int)), "inner is a csr_matrix of int64: give scipy"),
        (lambda: changed(inner=worlds.graph_set().inner.tocoo()), "inner is a coo_matrix of float32: give scipy"),
        (lambda: changed(inner=worlds.graph_set().inner[:, :0]), "inner has no columns"),
        (lambda: changed(inner=worlds.graph_set().inner * np.float32(np.nan)), "inner has values that are no finite"),
        (lambda: changed(fields=(3, 2)), "inner has values other than 1 though fields"),
        (lambda: replace(worlds.graph_set(molecules=True), fields=(3, 4)), "inner must have a 1 in each of"),
        (lambda: replace(worlds.graph_set(molecules=True), bond_fields=(5, 6)), r"bonds must be uint8 \[\d+, 2\]"),
        (lambda: replace(worlds.graph_set(molecules=True), bond_fields=(5, 6, 1)), "bonds has values that bond_fields"),
    ],
)
def test_what_a_set_must_hold_is_asked_for(
    given: Callable[[], GraphSet], said: str, loaded: Callable[[Any], GraphSet]
) -> None:
    with pytest.raises(UserError, match=said):
        loaded(given)


def out_of_range() -> GraphSet:
    base = linked([(0, 1), (1, 0), (2, 3), (3, 2)])
    base.links.indices[0] = 7
    return base


def unsorted() -> GraphSet:
    base = linked([(0, 1), (1, 0)])
    links = sp.csr_matrix((np.ones(2, np.float32), np.array([1, 1], np.int32), np.array([0, 2, 2, 2, 2])), (4, 4))
    return replace(base, links=links)


@pytest.mark.parametrize(("given", "said"), [(out_of_range, "links is no matrix"), (unsorted, "links has columns twi")])
def test_a_broken_matrix_is_refused_before_it_is_used(
    given: Callable[[], GraphSet], said: str, loaded: Callable[[Any], GraphSet]
) -> None:
    with pytest.raises(UserError, match=said):
        loaded(given)


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([(1, 0), (0, 1), (0, 1), (1, 0)], "links out of order or twice"),
        ([(0, 1), (0, 1), (0, 1), (1, 0)], "links out of order or twice"),
        ([(0, 1), (1, 2), (0, 1), (1, 0)], "links that lead out of their graph"),
        ([(0, 1), (1, -1), (0, 1), (1, 0)], "links that lead out of their graph"),
        ([(0, 1), (1, 0), (0, 1)], r"2 sizes, 2 counts that sum to 4, and ends \[2, 3\]"),
    ],
)
def test_links_of_a_union_are_looked_at(ends: list[tuple[int, int]], said: str) -> None:
    with pytest.raises(UserError, match=said):
        disjoint_union(np.array([2, 2]), np.array([2, 2]), np.array(ends).T)


@pytest.mark.parametrize("kind", [{}, {"molecules": True}, {"molecules": True, "numbers": True}])
def test_sets_that_are_right_pass(kind: dict[str, bool]) -> None:
    graph_checks.check(worlds.graph_set(**kind))
    graph_checks.check(of([0, 0, 1, 1], labels=np.array([0, 2, 2, 0]), num_classes=3))


def test_a_data_set_of_ours_passes(tmp_path_factory: pytest.TempPathFactory) -> None:
    graphs = load("motif_basis", tmp_path_factory.mktemp("ours"))
    assert isinstance(graphs, GraphSet)
    graph_checks.check(graphs)


def test_a_file_of_environments_out_of_order_is_built_again(
    loaded: Callable[[Any], GraphSet], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such files were written before anybody looked."""
    base = worlds.graph_set(2, 2)
    path = Own().cache_path(tmp_path)
    path.parent.mkdir()
    process.write_cache(path, replace(base, environment=base.environment[::-1].copy()))
    assert process.read_cache(path, "own") is None
    assert loaded(base).fingerprint == base.fingerprint


def test_the_wrong_method_or_base_class_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"raw is a data set of graphs, which the method graphs\(cache\) must give, no"):
        Raw().load(tmp_path)
    with pytest.raises(UserError, match=r"holds 2 graphs: .* derive the data set from data\.graph_dataset\.GraphData"):
        OfNodes().load(tmp_path)


def test_the_guides_example_is_a_data_set(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), flags=re.M | re.S)
    (code,) = [block for block in blocks if "GraphDataset" in block]
    found: dict[str, Any] = {}
    exec(code, found)
    graphs = found["Hoops"]().load(tmp_path)
    assert graphs.sizes == {"graphs": 120, "nodes": 1437, "edges": 1377, "features": 1, "classes": 2}
    assert np.bincount(graphs.environment).tolist() == [60, 60]
    assert np.bincount(graphs.labels).tolist() == [60, 60]
