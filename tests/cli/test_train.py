"""The command line as a person meets it: real processes, real Cora, two rounds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgl_repro.cli import multirun, train
from fgl_repro.config import build, key_of
from fgl_repro.methods import local
from fgl_repro.runs import obtain, provenance
from fgl_repro.runs.store import RecordStore
from support import helpers, wandb_log

SOURCE = str(Path(__file__).parents[2] / "src")
TWO_ROUNDS = ("protocol.rounds=2", "logger=disabled")


class Shell:
    """A folder to run ``fgl-train`` in, with records of its own."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.store = folder, RecordStore(folder / "records")
        dropped = ("WANDB_", "HYDRA_FULL_ERROR", "FGL_RECORDS", "COMP_")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        self.environment |= {"PYTHONPATH": SOURCE, "FGL_CACHE": str(cache), "HOME": str(folder / "home")}

    def __call__(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fgl_repro.train", *words, f"paths.records={self.store.folder}"]
        environment = self.environment | environment
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120)

    def refused(self, *words: str, **environment: str) -> str:
        """The one sentence on stderr of a command that must fail."""
        done = self(*words, **environment)
        assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
        assert done.stderr.startswith("fgl-train: ")
        assert done.stderr.count("\n") == 1
        assert done.stderr.endswith(".\n")
        return done.stderr

    def left(self) -> set[str]:
        """Files below the folder, Hydra's log of what was asked for apart."""
        found = (p.relative_to(self.folder) for p in self.folder.rglob("*") if p.is_file())
        return {str(p) for p in found if p.parts[0] != "outputs"}


@pytest.fixture
def shell(tmp_path: Path, cache: Path) -> Shell:
    return Shell(tmp_path, cache)


