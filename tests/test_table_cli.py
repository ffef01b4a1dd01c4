"""``fgl-table``: the smoke test that keeps nothing, and what is pushed to W&B."""

from __future__ import annotations

from pathlib import Path

import pytest

import wandb_log
from fgl_repro.cli import table as cli


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fgl_repro.sweep.run_all.__kwdefaults__", {"execute": "fake_run:execute"})


def call(tmp_path: Path, *words: str) -> int:
    return cli.main([*words, "--records", str(tmp_path / "records"), "--results", str(tmp_path / "results")])


def test_fast_touches_nothing(tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    seen = []
    monkeypatch.setattr(cli, "_prepared", lambda configs, args: seen.extend(configs) or configs)
    folder = tmp_path / "throwaway"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert call(tmp_path, "run", "table2", "--fast", "--methods", "local,fedpub", "--clients", "5,10") == 0
    out = capsys.readouterr().out
    assert "2 runs done, 0 found" in out
    assert "Cora, 5 clients" in out
    assert "nothing was kept" in out
    assert "10 clients" not in out
    assert "CiteSeer" not in out
    assert {(c.protocol.rounds, c.seed, c.dataset.name, c.partitioner.clients) for c in seen} == {(2, 0, "cora", 5)}
    assert list(folder.iterdir()) == []
    assert {p.name for p in tmp_path.iterdir()} == {"throwaway"}


def test_push_logs_runs_and_table_with_tags(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    corner = ("table1", "--datasets", "cora", "--clients", "3", "--methods", "local", "--seeds", "0")
    assert call(tmp_path, "push", *corner) == 0
    assert capsys.readouterr().out.startswith("0 runs logged")
    assert call(tmp_path, "run", *corner) == 0
    assert call(tmp_path, "push", *corner) == 0
    assert "1 runs and the table logged (offline)" in capsys.readouterr().out
    folders = (tmp_path / "wandb_dir" / "wandb").glob("offline-run-*")
    seen = {run.run.job_type: run for run in map(wandb_log.read, folders)}
    assert set(seen) == {"table1", "table"}
    assert {"fedlog", "table1", "local", "cora"} <= set(seen["table1"].run.tags)
    assert seen["table"].run.display_name == "table-fedlog-1"
    assert set(seen["table"].run.tags) == {"fedlog", "table1"}
    assert [artifact.name for artifact in seen["table"].artifacts if artifact.type == "table"] == ["table-fedlog-1"]
