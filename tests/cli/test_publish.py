"""``fgl-table publish``: what is packed, what stays, and which pages are written."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest

from fgl_repro.cli import publish, request
from fgl_repro.methods.fedavg import FedAvg
from fgl_repro.runs import curves, packed
from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.packed import Packed, pack
from fgl_repro.tables.kinds import common
from fgl_repro.tables.load import load
from support.commands import call
from support.helpers import some
from support.worlds import random_graph


def killed_after(monkeypatch: pytest.MonkeyPatch, writes: int, *writers: tuple[object, str]) -> None:
    """Stop the process when so many writes are done and the next one is about to begin."""
    wrote: list[object] = []

    def counted(real: Callable[..., object], *given: object) -> object:
        if len(wrote) == writes:
            raise KeyboardInterrupt
        wrote.append(real)
        return real(*given)

    for module, name in writers:
        monkeypatch.setattr(module, name, partial(counted, getattr(module, name)))


def test_a_published_run_is_replaced_by_other_numbers_only_where_that_is_asked_for(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corner = ("--datasets", "cora", "--clients", "3", "--methods", "fedavg")
    assert call(tmp_path, "run", "table6", *corner) == 0
    assert call(tmp_path, "publish", "table6", "--only-records") == 0
    folders = RunFolders(tmp_path / "records", tmp_path / "results")
    first, second, _ = folders.store.all()
    other = replace(first.metrics["seen_graph"]["best"], macro=0.125)
    changed = first.changed(metrics=first.metrics | {"seen_graph": first.metrics["seen_graph"] | {"best": other}})
    changed = changed.changed(written="2026-01-01T00:00:00+00:00")
    folders.store.save(changed, {name: [0.5] for name in first.metrics})
    folders.store.save(later := second.changed(written="2026-01-01T00:00:00+00:00"))  # the same numbers again
    capsys.readouterr()
    assert call(tmp_path, "publish", "table6", "--only-records") == 0
    assert f"1 runs that are published ran again here with other numbers ({first.key[:8]})" in capsys.readouterr().err
    runs, rounds, _ = folders.published("fedlog")
    assert (runs[first.key], runs[second.key]) == (first, later)
    assert len(rounds[first.key]) > 2
    for writes in (1, 2):
        with monkeypatch.context() as killed:
            killed_after(killed, writes, (curves, "pack"), (packed, "pack"))
            assert call(tmp_path, "publish", "table6", "--only-records", "--replace") == 130
        runs, rounds, _ = folders.published("fedlog")
        assert runs[first.key] == (first if writes == 1 else changed)
        assert first.key not in rounds, "those of another run"
    capsys.readouterr()
    assert call(tmp_path, "publish", "table6", "--only-records", "--replace") == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "curves.csv holds the curves of 3 runs." in told.out
    runs, rounds, _ = folders.published("fedlog")
    assert runs[first.key] == changed
    assert rounds[first.key] == {"round": [0.0]} | {name: [0.5] for name in first.metrics}


def test_published_runs_of_an_older_revision_are_named_and_taken_out_where_that_is_asked_for(
    tmp_path: Path, fake: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for method in ("fedavg", "fedlog"):
        corner = ("--datasets", "cora", "--clients", "3", "--methods", method)
        assert call(tmp_path, "run", "table6", *corner) == 0
    assert call(tmp_path, "publish", "table6", "--only-records") == 0
    assert capsys.readouterr().err.count("revision") == 0
    folders = RunFolders(tmp_path / "records", tmp_path / "results")
    runs, rounds, _ = folders.published("fedlog")
    old = {key for key, run in runs.items() if run.config["method"]["name"] == "fedavg"}
    monkeypatch.setattr(FedAvg, "revision", 7)
    assert call(tmp_path, "publish", "table6", "--only-records") == 0
    assert f"{len(old)} published runs (" in (err := capsys.readouterr().err)
    assert "stay; --replace takes them out" in err
    runs, rounds, _ = folders.published("fedlog")
    assert old <= {*runs} & {*rounds}
    assert call(tmp_path, "publish", "table6", "--only-records", "--replace") == 0
    assert "are taken out" in capsys.readouterr().err
    runs, rounds, _ = folders.published("fedlog")
    assert runs
    assert rounds
    assert not old & {*runs, *rounds}
    assert call(tmp_path, "publish", "table6", "--only-records", "--replace") == 0
    assert capsys.readouterr().err == ""


def test_published_pages_rest_on_packed_runs_alone(tmp_path: Path, fake: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, method in (("table5", "fedavg"), ("table7", "fedlog")):
        corner = ("--datasets", "cora", "--clients", "3", "--methods", method, "--seeds", "0")
        assert call(tmp_path, "run", name, *corner) == 0
    both = [load("table5"), load("table7")]
    monkeypatch.setattr(request, "specs", lambda table: {"fedlog": both if table == "fedlog" else both[1:]})
    assert call(tmp_path, "publish", "table7") == 0  # so that Table 5's run is recorded and not packed
    pages = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.*")}
    assert any(path.name == "table_7.csv" for path in pages)
    for path in (tmp_path / "records").iterdir():  # a fresh clone
        path.unlink()
    assert call(tmp_path, "publish", "table7") == 0
    assert {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.*")} == pages


def test_published_sizes_are_not_blanked_where_graphs_are_missing(
    tmp_path: Path, fake: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(request, "specs", lambda table: {"fedlog": [load("table10"), load("table7")]})
    corner = ("table7", "--datasets", "cora", "--clients", "3", "--methods", "fedlog", "--seeds", "0")
    assert call(tmp_path, "run", *corner) == 0
    monkeypatch.setattr(common, "graph_of", lambda *of: random_graph(30, 2, 3, seed=0))
    assert call(tmp_path, "publish", "fedlog") == 0
    pages = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.*")}
    sizes = next(path for path in pages if path.name == "table_10.csv")
    monkeypatch.setattr(common, "graph_of", lambda *of: None)
    capsys.readouterr()
    assert call(tmp_path, "publish", "fedlog") == 2
    err = capsys.readouterr().err
    assert f"numbers of {sizes} would be blank now" in err
    assert "FGL_DATA" in err
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in pages} == pages
    sizes.unlink()  # as the message says
    assert call(tmp_path, "publish", "fedlog") == 0


def test_what_published_candidates_choose_is_packed(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str]
) -> None:
    table = ("fedlog/1", "--protocol", "fedlog_tuned")
    corner = (*table, "--datasets", "cora", "--clients", "3", "--methods", "local", "--seeds")
    counts, errors = [], []
    for seed in ("1", "2"):
        assert call(tmp_path, "run", *corner, seed) == 0
        errors.append(capsys.readouterr().err)
        assert call(tmp_path, "publish", "fedlog/1", "--only-records") == 0
        counts.append(int(capsys.readouterr().out.split(" runs.")[0].split()[-1]))
        for path in (tmp_path / "records").iterdir():  # a fresh clone: candidates are published and nowhere else
            path.unlink()
    assert counts[1] == counts[0] + 1
    assert "taken from" not in errors[0]
    assert "4 candidates are taken from the published" in errors[1]
    assert errors[1].count("taken from") == 1


def test_a_candidate_that_diverges_has_lost_and_is_published(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DIVERGES", "0.001")
    table = ("fedlog/1", "--protocol", "fedlog_tuned")
    corner = (*table, "--datasets", "cora", "--clients", "3", "--methods", "local", "--seeds", "1")
    assert call(tmp_path, "run", *corner) == 0
    out, err = capsys.readouterr()
    assert "1 runs done" in out
    assert "failed: local" in err
    assert "lower protocol.lr" in err
    assert call(tmp_path, "publish", "fedlog/1", "--only-records") == 0
    assert "diverged.csv holds 1 runs that diverged." in capsys.readouterr().out
    for path in (tmp_path / "records").iterdir():  # a fresh clone
        path.unlink()
    assert call(tmp_path, "missing", *corner) == 0
    assert capsys.readouterr().out == ""
    assert call(tmp_path, "run", *corner) == 0
    out, err = capsys.readouterr()
    assert "0 runs done" in out
    assert "failed" not in err
    assert call(tmp_path, "check") == 0
    path = tmp_path / "results" / "fedlog" / "diverged.csv"
    path.write_text(path.read_text().replace("diverged", "finished"))
    assert call(tmp_path, "check") == 2


HOLDING = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_of_two_that_publish_at_once_the_second_waits_and_loses_no_run_of_the_first(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done, early = Event(), []
    real = publish._pack
    monkeypatch.setattr(publish, "_pack", lambda *of: early.append(not done.is_set()) or real(*of))
    corner = ("--datasets", "cora", "--clients", "3", "--methods", "fedavg", "--seeds", "2")
    assert call(tmp_path, "run", "table6", *corner) == 0
    (mine,) = RunFolders(tmp_path / "records", tmp_path / "results").store.all()
    folder = tmp_path / "results" / "fedlog"
    folder.mkdir()
    command = [sys.executable, "-c", HOLDING, str(folder / publish.LOCK)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        second = Thread(target=call, args=(tmp_path, "publish", "table6", "--only-records"))
        second.start()
        said, end = "", time.monotonic() + 60
        while not said and second.is_alive() and time.monotonic() < end:
            time.sleep(0.01)
            said = capsys.readouterr().err
        theirs = some(2)
        pack(theirs, folder / "runs.csv")
        done.set()
        first.kill()  # a process that dies gives its lock back
        second.join(60)
    assert said == f"fgl-table: waiting for another process, which publishes into {folder}.\n"
    assert early == [False]
    assert {*Packed(folder / "runs.csv")} == {mine.key, *(record.key for record in theirs)}
    assert len(Packed(folder / "runs.csv")) == 3
