"""The W&B mirror, checked by reading back what an offline run wrote."""

from __future__ import annotations

import copy
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fgl_repro.core.errors import UserError
from fgl_repro.fl.metrics import Measured
from fgl_repro.runs import tracking
from fgl_repro.runs.record import Note, Record, Selection

sys.path.insert(0, str(Path(__file__).parent))
from support import wandb_log

KEY, CELL = "0123456789abcdef" * 4, "fedcba9876543210" * 4
CURVES: dict[str, list[Any]] = {"round": [0, 1, 2], "loss": [1.5, 0.75, 0.5], "validation": [0.25, None, 0.875]}
CONFIG: dict[str, Any] = {
    "dataset": {"name": "cora", "features": "row", "revision": 1},
    "partitioner": {"name": "published", "clients": 3, "revision": 1},
    "setting": {"world": "closed_set", "hops": 2, "crop": 0.2, "revision": 1},
    "protocol": {"split": [0.4, 0.3, 0.3], "rounds": 3, "lr": 0.01},
    "model": {"name": "gcn", "hidden": 128, "dropout": 0.5},
    "method": {"name": "fedpub", "variant": "paper", "tau": 5.0},
    "seed": 2,
}
START = Note(key=KEY, cell=CELL, config=CONFIG, versions={"torch": "2.13.0"}, git={"sha": "abc", "dirty": False})
RECORD = Record(
    **vars(START.changed(status="ok")),
    data={"fingerprint": "f00d"},
    partition={"source": "metis", "hash": "beef", "cut": 368, "sizes": [900, 800, 785]},
    world={"missing": [[5], [], []]},
    selection=Selection(2, 2, 0.875, 0.5),
    metrics={
        "seen_graph": {"best": Measured(0.8125, 0.8125, 0.7, 0.75, [0.5, None, 0.9], [1, 0, 3])},
        "new_client": {"best": Measured(None, None, None, None, [], [])},
    },
    bytes={"setup": {"down": {"probe": 10}}, "rounds": {"up": {"weights": 300}, "down": {"weights": 200}}},
    seconds={"train": 2.5, "total": 3.0},
    peak_memory_mb=512.0,
    device="cpu",
    threads=1,
)


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No login, no settings and no folder of the machine's own reaches these tests."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT", "WANDB_ENTITY", "WANDB_RUN_GROUP", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setattr(tracking, "_refused", set())


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Our own warnings; W&B's log is not shown to users."""
    return [record.getMessage() for record in caplog.records if record.name == tracking.__name__]


def _runs(folder: Path) -> list[wandb_log.OfflineRun]:
    return [
        wandb_log.read(path) for path in sorted((folder / "wandb").glob("offline-run-*"), key=lambda p: p.name[-3:])
    ]


def test_pushed_record_is_what_the_offline_file_says(tmp_path: Path) -> None:
    info = tracking.push(RECORD, CURVES, dir=tmp_path, project="tables", tags=["fedlog"], job_type="table1")
    (seen,) = _runs(tmp_path)
    assert info == {"attempt": 0, "id": "0123456789ab-0", "url": None}
    assert seen.run.run_id == "0123456789ab-0"
    assert seen.run.display_name == "fedpub-cora-3c-closed_set-s2-012345"
    assert seen.run.run_group == CELL[:12]
    assert (seen.run.project, seen.run.job_type) == ("tables", "table1")
    assert list(seen.run.tags) == ["fedlog", "fedpub", "fedpub-paper", "cora", "closed_set"]
    for axis, value in RECORD.config.items():
        assert seen.config[axis] == value
    assert (seen.config["record_key"], seen.config["cell"]) == (KEY, CELL)
    assert seen.config["partition"]["hash"] == "beef"
    assert seen.history == [
        {"round": 0, "loss": 1.5, "validation": 0.25},
        {"round": 1, "loss": 0.75},
        {"round": 2, "loss": 0.5, "validation": 0.875},
    ]
    assert seen.metrics["*"].step_metric == "round"
    assert seen.exit_code == 0


def test_summary_holds_the_selected_numbers_and_nothing_else(tmp_path: Path) -> None:
    tracking.push(RECORD, CURVES, dir=tmp_path)
    (seen,) = _runs(tmp_path)
    assert seen.summary == {
        "status": "ok",
        "seen_graph/best/accuracy": 0.8125,
        "seen_graph/best/pooled": 0.8125,
        "seen_graph/best/clients_mean": 0.7,
        "seen_graph/best/macro": 0.75,
        "seen_graph/best/client_lowest": 0.5,
        "seen_graph/best/client_highest": 0.9,
        "seen_graph/best/client_std": pytest.approx(0.2),
        "selection/best_round": 2,
        "selection/last_round": 2,
        "selection/validation_best": 0.875,
        "selection/validation_last": 0.5,
        "bytes/setup/down/probe": 10,
        "bytes/rounds/up/weights": 300,
        "bytes/rounds/down/weights": 200,
        "bytes/total": 510,
        "seconds/train": 2.5,
        "seconds/total": 3.0,
        "peak_memory_mb": 512.0,
    }


