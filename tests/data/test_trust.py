"""What is never used: a cached graph that is not the published one, a folder that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fgl_repro.cli import data as cli
from fgl_repro.core.errors import UserError
from fgl_repro.core.registry import option
from fgl_repro.data import load, process
from fgl_repro.data.graph import Graph

RealGraph = Callable[..., Graph]


def test_a_cached_graph_that_is_not_the_published_one_is_never_used(
    real_graph: RealGraph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = real_graph("cora")
    path = process.cache_path(option("dataset", "cora")("row"), tmp_path)
    process.write_cache(path, replace(graph, labels=graph.labels[::-1].copy()))
    assert load("cora", tmp_path).fingerprint == graph.fingerprint
    assert "does not hold the cora it should: built again" in capsys.readouterr().err
    assert cli.main(["check", "cora", "--cache", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("value", ["~nobody-of-that-name/x", "x" * 5000, "typo"])
def test_a_folder_that_cannot_be_is_one_sentence(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FGL_DATA", value)
    with pytest.raises(UserError, match=r"^FGL_DATA=\S{1,200} is not a folder: set it to one that holds"):
        load("cora", tmp_path)
