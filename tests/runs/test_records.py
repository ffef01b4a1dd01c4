"""Records: whole or absent, never lost, packed without loss."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fgl_repro.core.errors import UserError
from fgl_repro.runs import claims
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import Archive, RecordStore, pack, read_packed, unpack
from support import helpers


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


def some(count: int = 3) -> list[Record]:
    return [helpers.record(helpers.config(seed=seed), best=0.8 + seed / 1000) for seed in range(count)]


def test_save_and_load(store: RecordStore) -> None:
    record = some(1)[0]
    store.save(record, {"round": [0, 1], "loss": [1.5, 0.25], "validation": [0.1, None]})
    assert store.load(record.key) == record
    assert store.path(record.key).name == record.key[:16] + ".json"
    assert store.curves(record.key) == {"round": [0, 1], "loss": [1.5, 0.25], "validation": [0.1, None]}
    assert list(store.all()) == [record]
    assert not list(store.folder.glob("*.tmp"))


def test_curves_get_their_round(store: RecordStore) -> None:
    record = some(1)[0]
    store.save(record, {"loss": [1.5, 0.25]})
    assert store.curves(record.key) == {"round": [0, 1], "loss": [1.5, 0.25]}


def test_nothing_there(store: RecordStore) -> None:
    assert store.load("0" * 64) is None
    assert list(store.all()) == []
    assert store.curves("0" * 64) == {}
    assert not store.folder.exists()


def test_failed_is_not_finished(store: RecordStore) -> None:
    record = some(1)[0]
    store.save_failed(note_of(helpers.config()).changed(status="oom", error="Traceback ..."))
    assert store.load(record.key) is None
    assert list(store.all()) == []
    note = store.load_failed(record.key)
    assert note is not None
    assert (note.status, note.error, note.config) == ("oom", "Traceback ...", record.config)
    store.save(record)
    assert store.load_failed(record.key) is None


def test_a_record_that_says_failed_is_not_finished(store: RecordStore) -> None:
    record = some(1)[0].changed(status="failed")
    store.save(record)
    with pytest.raises(UserError, match="its status is failed"):
        store.load(record.key)
    assert store.recover(record.key) is None


@pytest.mark.parametrize("keep", [0, 1, 200, -3])
def test_truncated_record(store: RecordStore, keep: int, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = some(2)
    store.save(good)
    path = store.save(bad)
    text = path.read_text()[:keep]
    path.write_text(text)
    for read in (lambda: store.load(bad.key), lambda: list(store.all())):
        with pytest.raises(UserError, match=path.name) as caught:
            read()
        assert str(caught.value).count("\n") == 0
    assert path.read_text() == text, "a strict reader must not touch it"
    assert len(store.check()) == 1
    assert list(store.all(strict=False)) == [good]
    assert store.recover(bad.key) is None
    assert not path.exists()
    assert path.with_name(bad.key[:16] + ".corrupt").read_text() == text, "nothing is lost"
    warning = capsys.readouterr().err
    assert warning.startswith("warning: ")
    assert warning.count("\n") == 1
    assert store.check() == []


def test_a_second_damaged_file_does_not_replace_the_first(store: RecordStore) -> None:
    record = some(1)[0]
    for text in ("first", "second"):
        store.save(record).write_text(text)
        store.recover(record.key)
    assert sorted(p.read_text() for p in store.folder.glob("*.corrupt")) == ["first", "second"]


def test_wrong_file_name_and_format(store: RecordStore) -> None:
    first, second = some(2)
    store.save(first).rename(store.path(second.key))
    with pytest.raises(UserError, match="file name"):
        store.load(second.key)
    store.save(first.changed(format=99))
    with pytest.raises(UserError, match="format 99"):
        store.load(first.key)


def test_leftovers_of_a_kill_are_ignored(store: RecordStore) -> None:
    record = some(1)[0]
    path = store.save(record)
    (store.folder / f".{path.name}.4711.tmp").write_text('{"half')
    (store.folder / f"{record.key[:16]}.claim").write_text("")
    assert list(store.all()) == [record]
    assert store.check() == []


def test_failing_write_keeps_the_old_record(store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    record = some(1)[0]
    store.save(record)

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        store.save(record.changed(device="other"))
    assert store.load(record.key) == record
    assert not list(store.folder.glob("*.tmp"))


def test_find(store: RecordStore) -> None:
    records = some(2)
    for record in records:
        store.save(record)
    assert store.find(records[0].key[:12]) == records[0]
    assert store.find(records[0].key) == records[0]
    for prefix, what in (("zz", "no record"), ("", "2 records")):
        with pytest.raises(UserError, match=what):
            store.find(prefix)


# --- claims -----------------------------------------------------------------------------------------------------------


def test_claim_is_exclusive_and_released(store: RecordStore) -> None:
    with store.claim("a" * 64) as claim:
        assert claim is not None
        assert store.is_claimed("a" * 64)
        assert store.claim("a" * 64) is None
        assert store.claim("b" * 64) is not None
    assert not store.is_claimed("a" * 64)
    assert store.claim("a" * 64) is not None


def write_claim(path: Path, **said: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "birth": None} | said))


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("said", "age", "stale"),
    [
        ({}, 0, False),
        ({}, 7 * 3600, False),  # alive on this host: age does not matter
        ({"pid": -1}, 0, True),
        ({"birth": "1"}, 0, True),  # the pid lives again, as another process
        ({"host": "elsewhere"}, 0, False),
        ({"host": "elsewhere"}, 7 * 3600, True),
    ],
)
def test_stale_claims(tmp_path: Path, said: dict, age: float, stale: bool) -> None:
    path = tmp_path / "x.claim"
    write_claim(path, **({"pid": dead_pid()} if said.get("pid") == -1 else said))
    os.utime(path, (time.time() - age,) * 2)
    assert claims.is_stale(path) is stale
    assert (claims.take(path) is not None) is stale
    if stale:
        assert claims.holder(path) == os.getpid()


def test_half_written_claim(tmp_path: Path) -> None:
    path = tmp_path / "x.claim"
    path.write_text("")
    assert claims.take(path) is None
    os.utime(path, (time.time() - 90,) * 2)
    assert claims.take(path) is not None


def test_release_leaves_a_claim_that_was_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "x.claim"
    claim = claims.take(path)
    assert claim is not None
    write_claim(path, host="elsewhere")
    claim.release()
    assert path.exists()


# --- the packed file --------------------------------------------------------------------------------------------------


def test_pack_and_unpack_lose_nothing(store: RecordStore, tmp_path: Path) -> None:
    records = some(3)
    records[0] = records[0].changed(facts={"note": 'comma, "quote", line\nbreak, é', "2": 1, "10": [1, 2]})
    records[1].metrics["missing_class"]["best"] = helpers.measured(None)
    records[2] = records[2].changed(selection=replace(records[2].selection, validation_best=0.1 + 0.2))
    path = tmp_path / "runs.csv"
    assert pack(records, path) == 3
    assert read_packed(path) == {r.key: r for r in records}
    assert unpack(path, store.folder) == 3
    assert sorted(store.all(), key=lambda r: r.key) == sorted(records, key=lambda r: r.key)
    assert unpack(path, store.folder) == 0


def test_pack_is_deterministic_sorted_and_merges(tmp_path: Path) -> None:
    records = some(4)
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    pack(records, one)
    pack(records[2:], two)
    pack([records[1], records[0], records[3]], two)
    assert one.read_bytes() == two.read_bytes()
    assert b"\r" not in one.read_bytes()
    lines = one.read_text().splitlines()
    assert lines[0].startswith(
        "key,method,variant,dataset,clients,world,lr,weight_decay,seed,best_round,seen_graph_best,"
    )
    assert [line.split(",")[8] for line in lines[1:]] == ["0", "1", "2", "3"]
    variant = records[0].config["method"]["variant"]
    assert lines[1].split(",")[1:6] == ["fedavg", variant, "cora", "3", "closed_set"]
    newer = records[0].changed(device="cuda:0")
    pack([newer], one)
    assert read_packed(one)[newer.key].device == "cuda:0"
    assert len(read_packed(one)) == 4


def test_damaged_packed_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    pack(some(3), path)
    text = path.read_text()[:-40]
    path.write_text(text)
    with pytest.raises(UserError, match="version control"):
        pack(some(1), path)
    assert path.read_text() == text


def test_archive_prefers_what_was_run_here(store: RecordStore) -> None:
    first, second = some(2)
    store.save(first.changed(device="here"))
    archive = Archive(store, {first.key: first, second.key: second})
    assert archive.load(first.key).device == "here"
    assert archive.load(second.key) == second
    assert archive.load("0" * 64) is None
