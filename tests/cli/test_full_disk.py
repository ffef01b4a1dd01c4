"""A sweep whose records can no longer be written computes nothing more that would be thrown away."""

from __future__ import annotations

from pathlib import Path

from fgl_repro.runs.store import RecordStore
from support import fake_train
from support.sweeps import lines

SIX = ("-m", "method=local,fedavg", "seed=0,1,2", "logger=disabled")
CROWDED = {"FAKE_FULL": "2"}


def test_a_sweep_stops_where_the_disk_is_full_and_the_same_command_resumes_it(tmp_path: Path) -> None:
    done = fake_train.call(tmp_path, *SIX, **CROWDED)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("fgl-train: job 2 (method=local seed=2 logger=disabled): ")
    said = ".json: No space left on device: the sweep stops here; the 2 jobs recorded before are kept, and the same "
    assert done.stderr.endswith(f"{said}command does the rest once there is room.\n")
    assert len(lines(tmp_path / "log", "start")) == 3
    store = RecordStore(tmp_path / "records")
    assert (len(store.files()), store.orphans()) == (2, [])
    assert {path.suffix for path in store.folder.glob("[!.]*")} == {".json", ".csv"}
    again = fake_train.call(tmp_path, *SIX)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("already recorded in") == 2
    assert len(lines(tmp_path / "log", "start")) == 3 + 4


def test_it_stops_though_whoever_looks_for_bugs_wants_tracebacks(tmp_path: Path) -> None:
    done = fake_train.call(tmp_path, *SIX, **CROWDED, HYDRA_FULL_ERROR="1")
    assert done.returncode == 2
    assert len(lines(tmp_path / "log", "start")) == 3


def test_a_sweep_stops_where_its_folder_is_read_only(tmp_path: Path) -> None:
    done = fake_train.call(tmp_path, *SIX, FAKE_READ_ONLY="1")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Read-only file system: the sweep stops here; nothing was recorded before, and" in done.stderr
    assert done.stderr.endswith(" once it can be written.\n")


def test_a_single_run_says_what_is_full(tmp_path: Path) -> None:
    done = fake_train.call(tmp_path, "method=local", "logger=disabled", FAKE_FULL="0")
    assert done.returncode == 2
    assert ".json: No space left on device: name a place that can be read and written, or make room." in done.stderr


def test_a_sweep_says_what_is_kept_where_hydra_has_no_room_to_note_its_next_job(tmp_path: Path) -> None:
    done = fake_train.call(tmp_path, *SIX, "hydra.sweep.dir=out", FAKE_UNNOTED=str(Path("out") / "1" / ".hydra"))
    assert done.returncode == 2
    assert done.stderr.startswith("fgl-train: No space left on device: the sweep stops here; the 1 job recorded before")
    assert len(lines(tmp_path / "log", "start")) == 1
