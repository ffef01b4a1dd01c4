"""Sweeps: nothing twice, nothing lost, one bad run is one bad run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import fgl_repro
from fgl_repro.config import key_of, science
from fgl_repro.runs.progress import Costs, guess
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.runs.sweep import jobs_of, run_all
from support import helpers
from support.sweeps import lines, wait_for

FAKE = "support.fake_run:execute"
SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start without it
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as under nohup
sys.path.insert(0, {tests!r})
from support import helpers
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.sweep import run_all
if __name__ == "__main__":
    configs = [helpers.config(seed=100 + i) for i in range({count})]
    from fgl_repro.cli import exit_status
    def sweep():
        summary = run_all(configs, {jobs}, RecordStore({folder!r}), execute="support.fake_run:execute")
        print(summary.done, summary.skipped, summary.elsewhere)
        return 0 if summary.ok else 1
    sys.exit(exit_status("sweep", sweep))
"""


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("FAKE_LOG", str(path))
    return path


def start_sweep(tmp_path: Path, count: int, jobs: int, seconds: float) -> subprocess.Popen[str]:
    script = tmp_path / "sweep.py"
    tests = str(Path(__file__).parents[1])
    script.write_text(SCRIPT.format(tests=tests, count=count, jobs=jobs, folder=str(tmp_path / "records")))
    source = str(Path(__file__).parents[2] / "src")
    environment = os.environ | {"FAKE_SECONDS": str(seconds), "PYTHONPATH": source}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, str(script)], env=environment, text=True, start_new_session=True, **pipes)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_runs_what_is_missing_once(store: RecordStore, log: Path) -> None:
    configs = [helpers.config(seed=seed) for seed in range(4)]
    store.save(helpers.record(configs[0]))
    panels = [helpers.config(seed=seed, setting="unseen_node") for seed in range(4)]  # same world, same runs
    summary = run_all([*configs, *panels], 2, store, execute=FAKE)
    assert summary.ok
    assert (summary.done, summary.skipped) == (3, 1)
    assert sorted(lines(log, "start")) == sorted(key_of(c) for c in configs[1:])
    assert all(store.load(key_of(c)) for c in configs)
    assert store.curves(key_of(configs[1])) == {"round": [0, 1], "loss": [2, 1]}
    assert not list(store.folder.glob("*.claim"))
    again = run_all(configs, 2, store, execute=FAKE)
    assert (again.done, again.skipped) == (0, 4)
    assert len(lines(log, "start")) == 3


def test_a_forced_run_is_done_again_and_no_older_record_hides_that_its_worker_died(
    store: RecordStore, log: Path
) -> None:
    configs = [helpers.config(seed=seed, overrides={"runtime.force": True}) for seed in (0, 16)]
    for config in configs:
        store.save(helpers.record(config))
    summary = run_all(configs, 1, store, execute=FAKE)
    assert (summary.done, summary.skipped) == (1, 0)
    assert [label for label, _ in summary.failed.values()] == ["fedavg-release cora K=3 closed_set seed=16"]
    assert lines(log, "end") == [key_of(configs[0])]


def test_bad_runs_are_recorded_and_the_sweep_goes_on(
    store: RecordStore, log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    configs = [helpers.config(seed=seed) for seed in (13, 14, 15, 16, 17, 18)]
    summary = run_all(configs, 1, store, execute=FAKE)
    assert not summary.ok
    assert summary.done == 2
    notes = [store.load_failed(key_of(c)) for c in configs]
    assert [n and n.status for n in notes] == ["failed", "oom", "failed", "failed", None, None]
    assert "ValueError: thirteen" in notes[0].error
    assert "Traceback" in notes[0].error
    assert "worker died" in notes[3].error
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("failed: ")]
    assert len(said) == 4
    assert "seed=13" in said[0]
    note = store.path(key_of(configs[0])).with_suffix(".failed.json")
    assert said[0].endswith(f": ValueError: thirteen (traceback in {note})")
    assert said[2].endswith("no data: set FGL_DATA.")
    assert not list(store.folder.glob("*.claim"))
    run_all(configs, 1, store, execute=FAKE)
    assert Counter(lines(log, "start"))[key_of(configs[0])] == 2, "a failed run is tried again"
    assert Counter(lines(log, "start"))[key_of(configs[5])] == 1


