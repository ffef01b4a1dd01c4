"""Curves of every probe: a run without them is done again where they are needed, and they can be committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgl_repro.config import key_of
from fgl_repro.runs import curves
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.runs.sweep import jobs_of, run_all
from support import helpers
from support.sweeps import Here

FAKE = "support.fake_run:execute"
FULL = {"overrides": {"runtime.curves": "all"}}


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


def test_a_run_is_done_again_only_for_its_curves(store: RecordStore) -> None:
    plain, full = helpers.config(), helpers.config(**FULL)
    key = key_of(plain)
    assert key == key_of(full)
    assert run_all([plain], 1, store, Here(), execute=FAKE).done == 1
    record = store.load(key)
    assert record is not None
    store.save(record.changed(wandb={"attempt": 2, "id": "x", "url": None}), store.curves(key))
    assert store.is_done(key)
    assert not store.is_done(key, "all")
    assert not store.is_done("0" * 64)
    assert run_all([full], 1, store, Here(), execute=FAKE).done == 1
    assert set(helpers.PROBES) <= set(store.curves(key))
    again = store.load(key)
    assert again is not None
    assert again.wandb["attempt"] == 2, "the next push must not take the same id"
    assert run_all([full, plain], 1, store, Here(), execute=FAKE).skipped == 1


def test_of_two_configs_of_one_run_the_one_with_curves_is_done() -> None:
    plain, full = helpers.config(), helpers.config(**FULL)
    for order in ([plain, full], [full, plain]):
        (job,) = jobs_of(order)
        assert job.config.runtime.curves == "all"


def test_pack_and_unpack(store: RecordStore, tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    assert curves.pack({}, path) == 0
    assert not path.exists()
    configs = [helpers.config(seed=seed, **FULL) for seed in range(2)]
    run_all(configs, 1, store, Here(), execute=FAKE)
    keys = [key_of(config) for config in configs]
    assert curves.pack({key: store.curves(key) for key in keys}, path) == 2
    text = path.read_bytes()
    extra = {"round": [0.0, 1.0], "loss": [1.0, None], "gamma": [0.1, 1 / 3]}
    assert curves.pack({"f" * 64: extra}, path) == 3
    packed = curves.read_packed(path)
    assert packed["f" * 64] == extra
    assert packed[keys[0]] == store.curves(keys[0])
    assert Archive(RecordStore(tmp_path / "none"), {}, packed).curves(keys[1]) == store.curves(keys[1])
    assert curves.pack({keys[0]: {"round": [0.0], "loss": [9.0]}, keys[1]: {}}, path) == 3
    assert curves.read_packed(path) == packed, "fewer curves of a run do not replace more"
    newer = extra | {"loss": [2.0, 0.5]}
    assert curves.pack({"f" * 64: newer}, path) == 3
    assert curves.read_packed(path)["f" * 64] == newer, "as many replace those that there were"
    other = RecordStore(tmp_path / "other")
    for key in keys:
        record = store.load(key)
        assert record is not None
        other.save(record)
    runs = {record.key: record for record in store.all()}
    assert curves.unpack(path, other, runs) == 2
    assert other.beside(keys[0], "curves.csv").read_text() == store.beside(keys[0], "curves.csv").read_text()
    assert curves.unpack(path, other, runs) == 0
    again = runs[keys[0]].changed(written="2026-01-01T00:00:00+00:00")
    other.save(again, {"round": [0], "validation": [0.25]})
    assert curves.unpack(path, other, runs) == 0, "a run that was done again here has curves of its own"
    here = Archive(other, runs, curves.read_packed(path))
    assert here.curves(keys[0]) == {"round": [0.0], "validation": [0.25]}
    assert here.curves(keys[1]) == store.curves(keys[1])
    assert not here.is_done(keys[0], "all")
    assert curves.pack({keys[0]: here.curves(keys[0])}, path, dropped=[keys[0]]) == 3
    assert curves.read_packed(path)[keys[0]] == here.curves(keys[0])
    for file in tmp_path.glob("curves.csv*"):  # its seal, too
        file.unlink()
    curves.pack({key: store.curves(key) for key in reversed(keys)}, path)
    assert path.read_bytes() == text