def test_what_test_rows_select_is_called_test_and_what_a_rebuild_gave_a_rebuild(tmp_path: Path) -> None:
    protocol = {**CONFIG["protocol"], "selected_by": "test"}
    config = {**CONFIG, "protocol": protocol, "dataset": {**CONFIG["dataset"], "name": "cmnist_color"}}
    curves = CURVES | {"validation/0": [0.25, None, 0.875]}
    tracking.push(RECORD.changed(config=config), curves, dir=tmp_path)
    (seen,) = _runs(tmp_path)
    assert seen.history[2] == {"round": 2, "loss": 0.5, "test": 0.875, "test/0": 0.875}
    assert (seen.summary["selection/test_best"], seen.summary["selection/test_last"]) == (0.875, 0.5)
    assert seen.summary["seen_graph/best/accuracy"] == 0.8125
    assert not [name for name in [*seen.summary, *seen.history[0]] if "validation" in name]
    assert list(seen.run.tags) == ["fedpub", "fedpub-paper", "cmnist_color", "rebuild", "closed_set"]


def test_live_run_and_later_push_leave_the_same_trace(tmp_path: Path) -> None:
    with tracking.Live(START, dir=tmp_path / "live") as live:
        for round_, loss, validation in zip(*CURVES.values(), strict=True):
            live.log(round_, {"loss": loss, "validation": validation})
        live.finish(RECORD)
    assert live.info["id"] == "0123456789ab-0"
    tracking.push(RECORD, CURVES, dir=tmp_path / "later")
    (now,), (later,) = _runs(tmp_path / "live"), _runs(tmp_path / "later")
    assert now.config == later.config
    assert now.history == later.history
    assert now.summary == later.summary
    for part in ("run_id", "display_name", "run_group", "job_type", "tags", "project"):
        assert getattr(now.run, part) == getattr(later.run, part)


def test_every_push_of_a_record_gets_an_id_of_its_own(tmp_path: Path) -> None:
    before = copy.deepcopy(RECORD)
    ids = [tracking.push(RECORD, {}, dir=tmp_path)["id"] for _ in range(2)]
    assert ids == ["0123456789ab-0", "0123456789ab-1"]
    elsewhere = RECORD.changed(wandb={"attempt": 4, "id": "0123456789ab-4", "url": None})
    assert tracking.push(elsewhere, {}, dir=tmp_path / "new")["id"] == "0123456789ab-5"
    assert before == RECORD


def test_exception_closes_the_run_as_failed_and_passes(tmp_path: Path) -> None:
    def run() -> None:
        with tracking.Live(RECORD, dir=tmp_path) as live:
            live.log(0, {"loss": 1.0})
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        run()
    (seen,) = _runs(tmp_path)
    assert seen.exit_code == 1
    assert seen.history == [{"round": 0, "loss": 1.0}]


@pytest.mark.parametrize("end", [None, RECORD.changed(status="oom")])
def test_only_an_ok_record_makes_a_run_successful(tmp_path: Path, end: Record | None) -> None:
    with tracking.Live(RECORD, dir=tmp_path) as live:
        if end is not None:
            live.finish(end)
    (seen,) = _runs(tmp_path)
    assert seen.exit_code == 1


def test_runs_in_one_process_do_not_merge(tmp_path: Path) -> None:
    other = RECORD.changed(key="f" * 64)
    with tracking.Live(RECORD, dir=tmp_path) as first, tracking.Live(other, dir=tmp_path) as second:
        first.log(0, {"loss": 1.0})
        second.log(0, {"loss": 2.0})
        first.finish(RECORD)
        second.finish(other)
    found = {run.run.run_id: run.history for run in _runs(tmp_path)}
    assert found == {
        "0123456789ab-0": [{"round": 0, "loss": 1.0}],
        "f" * 12 + "-0": [{"round": 0, "loss": 2.0}],
    }


