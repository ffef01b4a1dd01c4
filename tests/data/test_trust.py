"""What is never used: a cached graph that is not the published one, a folder that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from fgl_repro.cli import data as cli
from fgl_repro.core.errors import UserError
from fgl_repro.core.registry import option
from fgl_repro.data import load, process
from fgl_repro.data.graph import Graph

RealGraph = Callable[..., Graph]


@pytest.mark.parametrize(
    "change",
    [
        lambda graph: {"labels": graph.labels[::-1].copy()},
        lambda graph: {"num_classes": graph.num_classes + 1},  # which no fingerprint counts
        lambda graph: {
            "features": sp.csr_matrix(
                (graph.features.data, graph.features.indices, graph.features.indptr),
                shape=(graph.num_nodes, graph.num_features + 1),
            )
        },
    ],
)
def test_a_cached_graph_that_is_not_the_published_one_is_never_used(
    change: Callable[[Graph], dict[str, Any]], real_graph: RealGraph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = real_graph("cora")
    path = option("dataset", "cora")("row").cache_path(tmp_path)
    process.write_cache(path, replace(graph, **change(graph)))
    found = load("cora", tmp_path)
    assert (found.fingerprint, found.num_classes) == (graph.fingerprint, graph.num_classes)
    assert found.num_features == graph.num_features
    assert "does not hold the cora it should: built again" in capsys.readouterr().err
    assert cli.main(["check", "cora", "--cache", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


def test_arrays_of_another_type_are_no_graph(real_graph: RealGraph, tmp_path: Path) -> None:
    path = tmp_path / "cora.npz"
    process.write_cache(path, real_graph("cora"))
    with np.load(path) as stored:
        arrays = dict(stored)
    for name in ("labels", "features_data", "original_id"):
        np.savez(path, **arrays | {name: np.array(["a"] * len(arrays[name]))})
        assert process.read_cache(path, "cora") is None


@pytest.mark.parametrize("value", ["~nobody-of-that-name/x", "x" * 5000, "typo"])
def test_a_folder_that_cannot_be_is_one_sentence(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FGL_DATA", value)
    with pytest.raises(UserError, match=r"^FGL_DATA=\S{1,200} is not a folder: set it to one that holds"):
        load("cora", tmp_path)
