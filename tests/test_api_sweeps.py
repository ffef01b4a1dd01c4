"""Sweeps from Python where a protocol tunes, runs are forced, diverge or fail, and where others compute, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fgl_repro
from fgl_repro.config import build, key_of
from fgl_repro.core.errors import UserError
from fgl_repro.runs import obtain
from fgl_repro.runs.store import RecordStore
from support.sweeps import PLACE, lines


@pytest.mark.parametrize("jobs", [1, 2])
def test_candidates_run_first_where_the_protocol_tunes(made_up: None, jobs: int) -> None:
    [found] = fgl_repro.sweep("local", protocol="fedlog_tuned", seed=[2], jobs=jobs, **PLACE)
    assert found.record.config["seed"] == 2
    assert len(RecordStore("records").files()) == 5


def test_what_is_asked_for_in_two_ways_is_one_run_in_the_scores(made_up: None) -> None:
    found = fgl_repro.sweep(["local", "local:paper"], setting=["seen_graph", "unseen_node"], seed=[0, 1], **PLACE)
    assert len(found) == 8
    assert found.scores.groupby(["probe", "selection"])["accuracy"].count().unique().tolist() == [2]


def test_runs_of_different_graphs_are_warned_of(made_up: None) -> None:
    fgl_repro.sweep("local", seed=[0, 1], **PLACE)
    store = RecordStore(PLACE["records"])
    store.save(next(iter(store.all())).changed(data={"fingerprint": "another"}))
    told = r"made on different graphs, cora \(another, f\): raise the data set's revision"
    for call in (
        lambda: fgl_repro.sweep("local", seed=[0, 1], **PLACE),
        lambda: fgl_repro.table("fedlog/1", datasets=["cora"], clients=[3], methods=["local"], **PLACE),
    ):
        with pytest.warns(UserWarning, match=told):
            call()


@pytest.mark.parametrize("axes", [{"seed": []}, {"overrides": {"protocol.lr": []}}])
def test_a_sweep_over_nothing_is_refused(made_up: None, axes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"^(seed|protocol\.lr) is an empty list, and the sweep would have no run"):
        fgl_repro.sweep("local", **axes, **PLACE)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_candidate_that_diverges_has_lost(made_up: None, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    monkeypatch.setenv("FAKE_DIVERGES", "0.001")
    found = fgl_repro.sweep("local", protocol="fedlog_tuned", seed=[2], jobs=jobs, **PLACE)
    assert [run.record.config["protocol"]["lr"] for run in found] == [0.003]
    assert not found.failed
    monkeypatch.setenv("FAKE_LOG", "log")
    assert len(fgl_repro.sweep("local", protocol="fedlog_tuned", seed=[2], jobs=jobs, **PLACE)) == 1
    assert not Path("log").exists(), "that it diverges is known"
    forced = {**PLACE, "overrides": {"runtime.force": True}}
    assert len(fgl_repro.sweep("local", protocol="fedlog_tuned", seed=[0, 2], jobs=jobs, **forced)) == 2
    assert len(lines(Path("log"), "start")) == 5, "a forced run tries all candidates again, once, and seed 0 is one"


@pytest.mark.parametrize("jobs", [1, 2])
def test_forced_runs_that_diverge_are_told_though_older_records_stand(
    made_up: None, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    again = {"protocol": "fedlog_tuned", "seed": [0], "jobs": jobs, **PLACE, "overrides": {"runtime.force": True}}
    assert not fgl_repro.sweep("local", **again).failed
    monkeypatch.setenv("FAKE_DIVERGES", "0.001")
    assert len(fgl_repro.sweep("local", **again).failed) == 1


def test_a_candidate_that_leaves_no_note_is_told_for_each_run(made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordStore, "claim", full)
    found = fgl_repro.sweep("local", protocol="fedlog_tuned", seed=[1, 2], **PLACE)
    assert [name for name, _ in found.failed] == [f"local-paper cora K=3 closed_set seed={seed}" for seed in (1, 2)]


def test_a_forced_run_that_was_a_candidate_is_done_once(made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_LOG", "log")
    fgl_repro.run("local", protocol="fedlog_tuned", seed=0, **PLACE, overrides={"runtime.force": True})
    assert len(lines(Path("log"), "start")) == 4


def test_a_sweep_waits_for_what_another_process_computes(
    made_up: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = RecordStore(PLACE["records"])
    claim = store.claim(key_of(build(method="local")))
    assert claim is not None
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if seconds == obtain.POLL:  # and no run that is made up
            claim.release()

    monkeypatch.setattr(obtain.time, "sleep", sleep)
    found = fgl_repro.sweep(["local", "fedavg"], **PLACE)
    assert (len(found), found.failed, waited.count(obtain.POLL)) == (2, (), 1)
    assert capsys.readouterr().err.count("is being computed by another process") == 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_candidate_that_fails_beside_one_that_diverges_is_told(
    made_up: None, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    monkeypatch.setenv("FAKE_DIVERGES", "0.001")
    monkeypatch.setenv("FAKE_BREAKS", "0.01")
    found = fgl_repro.sweep("local", protocol="fedlog_tuned", seed=[2], jobs=jobs, **PLACE)
    assert not len(found)
    assert any("thirteen" in why for _, why in found.failed)
    assert not any("the training loss is nan" in why for _, why in found.failed), "it has lost, which is no failure"


def test_a_candidate_that_fails_is_told_though_an_older_record_stands_for_it(
    made_up: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = {"protocol": "fedlog_tuned", "seed": [2], "jobs": 2, **PLACE}
    assert not fgl_repro.sweep("local", **again).failed
    monkeypatch.setattr("fgl_repro.runs.sweep.run_all.__kwdefaults__", {"execute": "nowhere:nothing"})
    failed = fgl_repro.sweep("local", **again, overrides={"runtime.force": True}).failed
    assert len(failed) == 5, "four candidates and the run itself"
