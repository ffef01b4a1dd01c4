"""Records in a folder: whole or absent, never lost."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import pytest

from fgl_repro.config import digest
from fgl_repro.core.errors import UserError
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.record import OtherVersionError
from fgl_repro.runs.store import Archive, RecordStore, UnwritableError
from support import helpers
from support.helpers import dead_pid, some


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


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


def test_links_which_are_predicted_once_need_no_curve(store: RecordStore) -> None:
    record = some(1)[0]
    (probe, rows), *_ = record.partition["test_rows"].items()
    both = {"test_rows": {probe: rows, "links": rows}}
    metrics = {name: record.metrics[probe if name == "links" else name] for name in ("validation", probe, "links")}
    found = record.changed(metrics=metrics, partition=record.partition | both)
    store.save(found, {name: [0.5] for name in ("validation", probe)})
    assert store.is_done(found.key, "all")
    assert Archive(store, {}).is_done(found.key, "all")
    store.save(found, {"validation": [0.5]})
    assert not store.is_done(found.key, "all")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\xff\xfe",
        b"round,loss\n0,1\n1\n",
        b"round,loss\n0,much\n",
        b"loss\n1\n",
        b"round,loss\n1,2\n",
        b"round,loss,loss\n0,1,2\n",
    ],
    ids=["empty", "no header", "not UTF-8", "ragged", "text", "no rounds", "a round missing", "a name twice"],
)
def test_damaged_curves(store: RecordStore, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    record = some(1)[0]
    store.save(record, {name: [0.5] for name in record.metrics})
    assert store.is_done(record.key, "all")
    path = store.beside(record.key, "curves.csv")
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"the curves .* are damaged"):
        store.curves(record.key)
    assert [path.name in sentence for sentence in store.check()] == [True]
    assert not store.is_done(record.key, "all")
    assert store.recover(record.key) == record
    assert path.with_suffix(".corrupt").read_bytes() == content
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "the run's result stands without them, and runtime.force=true makes both again" in told
    assert store.curves(record.key) == {}


def test_a_folder_in_place_of_a_record_and_a_note_of_garbage(store: RecordStore) -> None:
    record = some(1)[0]
    store.path(record.key).mkdir(parents=True)
    store.beside(record.key, "failed.json").write_text("[" * 100_000)
    assert len(store.check()) == 2
    assert store.load_if_whole(record.key) is None
    assert store.load_failed(record.key) is None
    assert store.recover(record.key) is None
    store.save(record)
    assert store.load(record.key) == record


def test_check_wants_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no folder of records"):
        RecordStore(tmp_path / "nope").check()


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


@pytest.mark.parametrize("news", [{"format": 99}, {"later": 1}], ids=["format", "part"])
def test_a_record_of_another_version_stays_where_it_is(store: RecordStore, news: dict[str, int]) -> None:
    """Two checkouts may share a folder: the older one must not take the other's runs for damaged ones."""
    good, other = some(2)
    store.save(good)
    path = store.save(other)
    content = {name: value for name, value in (other.as_json() | news).items() if name != "checksum"}
    text = json.dumps(content | {"checksum": digest(content)})
    path.write_text(text)
    for read in (store.load, store.recover, Archive(store, {}, lenient=True).load):
        with pytest.raises(OtherVersionError, match=r"of another version .* give this one another folder"):
            read(other.key)
    assert path.read_text() == text
    assert list(store.all(strict=False)) == [good]
    assert len(store.check()) == 1
    path.write_text(text.replace('"status": "ok"', '"status": "no"'))
    assert store.recover(other.key) is None, "without a checksum that fits nobody can tell it from damage"


def test_leftovers_of_a_kill_are_ignored(store: RecordStore) -> None:
    record = some(1)[0]
    path = store.save(record)
    left, ours = store.folder / f".{path.name}.{dead_pid()}.tmp", store.folder / f".{path.name}.{os.getpid()}.tmp"
    for temporary in (left, ours):
        temporary.write_text('{"half')
        os.utime(temporary, (time.time() - 90,) * 2)
    (store.folder / f"{record.key[:16]}.claim").write_text("")
    assert list(store.all()) == [record]
    assert store.check() == []
    store.claim("b" * 64)
    assert (left.exists(), ours.exists()) == (False, True)


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


@pytest.mark.parametrize(("call", "number"), [("fsync", 1), ("fsync", 2), ("replace", 2)])
def test_curves_of_a_record_that_has_no_room_are_not_left(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """The second file that is written is the record, and the second that comes to its place."""
    old, new = some(2)
    store.save(old, {"loss": [1.0]})
    real = getattr(os, call)

    def full(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*arguments)

    monkeypatch.setattr(os, call, full)
    for record in (old, new):
        calls = list[object]()
        with pytest.raises(UnwritableError, match=f"No space left on device: .*{record.key[:16]}"):
            store.save(record.changed(device="other"), {"loss": [2.0]})
    assert store.load(old.key) == old
    assert {path.name.partition(".")[0] for path in store.folder.iterdir()} == {old.key[:16]}
    if call == "fsync":
        assert store.curves(old.key) == {"round": [0], "loss": [1.0]}


def test_curves_without_a_record_are_named_unless_it_is_on_its_way(store: RecordStore) -> None:
    kept, lost, running = some(3)
    for record in (kept, lost, running):
        store.save(record, {"loss": [1.0]})
    for record in (lost, running):
        store.path(record.key).unlink()
    with store.claim(running.key) as claim:
        assert claim is not None
        assert store.orphans() == [store.beside(lost.key, "curves.csv")]
    assert store.check() == []


def test_a_file_that_is_no_record_is_not_called_a_damaged_one(store: RecordStore) -> None:
    store.save(some(1)[0])
    (store.folder / "notes.json").write_text("{}")
    assert store.check() == []
    assert store.foreign() == [store.folder / "notes.json"]
    assert len(store.files()) == len(list(store.all())) == 1