def test_a_folder_that_cannot_be_written_is_one_refusal(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        run_all([helpers.config()], 1, RecordStore(tmp_path / "file" / "records"), execute=FAKE)
    run_all([], 1, RecordStore(tmp_path / "file" / "records"), execute=FAKE)


def test_a_record_of_another_key_is_refused(store: RecordStore) -> None:
    summary = run_all([helpers.config()], 1, store, execute="helpers:record")
    assert not summary.ok


def test_damaged_record_is_set_aside_and_repeated(store: RecordStore, capfd: pytest.CaptureFixture[str]) -> None:
    run = helpers.config()
    path = store.save(helpers.record(run))
    path.write_text(path.read_text()[:100])
    assert run_all([run], 1, store, execute=FAKE).done == 1
    assert store.load(key_of(run)) is not None
    assert len(list(store.folder.glob("*.corrupt"))) == 1
    assert "warning: " in capfd.readouterr().err


def test_kill_and_restart(tmp_path: Path, store: RecordStore, log: Path) -> None:
    count = 8
    first = start_sweep(tmp_path, count, 2, 0.4)
    wait_for(lambda: len(lines(log, "end")) >= 3 and len(lines(log, "start")) > len(lines(log, "end")))
    os.kill(first.pid, signal.SIGKILL)  # the parent only: its workers must notice by themselves
    first.communicate()
    recorded = {r.key for r in store.all()}
    assert 1 <= len(recorded) < count
    second = start_sweep(tmp_path, count, 2, 0.05)
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert len(list(store.all())) == count
    starts = Counter(lines(log, "start"))
    assert all(starts[key] == 1 for key in recorded), "a finished run was repeated"
    done, skipped, _ = map(int, out.split())
    assert done < count
    assert skipped >= len(recorded)
    assert not list(store.folder.glob("*.claim"))
    pids = {int(line.split()[2]) for line in log.read_text().splitlines()}
    wait_for(lambda: all(gone(pid) for pid in pids))


def test_two_sweeps_share_the_work(tmp_path: Path, store: RecordStore, log: Path) -> None:
    sweeps = [start_sweep(tmp_path, 8, 1, 0.3) for _ in range(2)]
    outputs = [sweep.communicate(timeout=60) for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [0, 0], outputs
    assert len(list(store.all())) == 8
    assert max(Counter(lines(log, "start")).values()) == 1
    done = [int(out.split()[0]) for out, _ in outputs]
    assert sum(done) == 8
    assert min(done) >= 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_sweep_cleanly(
    tmp_path: Path, store: RecordStore, log: Path, number: signal.Signals, status: int
) -> None:
    sweep = start_sweep(tmp_path, 6, 2, 0.5)
    wait_for(lambda: len(lines(log, "end")) >= 1 and len(lines(log, "start")) > len(lines(log, "end")))
    os.killpg(sweep.pid, number)  # as a terminal does
    _, err = sweep.communicate(timeout=20)
    assert sweep.returncode == status
    assert err == "sweep: stopped: finished runs are kept; start again to do the rest.\n"
    assert not list(store.folder.glob("*.claim"))
    assert set(lines(log, "end")) >= {r.key for r in store.all()}


def test_order() -> None:
    runs = [helpers.config(dataset=d, seed=s) for s in (1, 0) for d in ("pubmed", "cora", "computers")]
    jobs = jobs_of(runs)
    assert [job.identity["dataset"]["name"] for job in jobs] == [
        d for d in ("cora", "pubmed", "computers") for _ in "ab"
    ]
    assert [job.identity["seed"] for job in jobs[:2]] == [0, 1]


def test_a_run_of_a_larger_data_set_is_expected_to_take_longer() -> None:
    by_size = ["cora", "pubmed", "computers", "cs", "arxiv", "physics", "reddit", "products"]
    assert list(map(guess, by_size)) == sorted(map(guess, by_size))
    assert 10 < guess("cora") < 40
    assert guess("physics") < 600
    assert guess("a user's own") > 0


def test_costs_come_from_the_most_alike_runs() -> None:
    cora, large, other = (
        helpers.config(),
        helpers.config(clients=10),
        helpers.config(dataset="pubmed"),
    )
    costs = Costs([(science(cora), 2.0), (science(cora), 4.0), (science(large), 9.0)])
    assert costs.seconds(science(cora)) == 3.0
    assert costs.seconds(science(helpers.config(clients=5))) == 5.0
    assert costs.seconds(science(other)) > 0
    assert costs.of_like(science(cora)) == 3.0
    assert costs.of_like(science(helpers.config(clients=5))) is None
    batched = helpers.config(overrides={"protocol.batch": 64})
    assert costs.seconds(science(batched)) == costs.of_like(science(batched)) == 3.0
    costs.learn(science(batched), 30.0)
    assert costs.seconds(science(batched)) == 30.0
    assert costs.seconds(science(cora)) == 3.0


def test_no_torch() -> None:
    package = Path(fgl_repro.__file__).parent
    rooms = [path for room in ("tables", "config") for path in (package / room).rglob("*.py")]
    rooms += [path for path in (package / "runs").rglob("*.py") if path.stem != "execute"]
    names = [".".join(path.relative_to(package.parent).with_suffix("").parts) for path in sorted(rooms)]
    code = "import sys\n" + "".join(f"import {name.removesuffix('.__init__')}\n" for name in names)
    code += "sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_worker_whose_gpu_has_failed_takes_no_further_run(store: RecordStore, log: Path) -> None:
    """After an error of CUDA nothing works in that process; another one goes on."""
    configs = [helpers.config(seed=seed) for seed in (41, 1, 13, 42)]
    summary = run_all(configs, 1, store, execute=FAKE)
    assert (summary.done, len(summary.failed)) == (2, 2)
    starts = [line.split() for line in log.read_text().splitlines() if line.startswith("start")]
    keys, pids = [key for _, key, _ in starts], [pid for *_, pid in starts]
    after = keys.index(key_of(configs[0])) + 1
    assert len(set(pids[:after])) == len(set(pids[after:])) == 1, "any other failure leaves a worker as it is"
    assert pids[0] != pids[-1]


def test_what_a_gpu_took_says_nothing_of_a_cpu(store: RecordStore) -> None:
    for seed, device, seconds in ((1, "cpu", 100.0), (2, "cuda:0", 4.0)):
        made = helpers.record(run := helpers.config(seed=seed), seconds={"total": seconds})
        store.save(made.changed(device=device))
    assert store.costs.seconds(science(run)) == 100
    packed = {record.key: record for record in store.all()}
    assert Archive(RecordStore(store.folder / "none"), packed).costs.seconds(science(run)) == 100
