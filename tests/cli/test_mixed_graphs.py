"""Runs of one data set that were made on different graphs: every command that prints or logs them says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fgl_repro.cli import to_wandb
from fgl_repro.config import build
from fgl_repro.runs.store import RecordStore
from support import helpers
from support.commands import call

CORNER = ("fedlog/1", "--datasets", "cora", "--clients", "3", "--methods", "local,fedavg")
TOLD = "Runs of one data set were made on different graphs, cora (another, f): raise the data set's revision, or keep"
SOURCE = str(Path(__file__).parents[2] / "src")


def record_two(folder: Path, *graphs: str) -> None:
    for seed, graph in enumerate(graphs):
        for method in ("local", "fedavg"):
            run = build({"seed": seed}, method=method, dataset="cora", clients=3)
            RecordStore(folder / "records").save(helpers.record(run, data={"fingerprint": graph}))


@pytest.mark.parametrize(
    "words", [("show", "--csv"), ("show",), ("test", "--csv", "--row", "local"), ("test", "--row", "local"), ("latex",)]
)
def test_tables_of_different_graphs_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    command, *flags = words
    record_two(tmp_path, "f", "f")
    assert call(tmp_path, command, *CORNER, *flags) == 0
    assert "different graphs" not in "".join(capsys.readouterr())
    record_two(tmp_path, "f", "another")
    assert call(tmp_path, command, *CORNER, *flags) == 0
    out, err = capsys.readouterr()
    numbers_alone = command == "latex" or "--csv" in flags
    assert (out + err).count(TOLD) == 1
    assert (TOLD in err) == numbers_alone, "where only numbers are printed, it stands beside them"


def test_what_is_pushed_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = {"attempt": 0, "id": "x", "url": None}
    monkeypatch.setattr(to_wandb.tracking, "push", lambda *_, **__: mirror)
    monkeypatch.setattr(to_wandb.tracking, "push_table", lambda *_, **__: "x")
    record_two(tmp_path, "f", "another")
    assert call(tmp_path, "push", *CORNER) == 0
    assert TOLD in capsys.readouterr().err


@pytest.mark.parametrize(("graphs", "said"), [(("f", "f"), False), (("f", "another"), True)])
def test_a_sweep_over_different_graphs_is_warned_of(tmp_path: Path, graphs: tuple[str, ...], said: bool) -> None:
    record_two(tmp_path, *graphs)
    words = ["-m", "method=local", "dataset=cora", "partitioner.clients=3", "seed=0,1", "logger=disabled"]
    environment = os.environ | {"PYTHONPATH": SOURCE, "FGL_RECORDS": str(tmp_path / "records")}
    command = [sys.executable, "-m", "fgl_repro.train", *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("already recorded in") == 2
    assert (f"fgl-train: {TOLD}" in done.stderr) is said
