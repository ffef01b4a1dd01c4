"""What takes long to find out about a world is computed once, and again when anything that it hangs on is another."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgl_repro.config import build
from fgl_repro.data.graph import Graph
from fgl_repro.tables.kinds import common


def test_kept_until_world_data_or_code_are_others(
    toy_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, calls = build({"paths.cache": str(tmp_path)}, dataset="cora", clients=3), []

    def ask(config: object = config, what: str = "cut") -> dict[str, float]:
        return common.kept(config, toy_graph, what, lambda: calls.append(what) or {"cut": 0.1})  # type: ignore[func-returns-value]

    assert [ask(), ask()] == [{"cut": 0.1}] * 2
    assert calls == ["cut"]
    ask(what="edges")
    ask(build({"paths.cache": str(tmp_path)}, dataset="cora", clients=5))
    monkeypatch.setattr(common, "version_of_code", lambda: "another")
    ask()
    assert calls == ["cut", "edges", "cut", "cut"]
    for file in (tmp_path / "facts").iterdir():
        file.write_text("{", encoding="utf-8")  # damaged
    assert ask() == {"cut": 0.1}
    assert len(calls) == 5


def test_a_cache_that_cannot_be_written_is_done_without(toy_graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "facts").write_text("a file", encoding="utf-8")
    config = build({"paths.cache": str(tmp_path)}, dataset="cora")
    assert common.kept(config, toy_graph, "cut", lambda: 3) == 3
