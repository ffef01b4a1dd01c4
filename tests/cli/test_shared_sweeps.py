"""The same sweep of ``fgl-train -m`` in two shells: what the other one computes is tried again at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgl_repro.config import key_of
from fgl_repro.runs.obtain import BusyError, in_turn
from fgl_repro.runs.store import RecordStore
from support import fake_train, helpers
from support.sweeps import lines

FOUR = ("-m", "method=local,fedavg", "seed=0,1", "logger=disabled")
TUNED = ("-m", "method=local", "seed=1,2", "protocol=fedlog_tuned", "logger=disabled")


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "given up"])
def test_a_job_that_another_process_computes_is_tried_again_after_the_last(
    tmp_path: Path, store: RecordStore, recorded: bool
) -> None:
    run = helpers.config(method="local", seed=1)
    said = f"run {key_of(run)[:16]} is being computed by another process: "
    with store.claim(key_of(run)) as claim:
        assert claim is not None
        process = fake_train.start(tmp_path, *FOUR)
        assert process.stdout is not None
        assert process.stderr is not None
        first, second = process.stderr.readline(), process.stderr.readline()
        assert first.startswith("fgl-train: job 1 (method=local seed=1 logger=disabled): ")
        assert first.endswith(f": {said}it is tried again after the last job.\n")
        assert second == f"waiting: {said}wait for it, or stop that process.\n"
        assert len(store.files()) == 3, "the other jobs come first"
        if recorded:
            store.save(helpers.record(run))
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert out.count("already recorded in") == recorded
    assert len(store.files()) == 4
    assert len(lines(tmp_path / "log", "start")) == 4 - recorded


def test_two_shells_share_a_sweep(tmp_path: Path, store: RecordStore) -> None:
    both = [fake_train.start(tmp_path, *FOUR, FAKE_SECONDS="0.5") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert out.count("recorded in") == 4
    started = lines(tmp_path / "log", "start")
    assert len(started) == len(set(started)) == len(store.files()) == 4


def test_a_busy_candidate_is_waited_for_and_forced_ones_are_done_once_in_each_turn(
    tmp_path: Path, store: RecordStore
) -> None:
    chosen = helpers.config(method="local", seed=1, protocol="fedlog_tuned", overrides={"protocol.lr": 0.001})
    with store.claim(key_of(chosen)):
        process = fake_train.start(tmp_path, *TUNED, "runtime.force=true")
        assert process.stderr is not None
        told = [process.stderr.readline() for _ in range(2)]
        assert key_of(chosen)[:16] in told[1]
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert len(lines(tmp_path / "log", "start")) == 4 + 2, "candidates are done once for all jobs, each job once"


def test_a_damaged_candidate_is_set_aside_and_done_again(tmp_path: Path, store: RecordStore) -> None:
    lost = helpers.config(method="local", seed=0, protocol="fedlog_tuned", overrides={"protocol.lr": 0.01})
    path = store.path(key_of(lost))
    path.parent.mkdir()
    path.write_text("{")
    done = fake_train.call(tmp_path, *TUNED)
    assert done.returncode == 0
    assert f"Now called {path.with_suffix('.corrupt').name}; the run counts as not done." in done.stderr
    assert len(store.files()) == 4 + 2


def test_a_single_run_leaves_it_alone(tmp_path: Path, store: RecordStore) -> None:
    with store.claim(key_of(helpers.config(method="local"))):
        done = fake_train.call(tmp_path, "method=local", "logger=disabled")
    assert done.returncode == 2
    assert done.stderr.startswith("fgl-train: run ")
    assert done.stderr.endswith("is being computed by another process: wait for it, or stop that process.\n")
    assert not (tmp_path / "log").exists()


def test_nobody_sleeps_before_each_task_has_been_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, busy = list[str](), {"a", "c"}

    def do(task: str) -> None:
        seen.append(task)
        if task in busy:
            raise BusyError(f"{task} is busy.")

    def sleep(_: float) -> None:
        seen.append("asleep")
        busy.clear()

    monkeypatch.setattr("fgl_repro.runs.obtain.time.sleep", sleep)
    in_turn("abcd", do)
    assert "".join(f" {each}" for each in seen) == " a b c d a c asleep a c"