def test_disabled_never_imports_wandb_nor_touches_the_disk(tmp_path: Path) -> None:
    code = (
        "import sys; from fgl_repro.runs import tracking; from fgl_repro.fl.metrics import Measured\n"
        "from fgl_repro.runs.record import *\n"
        f"record, curves = {RECORD!r}, {CURVES!r}\n"
        "assert tracking.push(record, curves, mode='disabled') == record.wandb\n"
        "import pandas; assert tracking.push_table(pandas.DataFrame({'a': [1]}), 't', mode='disabled') is None\n"
        "assert not {'wandb', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_printed(tmp_path: Path) -> None:
    code = "from fgl_repro.runs import tracking; from fgl_repro.fl.metrics import Measured\n"
    code += "from fgl_repro.runs.record import *\n"
    code += f"tracking.push({RECORD!r}, {CURVES!r}, dir={str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "")
    assert len(_runs(tmp_path)) == 1


def test_no_login_means_offline_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with tracking.Live(RECORD, mode="online", dir=tmp_path) as live:
                live.finish(RECORD)
            assert live.info["url"] is None
    assert len(_runs(tmp_path)) == 2
    assert ["offline" in message for message in _said(caplog)] == [True]


def test_a_push_without_login_is_refused_and_leaves_no_copy(tmp_path: Path) -> None:
    """Also where a live run of this process has gone on offline before."""
    for copies in (0, 1):
        with pytest.raises(UserError, match=r"out of reach .*: wandb login first, or --mode offline\.$"):
            tracking.push(RECORD, CURVES, mode="online", dir=tmp_path)
        assert len(_runs(tmp_path)) == copies
        with tracking.Live(RECORD, mode="online", dir=tmp_path) as live:
            live.finish(RECORD)


def test_what_could_not_be_sent_keeps_its_id_and_the_run_goes_on_offline_under_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    real, tried = wandb.init, []

    def init(**given: Any) -> Any:
        tried.append((given["settings"].mode, given["id"]))
        if given["settings"].mode == "online":
            raise wandb.errors.CommError("no network")
        return real(**given)

    monkeypatch.setattr(wandb, "init", init)
    with tracking.Live(RECORD, mode="online", dir=tmp_path) as live:
        live.finish(RECORD)
    assert tried == [("online", "0123456789ab-0"), ("offline", "0123456789ab-1")]
    assert live.info == {"attempt": 1, "id": "0123456789ab-1", "url": None}


def test_failing_init_loses_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import wandb

    def refuse(**_: Any) -> None:
        raise wandb.errors.CommError("no\nservice")

    monkeypatch.setattr(wandb, "init", refuse)
    with caplog.at_level(logging.WARNING), tracking.Live(RECORD, dir=tmp_path) as live:
        live.log(0, {"loss": 1.0})
        live.finish(RECORD)
    assert live.info == RECORD.wandb
    assert _runs(tmp_path) == []
    assert _said(caplog) == ["W&B is off for this run (no); its record is complete."]


def test_folder_that_cannot_be_made_loses_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        assert tracking.push(RECORD, CURVES, dir=tmp_path / "file" / "below") == RECORD.wandb
    assert len(_said(caplog)) == 1


def test_failure_in_the_middle_is_one_sentence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), tracking.Live(RECORD, dir=tmp_path) as live:
        live._run.finish()
        live.log(0, {"loss": 1.0})
    assert any("could not log a round" in message and "\n" not in message for message in _said(caplog))


def test_table_becomes_an_artifact_with_the_csv(tmp_path: Path) -> None:
    columns = pd.MultiIndex.from_tuples([("method", ""), ("Cora", "3"), ("Cora", "5")])
    frame = pd.DataFrame([["Local", 81.2, float("nan")], ["FedAvg", 70.5, 60.0]], columns=columns)
    run_id = tracking.push_table(frame, "table-fedlog-1", dir=tmp_path)
    assert run_id is not None
    (folder,) = (tmp_path / "wandb").glob(f"offline-run-*-{run_id}")
    seen = wandb_log.read(folder)
    assert seen.run.job_type == "table"
    (logged,) = seen.history
    assert (logged["table-fedlog-1/nrows"], logged["table-fedlog-1/ncols"]) == (2, 3)
    (artifact,) = [artifact for artifact in seen.artifacts if artifact.name == "table-fedlog-1"]
    assert artifact.type == "table"
    files = {entry.path: entry.local_path for entry in artifact.manifest.contents}
    assert Path(files["table-fedlog-1.csv"]).read_text() == "method,Cora 3,Cora 5\nLocal,81.2,\nFedAvg,70.5,60.0\n"


def test_history_drops_what_is_not_finite() -> None:
    rows = tracking.history({"round": [0, 1], "loss": [0.5, None], "validation": [float("nan"), float("inf")]})
    assert rows == [{"round": 0, "loss": 0.5}, {"round": 1}]


@pytest.mark.parametrize(("asked", "warnings"), [("disabled", 1), ("offline", 0)])
def test_a_mode_that_is_not_read_is_told_once(
    asked: str, warnings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tracking._tell_mode.cache_clear()
    monkeypatch.setenv("WANDB_MODE", asked)
    for _ in range(2):
        tracking.push(RECORD, CURVES, dir=tmp_path)
    assert (
        _said(caplog)
        == [f"WANDB_MODE={asked} is not read: logger (of a push --mode) decides, and says offline."] * warnings
    )
    assert len(_runs(tmp_path)) == 2
