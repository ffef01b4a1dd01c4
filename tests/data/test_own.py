"""A data set of one's own: from a PyG object, pinned at first load, checked after."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset

from fgl_repro.core.errors import UserError
from fgl_repro.data import process
from fgl_repro.data.dataset import Dataset


@dataclass
class Own(Dataset):
    """A data set of one's own: what ``raw`` gives is set by the tests."""

    name: ClassVar[str] = "own"
    given: ClassVar[Any] = None

    def raw(self, cache: Path) -> Any:
        return self.given


def pyg(labels: list[int], edges: list[tuple[int, int]], x: torch.Tensor | None = None) -> Data:
    x = torch.eye(len(labels)) if x is None else x
    return Data(x=x, edge_index=torch.tensor(edges).T, y=torch.tensor(labels))


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
        (pyg([0, 1], [(0, 2)]), "names nodes that x does not have"),
        (pyg([0, 1], [(0, 1)], torch.full((2, 2), torch.nan)), "no finite number"),
        (FakeDataset(2), "holds 2 graphs: a federation is cut from one"),
    ],
)
def test_what_is_no_graph_of_labelled_nodes_is_refused(
    given: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Own, "given", given)
    with pytest.raises(UserError, match=said):
        Own().load(tmp_path)
