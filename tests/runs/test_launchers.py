"""Sweeps on Ray and submitit: nothing twice, nothing lost, and the records of the local sweep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fgl_repro.config import key_of
from fgl_repro.core.errors import UserError
from fgl_repro.runs.launchers.launcher import NEEDED, Launcher
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.sweep import run_all
from support import helpers, slurm
from support.sweeps import lines, wait_for

TESTS = Path(__file__).parents[1]
RUNS = 12
FAKE, REAL = "support.fake_run:execute", "support.fake_run:real"
SCRIPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from support import helpers
from fgl_repro.cli import exit_status
from fgl_repro.runs.launchers.launcher import Launcher
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.sweep import run_all
name, address, seconds, execute, cache = sys.argv[1:]
os.environ["FAKE_SECONDS"] = seconds
configs = [helpers.config(seed=seed, overrides={"protocol.rounds": 3, "paths.cache": cache}) for seed in SEEDS]
def sweep():
    launcher = Launcher(name, address or None)
    summary = run_all(configs, 2, RecordStore("records"), launcher, execute="support.fake_run:" + execute)
    print(summary.done, summary.skipped, summary.elsewhere)
    return 0 if summary.ok else 1
if __name__ == "__main__":
    sys.exit(exit_status("sweep", sweep))
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("FAKE_LOG", str(path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)]))
    return path


@pytest.fixture(params=["ray", "submitit_local"])
def launcher(request: pytest.FixtureRequest, log: Path) -> Iterator[Launcher]:
    """Ray: a cluster of two nodes, here. After ``log``, so that its workers write there."""
    pytest.importorskip(NEEDED[request.param], reason="not installed: it comes with the extra launchers")
    if request.param != "ray":
        yield Launcher(request.param)
        return
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, include_dashboard=False)
        yield Launcher("ray", cluster.address)
    finally:
        cluster.shutdown()


class Sweep:
    """A sweep in a process of its own, which is in the folder of the test."""

    def __init__(self, folder: Path, launcher: Launcher, cache: Path, execute: str, seconds: float) -> None:
        script = folder / "sweep.py"
        script.write_text(SCRIPT.replace("SEEDS", f"range(100, {100 + RUNS})"))
        words = [launcher.name, launcher.address or "", str(seconds), execute, str(cache)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [sys.executable, str(script), *words]
        self.process = subprocess.Popen(command, cwd=folder, text=True, start_new_session=True, **pipes)

    def end(self) -> tuple[int, int, int]:
        out, err = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, err
        done, skipped, elsewhere = map(int, out.split())
        return done, skipped, elsewhere


def lasting(record: Record) -> dict[str, Any]:
    """What a record says that does not hang on when, and how fast, it was computed."""
    return {name: value for name, value in record.as_json().items() if name not in PASSING}


PASSING = ("checksum", "git", "peak_memory_mb", "resting_memory_mb", "seconds", "written")


@pytest.mark.slow
def test_a_killed_sweep_goes_on_and_records_what_a_local_one_would(
    launcher: Launcher, tmp_path: Path, log: Path, cache: Path, real_graph: Callable[..., Any]
) -> None:
    real_graph("cora")
    store = RecordStore(tmp_path / "records")
    first = Sweep(tmp_path, launcher, cache, "real", 1.0)
    wait_for(lambda: len(lines(log, "end")) >= 5 and len(lines(log, "start")) > len(lines(log, "end")))
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.communicate()
    known = {path.name: path.stat().st_mtime_ns for path in store.files()}
    assert 4 <= len(known) < RUNS
    done, skipped, elsewhere = Sweep(tmp_path, launcher, cache, "real", 0.0).end()
    assert done + skipped + elsewhere == RUNS
    assert skipped >= len(known)
    assert len(store.files()) == RUNS
    assert not list(store.folder.glob("*.claim"))
    assert known.items() <= {path.name: path.stat().st_mtime_ns for path in store.files()}.items()
    started = Counter(key[:16] for key in lines(log, "start"))
    assert all(started[name.partition(".")[0]] == 1 for name in known), "a finished run was repeated"
    assert len(started) == RUNS
    assert Sweep(tmp_path, launcher, cache, "real", 0.0).end() == (0, RUNS, 0)

    local = RecordStore(tmp_path / "local")
    overrides = {"protocol.rounds": 3, "paths.cache": str(cache)}
    configs = [helpers.config(seed=seed, overrides=overrides) for seed in range(100, 100 + RUNS)]
    assert run_all(configs, 1, local, execute=REAL).done == RUNS
    assert [lasting(record) for record in store.all()] == [lasting(record) for record in local.all()]


@pytest.mark.slow
def test_ctrl_c_stops_the_runs_and_gives_their_claims_up(
    launcher: Launcher, tmp_path: Path, log: Path, cache: Path
) -> None:
    sweep = Sweep(tmp_path, launcher, cache, "execute", 3.0)
    wait_for(lambda: len(lines(log, "end")) >= 1 and len(lines(log, "start")) > len(lines(log, "end")))
    sweep.process.send_signal(signal.SIGINT)
    _, err = sweep.process.communicate(timeout=60)
    assert sweep.process.returncode == 130, err
    assert err == "sweep: stopped: finished runs are kept; start again to do the rest.\n"
    assert not list((tmp_path / "records").glob("*.claim"))
    assert not (tmp_path / "records" / ".sweeps").exists()


@pytest.mark.slow
def test_bad_runs_are_recorded_and_the_sweep_goes_on(
    launcher: Launcher, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = RecordStore("records")
    configs = [helpers.config(seed=seed) for seed in (13, 14, 15, 16, 17)]
    summary = run_all(configs, None, store, launcher, execute=FAKE)
    assert summary.done == 1
    notes = [store.load_failed(key_of(c)) for c in configs]
    assert [n and n.status for n in notes] == ["failed", "oom", "failed", "failed", None]
    assert "ValueError: thirteen" in notes[0].error
    assert "worker died" in notes[3].error
    assert len(summary.failed) == 4
    assert not (tmp_path / "records" / ".sweeps").exists()


@pytest.mark.slow
def test_ray_shares_gpus_out_and_asks_for_no_more_cpus_than_a_machine_has(tmp_path: Path, log: Path) -> None:
    ray = pytest.importorskip("ray", reason="not installed: it comes with the extra launchers")
    old = tmp_path / "records" / ".sweeps" / "elsewhere-1-0"
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    ray.init("local", num_cpus=2, num_gpus=2, include_dashboard=False)  # which a notebook might have done
    try:
        configs = [
            helpers.config(seed=seed, overrides={"runtime.threads": threads}) for seed, threads in ((1, 1), (2, 4))
        ]
        summary = run_all(
            configs, 4, RecordStore(tmp_path / "records"), Launcher("ray"), execute="support.fake_run:gpus"
        )
        assert summary.done == 2
        assert ray.is_initialized(), "only what the sweep started is stopped"
    finally:
        ray.shutdown()
    assert sorted(len(word.split(",")) for word in lines(log, "gpus")) == [1, 1]
    assert not old.exists()


@pytest.mark.slow
def test_slurm_is_given_job_arrays_and_goes_on_when_the_sweep_is_killed(
    tmp_path: Path, log: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit", reason="not installed: it comes with the extra launchers")
    monkeypatch.setenv("PATH", slurm.install(tmp_path / "bin"))
    monkeypatch.setenv("FAKE_SLURM", str(tmp_path))
    store = RecordStore(tmp_path / "records")
    first = Sweep(tmp_path, Launcher("slurm"), cache, "execute", 1.0)
    wait_for(lambda: len(lines(log, "end")) >= 3)
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.communicate()
    assert len(store.files()) < RUNS
    assert "--array=0-11%2" in (tmp_path / "jobs" / "100").read_text()
    assert sum(Sweep(tmp_path, Launcher("slurm"), cache, "execute", 0.0).end()) == RUNS
    assert len(store.files()) == RUNS
    assert Counter(lines(log, "start")) == Counter(lines(log, "end"))
    assert max(Counter(lines(log, "start")).values()) == 1, "what Slurm had been given was done by both"

    options = {"slurm_partition": "gpu", "timeout_min": 30, "gpus_per_node": 1}
    configs = [helpers.config(seed=seed, overrides={"runtime.threads": 2}) for seed in (13, 17)]
    monkeypatch.chdir(tmp_path)
    summary = run_all(configs, None, RecordStore("more"), Launcher("slurm", slurm=options), execute=FAKE)
    assert (summary.done, len(summary.failed)) == (1, 1)
    told = max((tmp_path / "jobs").iterdir()).read_text()
    for words in ("array=0-1%2", "cpus-per-task=2", "partition=gpu", "time=30", "gpus-per-node=1"):
        assert f"--{words}\n" in told


@pytest.mark.slow
def test_ctrl_c_cancels_what_slurm_was_given(
    tmp_path: Path, log: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit", reason="not installed: it comes with the extra launchers")
    monkeypatch.setenv("PATH", slurm.install(tmp_path / "bin"))
    monkeypatch.setenv("FAKE_SLURM", str(tmp_path))
    sweep = Sweep(tmp_path, Launcher("slurm"), cache, "execute", 0.5)
    wait_for(lambda: len(lines(log, "end")) >= 1)
    sweep.process.send_signal(signal.SIGINT)
    sweep.process.communicate(timeout=60)
    assert sweep.process.returncode == 130
    assert (tmp_path / "cancelled").read_text() == "100\n", "one word for the whole array"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "moon"}, "there is no launcher moon: choose from local, ray, slurm, submitit_local."),
        ({"address": "auto"}, "--address is of a Ray cluster: give --launcher ray with it."),
        ({"name": "ray", "slurm": {"mem_gb": 4}}, "--slurm is for --launcher slurm: give that with it."),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        Launcher(**given)
    assert str(caught.value) == said


@pytest.mark.parametrize("name", ["ray", "slurm", "submitit_local"])
def test_a_package_that_is_missing_is_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fgl_repro.runs.launchers.launcher.find_spec", lambda _: None)
    with pytest.raises(UserError, match=f"{NEEDED[name]}, which is not installed: pip install -c constraints.txt"):
        run_all([helpers.config()], 1, RecordStore(tmp_path / "records"), Launcher(name), execute=FAKE)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Launcher("ray", "127.0.0.1:1"), "Ray at 127.0.0.1:1 cannot be used: Connection refused."),
        (Launcher("slurm"), "--launcher slurm cannot be used: Could not detect"),
        (Launcher("submitit_local", slurm={"moon": 1}), "submitit_local cannot be used: Parameter 'moon' need to be"),
        (Launcher("submitit_local", slurm={"timeout_min": "1h"}), 'cannot be used: Parameter "timeout_min" expected'),
    ],
    ids=["ray", "slurm", "option", "value"],
)
def test_an_engine_that_cannot_be_used_is_one_sentence(
    given: Launcher, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(NEEDED[given.name], reason="not installed: it comes with the extra launchers")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError) as caught:
        run_all([helpers.config()], 1, RecordStore(tmp_path / "records"), given, execute=FAKE)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "records" / ".sweeps").exists()
