"""One attempt: done once, recorded only if it can be read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fgl_repro.config import Config, key_of, override
from fgl_repro.core.errors import DivergenceError, out_of_memory
from fgl_repro.runs.attempt import attempt
from fgl_repro.runs.store import RecordStore
from support import fake_run, helpers

FAKE = "support.fake_run:execute"


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path)


@pytest.fixture
def run() -> Config:
    return helpers.config(seed=3)


def test_a_recorded_run_is_not_done_again_unless_forced(store: RecordStore, run: Config) -> None:
    assert attempt(run, store, execute=FAKE) == "done"
    before = store.path(key_of(run)).read_text()
    assert attempt(run, store, execute="support.fake_run:drifting") == "recorded"
    assert store.path(key_of(run)).read_text() == before
    forced = override(run, {"runtime.force": True})
    assert attempt(forced, store, execute="support.fake_run:drifting") == "done"
    assert store.path(key_of(run)).read_text() != before


def test_what_ran_anew_has_been_logged_for_no_table(store: RecordStore, run: Config) -> None:
    assert attempt(run, store, execute=FAKE) == "done"
    record = store.load(key_of(run))
    assert record is not None
    store.save(record.changed(wandb={"attempt": 2, "id": "a-2", "url": None, "purposes": ["fedlog/1"]}))
    assert attempt(override(run, {"runtime.force": True}), store, wandb_mode="disabled", execute=FAKE) == "done"
    anew = store.load(key_of(run))
    assert anew is not None
    assert anew.wandb == {"attempt": 2, "id": "a-2", "url": None}, "no id is taken twice"


def test_a_claimed_run_is_left_to_its_holder(store: RecordStore, run: Config) -> None:
    with store.claim(key_of(run)) as claim:
        assert claim is not None
        assert attempt(run, store, execute=FAKE) == "busy"
    assert attempt(run, store, execute=FAKE) == "done"


def test_what_diverged_is_noted_in_a_sentence(store: RecordStore, run: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_DIVERGES", str(run.protocol.lr))
    with pytest.raises(DivergenceError):
        attempt(run, store, execute=FAKE)
    note = store.load_failed(key_of(run))
    assert note is not None
    assert (note.status, note.error) == ("diverged", "the training loss is nan in round 0: lower protocol.lr.")


@pytest.mark.parametrize("what", ["accuracy", "phases"])
def test_what_no_reader_takes_is_not_recorded(
    what: str, store: RecordStore, run: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(config: Config, **_: object) -> fake_run.Outcome:
        record = helpers.record(config)
        if what == "accuracy":
            record.metrics["seen_graph"]["best"] = replace(record.metrics["seen_graph"]["best"], accuracy=7.0)
        else:
            record = record.changed(phases={"fine_tuning": {"loss": [float("nan")]}})
        return fake_run.Outcome(record, {})

    monkeypatch.setattr(fake_run, "execute", execute)
    with pytest.raises(RuntimeError, match="no reader takes"):
        attempt(run, store, execute=FAKE)
    assert store.load(key_of(run)) is None
    note = store.load_failed(key_of(run))
    assert note is not None
    assert note.status == "failed"
    assert json.loads(json.dumps(note.as_json()))["key"] == key_of(run)


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: insufficient resources: CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_libraries_of_a_gpu_say_in_their_own_words_that_memory_ran_out(error: Exception, memory: bool) -> None:
    assert out_of_memory(error) is memory
