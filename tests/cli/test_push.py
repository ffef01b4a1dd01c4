"""What ``fgl-table push`` sends to W&B, and what it says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgl_repro.runs.store import RecordStore
from support import wandb_log
from support.commands import call

CORNER = ("table1", "--datasets", "cora", "--clients", "3", "--methods", "local", "--seeds", "0")
ADDED = "fedlog/1 --protocol fedlog --add fedgta --datasets cora --clients 3"


def test_push_logs_runs_and_table_with_tags(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    assert call(tmp_path, "run", *CORNER) == 0
    assert call(tmp_path, "push", *CORNER) == 0
    out, place = capsys.readouterr().out, tmp_path / "wandb_dir" / "wandb"
    assert "1 runs and the table logged (offline)" in out
    assert out.endswith(f"\nThey lie in {place}: 'wandb sync {place}/offline-run-*' sends them.\n")
    folders = (tmp_path / "wandb_dir" / "wandb").glob("offline-run-*")
    seen = {run.run.job_type: run for run in map(wandb_log.read, folders)}
    assert set(seen) == {"fedlog/1", "table"}
    assert {"fedlog", "fedlog/1", "local", "cora"} <= set(seen["fedlog/1"].run.tags)
    own = {name: seen["fedlog/1"].config[name] for name in ("row", "column", "cell_name")}
    assert own == {"row": "local", "column": "Cora, 3 clients", "cell_name": "Cora, 3 clients: local"}
    assert seen["table"].run.display_name == "table-fedlog-1"
    assert set(seen["table"].run.tags) == {"fedlog", "fedlog/1"}
    assert [artifact.name for artifact in seen["table"].artifacts if artifact.type == "table"] == ["table-fedlog-1"]
    for again, told in (((), "0 runs and the table"), (("--again",), "1 runs and the table")):
        assert call(tmp_path, "push", *CORNER, *again) == 0
        assert capsys.readouterr().out.startswith(f"{told} logged (offline).")
    assert call(tmp_path, "push", *CORNER, "--add", "fedgta", "--project", "mine") == 0
    assert "1 runs and the table logged (offline).\n" in capsys.readouterr().out, "another project has none of them yet"
    folders = (tmp_path / "wandb_dir" / "wandb").glob("offline-run-*")
    assert "table-fedlog-1-fedgta" in {run.run.display_name for run in map(wandb_log.read, folders)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            (*CORNER, "--add", "fedgta"),
            f"there are no recorded runs to push: 'fgl-table run {ADDED} --seeds 0 --methods local' does them.",
        ),
        (("fedlog/12",), "fedlog/12 is about data and has no runs: push a table that has, see 'fgl-table list'."),
        (("opfgl/24",), "opfgl/24 has no runs to push. Left blank: "),
    ],
)
def test_what_has_no_runs_is_not_pushed(
    tmp_path: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, "push", *words) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"fgl-table: {said}")
    assert (out, err.count("\n")) == ("", 1)


def test_a_second_push_logs_nothing_that_the_first_is_logging(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    assert call(tmp_path, "run", *CORNER) == 0
    store = RecordStore(tmp_path / "records")
    capsys.readouterr()
    with store.claim(next(iter(store.all())).key):
        assert call(tmp_path, "push", *CORNER) == 1
    assert "0 runs and the table logged (offline). 1 are being run or pushed" in capsys.readouterr().out
    assert call(tmp_path, "push", *CORNER) == 0
    assert "1 runs and the table logged (offline)" in capsys.readouterr().out


def test_push_says_what_wandb_did_not_take(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    def refuse(**_: object) -> None:
        raise wandb.errors.CommError("no service")

    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setattr(wandb, "init", refuse)
    assert call(tmp_path, "run", *CORNER) == 0
    capsys.readouterr()
    assert call(tmp_path, "push", *CORNER) == 1
    assert capsys.readouterr().out.startswith("0 runs logged (offline). W&B did not take all of 1 runs and the table")