def without_heavy_imports(shell: Shell, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``fgl-train``, which fails unless it does without torch, W&B and pandas; what is slow to start is one of them."""
    probe = f"import sys; sys.argv[1:] = {list(words)!r}; from fgl_repro.train import main; main(); "
    probe += "loaded = {'torch', 'wandb', 'pandas'} & set(sys.modules); sys.exit(f'imported {loaded}' if loaded else 0)"
    command = [sys.executable, "-c", probe]
    everything = {**shell.environment, "FGL_RECORDS": str(shell.store.folder), **environment}
    return subprocess.run(command, cwd=shell.folder, env=everything, capture_output=True, text=True, timeout=120)


@pytest.fixture
def cora(real_graph: Callable[..., Any]) -> None:
    real_graph("cora")


def test_a_sweep_runs_once(shell: Shell, cora: None) -> None:
    words = ("-m", "method=local,fedavg,fedpub", "partitioner.clients=3,5", "seed=0,1", "protocol.rounds=2")
    first = shell(*words)
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("recorded in") == 12
    assert "already" not in first.stdout
    written = {path: path.stat().st_mtime_ns for path in shell.store.files()}
    keys = {
        key_of(build({"protocol.rounds": 2}, method=method, clients=clients, seed=seed))
        for method in ("local", "fedavg", "fedpub")
        for clients in (3, 5)
        for seed in (0, 1)
    }
    assert {record.key for record in shell.store.all()} == keys
    assert not (shell.folder / "wandb").exists(), "a sweep does not log as it goes"
    again = without_heavy_imports(shell, *words)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("already recorded in") == 12
    assert {path: path.stat().st_mtime_ns for path in shell.store.files()} == written


def test_a_single_run_logs_live_and_a_forced_one_is_the_next_attempt(shell: Shell, cora: None) -> None:
    done = shell("method=fedavg", "protocol.rounds=2")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (folder,) = (shell.folder / "wandb").glob("offline-run-*")
    seen = wandb_log.read(folder)
    (record,) = shell.store.all()
    assert "fedlog" in seen.run.tags
    assert (seen.exit_code, len(seen.history)) == (0, 2)
    assert record.wandb["id"] == seen.run.run_id == f"{record.key[:12]}-0"
    assert shell("method=fedavg", "protocol.rounds=2", "runtime.force=true", "logger=disabled").returncode == 0
    (record,) = shell.store.all()
    assert record.wandb["id"] == seen.run.run_id, "a run that is not logged keeps its mirror"
    for path in folder.parent.glob("*"):  # synced and cleaned away: only the record remembers
        path.rename(shell.folder / path.name)
    assert shell("method=fedavg", "protocol.rounds=2", "runtime.force=true").returncode == 0
    (record,) = shell.store.all()
    assert record.wandb["id"] == f"{record.key[:12]}-1"


def test_cfg_job_needs_no_torch(shell: Shell) -> None:
    done = without_heavy_imports(shell, "--cfg", "job", "method=fedpub")
    assert done.returncode == 0, done.stderr
    assert "l1: 0.001" in done.stdout
    assert shell.left() == set()


def test_overrides_may_stand_on_both_sides_of_flags(shell: Shell, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    done = shell("method=local", "--config-dir", str(own), "seed=3", "--cfg", "job", "debug=fast")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^seed: 3$", done.stdout, re.MULTILINE)
    assert re.search(r"^  rounds: 2$", done.stdout, re.MULTILINE)


def test_shell_completion_needs_no_torch(shell: Shell) -> None:
    line = "fgl-train method=fed"
    asked = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_CWORD": "1"}
    done = without_heavy_imports(shell, "-sc", "query=bash", **asked)
    assert done.returncode == 0, done.stderr
    offered = {word.removeprefix("method=") for word in done.stdout.split()}
    assert {"fedavg", "fedpub", "fedntd", "feded"} <= offered


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("method=fedpubb", "method=fedpubb does not exist (did you mean fedpub?): choose from coboost, "),
        ("method=mine", "method=mine does not exist: choose from coboost, "),
        ("method=fedpub:paper", "is no option: give method=fedpub method.variant=paper."),
        ("seed=-1", "seed=-1 is below 0: give 0, 1, 2 or another whole number."),
        ("seed=0,1", "seed=0,1 gives several values: add -m (a sweep)."),
        ("method=fedavg,local", "method=fedavg,local gives several values: add -m (a sweep)."),
        ("protocol.split=0.5,0.3,0.2", "add -m (a sweep), or write protocol.split=[0.5,0.3,0.2] if it is one list."),
        ("partitioner.clients=0", "partitioner.clients=0 is out of range: give at least 1"),
        ("seed=x", "seed=x: give a whole number."),
        ("method=fedpub method.tauu=3", "of method are variant, tau, l1, l2, similarity, random_graph, masks."),
        (
            "method=local method.secure=true",
            "secure aggregation is for method=fedavg, feded, fedntd, fedprox, opfgl.",
        ),
        ("method=gcfl method.secure=true", "drop it, or choose method from fedavg, feded, fedntd, fedprox, opfgl."),
        ("method=null", "a group cannot be null"),
        ("protocol.tuning={seed:0}", "write + before its name"),
        ("hydra.job.env_set.FOO=1", "write + before its name"),
        ("~seed", "seed belongs to every run and cannot be removed"),
        ("--resolve", "--resolve goes with --cfg"),
        ("-m --cfg job", "--multirun and --cfg do not go together: give one of them"),
        ("--experimental-rerun /nope", "which no run leaves: give fgl-table rerun KEY."),
        ("-m hydra.sweeper.max_batch_size=0", "hydra.sweeper.max_batch_size=0 is below 1: give at least 1"),
        ("-m seed=range(0,0) runtime.progress=false", "seed=range(0,0) stands for no value"),
        ("-m seed=0,1 method=glob(z*)", "method=glob(z*) stands for no value, and the sweep would have no job"),
        ("--nope", "unrecognized arguments: --nope: see fgl-train --help"),
        ("runtime.threads=1000000", "would exhaust this machine: give at most"),
        ("paths.cache=", "paths.cache is empty: give it a folder"),
        ("hydra.job.chdir=true", "would keep every run where no other call looks for it: leave it out"),
        ("debug=fast -m seed=0,x", "seed=x: give a whole number."),
        ("-m seed=0,x", "seed=x: give a whole number."),
        ("-m method=local,fedpubb", "method=fedpubb does not exist"),
        ("method=[fedavg,fedprox]", "is a list: give one option, or a sweep over several, as in -m method=a,b"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(shell: Shell, words: str, said: str) -> None:
    assert said in shell.refused(*words.split())
    assert shell.left() == set()


@pytest.mark.parametrize("flags", [(), ("-m",)])
def test_a_yaml_of_ones_own_that_is_none_is_one_sentence(shell: Shell, tmp_path: Path, flags: tuple[str, ...]) -> None:
    path = tmp_path / "own" / "method" / "z.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("defaults: [_fedavg, _self_]\nvariant: [a\n")
    told = shell.refused(*flags, "--config-dir", str(tmp_path / "own"), "method=z")
    assert f"the method {path} cannot be read (while parsing a flow sequence" in told
    assert shell.left() == {"own/method/z.yaml"}


def test_a_protocol_that_calls_itself_otherwise_is_one_sentence(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "own" / "protocol" / "quick.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("defaults: [fedlog, _self_]\nrounds: 5\n")
    told = shell.refused("--config-dir", str(tmp_path / "own"), "protocol=quick")
    assert f"the protocol {path} does not say its name: write `name: quick` there." in told
    assert shell("--cfg", "job", "protocol.name=mine").returncode == 0


@pytest.mark.parametrize(
    ("words", "said", "status"),
    [
        ("partitioner.clients=99999", "lower partitioner.clients", "failed"),
        ("protocol.lr=1e30", "lower protocol.lr", "diverged"),
    ],
)
def test_a_run_that_cannot_be_is_one_sentence_and_a_note(
    shell: Shell, cora: None, words: str, said: str, status: str
) -> None:
    assert said in shell.refused(*TWO_ROUNDS, *words.split())
    (name,) = shell.left()
    note = json.loads((shell.folder / name).read_text())
    assert (name, note["status"]) == (f"records/{note['key'][:16]}.failed.json", status)
    assert said in note["error"]


def test_a_place_that_cannot_be_written_is_one_sentence(shell: Shell) -> None:
    for place in ("/proc/nowhere", "/dev/null", str(shell.folder / ("x" * 300))):
        shell.store.folder = Path(place)
        assert "name a place that can be read and written" in shell.refused(*TWO_ROUNDS, "method=local")


def test_a_deleted_working_directory_is_one_sentence(shell: Shell) -> None:
    gone = shell.folder / "gone"
    gone.mkdir()
    words = f"cd {gone}; rmdir {gone}; exec {sys.executable} -m fgl_repro.train method=local"
    done = subprocess.run(["sh", "-c", words], env=shell.environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_working_directory_that_hydra_would_read_is_one_sentence(shell: Shell) -> None:
    shell.folder /= "a ${now}"
    shell.folder.mkdir()
    assert "a ${now}, holds ${, which Hydra reads: go to another." in shell.refused("method=local")


def test_an_empty_variable_counts_as_unset(shell: Shell) -> None:
    done = shell("--cfg", "job", "--resolve", FGL_CACHE="", FGL_RECORDS="")
    assert "cache: cache\n" in done.stdout, done.stderr


def test_help_names_what_one_may_choose_and_nothing_private(shell: Shell) -> None:
    told = shell("--help", "method=fedpub").stdout
    assert re.search("^method: .*fedpub.*opfgl", told, re.MULTILINE)
    assert "l1: 0.001" in told
    for chosen in ("dataset: .*cora", "setting: .*seen_graph", "method: .*fedavg"):
        assert len(re.findall(rf"^{chosen} \(default\)", told, re.MULTILINE)) == 1
    assert "method.tau" not in told
    assert re.search(r"What the settings mean:\n\nmethod=fedpub:\n  variant: \w.*\n(.*\n)*  l1: \w", told)
    assert not re.search(r"[:,] _\w+|^table/", told, re.MULTILINE)


@pytest.mark.parametrize("words", ["--help", "method=local", "-m method=local seed=0,1"])
def test_a_reader_that_has_seen_enough(shell: Shell, words: str) -> None:
    for seed in (0, 1):
        shell.store.save(helpers.record(build({"protocol.rounds": 2}, method="local", seed=seed)))
    command = [sys.executable, "-m", "fgl_repro.train", *words.split(), *TWO_ROUNDS]
    reader, writer = os.pipe()
    os.close(reader)
    environment = shell.environment | {"FGL_RECORDS": str(shell.store.folder)}
    done = subprocess.run(
        command, cwd=shell.folder, env=environment, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, ""), "as yes | head"


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_output_is_no_bug(shell: Shell, closed: str) -> None:
    words = f"{sys.executable} -m fgl_repro.cli.table missing fedlog/1 --datasets cora --clients 3 --seeds 0 {closed}"
    done = subprocess.run(words, shell=True, env=shell.environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr.removeprefix("fgl-table: nothing is missing.\n")) == (0, "")


def test_no_gpu_is_one_sentence(shell: Shell) -> None:
    said = shell.refused(*TWO_ROUNDS, "runtime.device=cuda", CUDA_VISIBLE_DEVICES="")
    assert "use runtime.device=cpu or auto" in said


def test_no_data_is_one_sentence(shell: Shell) -> None:
    nowhere = {"FGL_DATA": "/nonexistent", "FGL_CACHE": str(shell.folder / "cache")}
    said = shell.refused(*TWO_ROUNDS, "dataset=cs", **nowhere)
    assert "FGL_DATA" in said


def test_a_truncated_record_is_set_aside_and_done_again(shell: Shell, cora: None) -> None:
    run = build({"protocol.rounds": 2}, method="local")
    path = shell.store.save(helpers.record(run))
    path.write_text(path.read_text()[:100])
    done = shell(*TWO_ROUNDS, "method=local")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"warning: the record {path} is damaged")
    assert done.stderr.count("\n") == 1
    assert len(path.with_suffix(".corrupt").read_text()) == 100
    assert shell.store.load(key_of(run)) is not None


def test_a_bad_job_does_not_stop_a_sweep(shell: Shell, cora: None) -> None:
    done = shell("-m", *TWO_ROUNDS, "method=local", "protocol.lr=1e30,0.01", "seed=0,1")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert [line.partition(" (")[0] for line in lines] == ["fgl-train: job 0", "fgl-train: job 1"]
    assert all("protocol.lr=1e+30 seed=" in line and "lower protocol.lr" in line for line in lines)
    assert len(shell.store.files()) == 2


def test_other_launchers_see_the_failure(shell: Shell, cora: None) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    parallel = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    done = shell("-m", *parallel, *TWO_ROUNDS, "method=local", "protocol.lr=1e30,0.01")
    assert done.returncode == 2
    assert "fgl-train: the training loss is nan" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_traceback_on_demand(shell: Shell) -> None:
    done = shell("partitioner.clients=0", HYDRA_FULL_ERROR="1")
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_a_run_that_somebody_computes_is_left_alone(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    run = build({"protocol.rounds": 2, "logger.mode": "disabled"}, method="local")
    claim = shell.store.claim(key_of(run))
    assert claim is not None
    with claim:
        assert "is being computed by another process" in shell.refused(*TWO_ROUNDS, "method=local")


def test_a_run_that_was_just_finished_elsewhere_is_taken(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    run = build(method="local")
    record = helpers.record(run)
    real = shell.store.claim

    def late(key: str) -> Any:
        shell.store.save(record)  # between our look and our claim
        return real(key)

    monkeypatch.setattr(shell.store, "claim", late)
    assert train.obtain(run, shell.store, execute="nowhere:nothing") == (record, False)


def test_whoever_edits_a_method_is_told_that_its_run_is_the_former_one(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = build({"paths.records": str(shell.store.folder)}, method="local")
    shell.store.save(helpers.record(run))
    train.job(run)
    assert capsys.readouterr().err == ""
    files = [f"{path.parent.name}/{path.name}" for path in provenance._files("fgl_repro.methods.opfgl.method")]
    assert {"opfgl/method.py", "opfgl/condensation.py"} <= {*files}, "of a package all files count"
    read, edited = Path.read_text, Path(local.__file__)
    monkeypatch.setattr(Path, "read_text", lambda path, **how: read(path, **how) + "edited = 1\n" * (path == edited))
    provenance._text.cache_clear()
    train.job(run)
    assert "the code of its options has changed since it was recorded" in capsys.readouterr().err
    provenance._text.cache_clear()


def test_tuning_runs_its_candidates_first(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = build({"paths.records": str(shell.store.folder)}, method="local", protocol="fedlog_tuned", seed=2)
    lived = []

    def attempt(config: Any, store: RecordStore, *, wandb_mode: str, **_: Any) -> str:
        lived.append((config.protocol.lr, config.seed, wandb_mode != "disabled"))
        store.save(helpers.record(config, best=0.9 if config.protocol.lr == 0.003 else 0.5))
        return "done"

    monkeypatch.setattr(obtain, "attempt", attempt)
    train.job(run)
    assert lived == [(lr, 0, False) for lr in (0.001, 0.003, 0.01, 0.03)] + [(0.003, 2, True)]
    assert "chosen by validation: protocol.lr=0.003" in capsys.readouterr().out


def test_a_run_is_printed_with_its_options(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = {"paths.records": str(shell.store.folder), "method.variant": "paper"}
    monkeypatch.setattr(train, "obtain", lambda config, *_: (helpers.record(config), True))
    run = build(overrides, method="fedpub", partitioner="metis", setting="unseen_node", protocol="fedpub")
    train.job(run)
    assert capsys.readouterr().out.startswith("fedpub-paper cora K=3 metis unseen_node fedpub seed=0: recorded in ")
    words = ("method=fedpub", "method.variant=paper", "+protocol.lr=0.1", "partitioner.clients=3", "runtime.threads=1")
    train.job(run, words=(*words, "debug=fast", "dataset=my_cora", "protocol=fedpub"))
    told = capsys.readouterr().out
    assert " metis unseen_node fedpub protocol.lr=0.1 debug=fast dataset=my_cora seed=0: recorded in " in told


def test_jobs_of_a_sweep_are_counted_from_its_overrides() -> None:
    assert multirun.jobs(["method=local,fedavg", "seed=0,1,2", "dataset=cora"]) == 6
    assert multirun.jobs(["seed=range(0,5)", "method=choice(local,fedavg)"]) == 10
    assert multirun.jobs(["method=local"]) == 1
    assert multirun.jobs(["seed=0,1", "seed=2,3,4"]) == 3, "the last counts, as for Hydra"
