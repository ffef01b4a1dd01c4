"""Packed runs: nothing is lost, and what is cut or altered is refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgl_repro.core import files
from fgl_repro.core.errors import UserError
from fgl_repro.runs import curves, packed
from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.packed import Packed, PackedDiverged, pack, pack_diverged, unpack
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.store import Archive, RecordStore
from support import helpers
from support.helpers import some


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


def test_pack_and_unpack_lose_nothing(store: RecordStore, tmp_path: Path) -> None:
    records = some(3)
    records[0] = records[0].changed(facts={"note": 'comma, "quote", line\nbreak, é', "2": 1, "10": [1, 2]})
    records[1].metrics["missing_class"]["best"] = helpers.measured(None)
    records[2] = records[2].changed(selection=replace(records[2].selection, validation_best=0.1 + 0.2))
    path = tmp_path / "runs.csv"
    assert pack(records, path) == 3
    assert dict(Packed(path)) == {r.key: r for r in records}
    assert unpack(path, store.folder) == 3
    assert sorted(store.all(), key=lambda r: r.key) == sorted(records, key=lambda r: r.key)
    assert unpack(path, store.folder) == 0


def test_what_one_has_pushed_to_wandb_is_not_what_others_have(tmp_path: Path) -> None:
    mirror = {"attempt": 1, "id": "a-1", "url": None}
    record = some(1)[0].changed(wandb=mirror | {"purposes": ["fedlog/1 fedlog offline team/mine"]})
    pack([record], path := tmp_path / "runs.csv")
    assert Packed(path)[record.key].wandb == mirror


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
        "key,method,variant,dataset,clients,partitioner,world,protocol,lr,weight_decay,seed,best_round,seen_graph_best,"
    )
    assert [line.split(",")[10] for line in lines[1:]] == ["0", "1", "2", "3"]
    variant = records[0].config["method"]["variant"]
    assert lines[1].split(",")[1:7] == ["fedavg", variant, "cora", "3", "published", "closed_set"]
    newer = records[0].changed(device="cuda:0")
    pack([newer], one)
    assert Packed(one)[newer.key].device == "cuda:0"
    assert len(Packed(one)) == 4


def sealed(path: Path, text: str) -> None:
    """A packed file as somebody would leave it who also mends the seal."""
    packed.write_sealed(path, text)


def altered(text: str, **parts: object) -> str:
    """The packed text with other parts in its last record."""
    *rows, last = csv.DictReader(io.StringIO(text, newline=""))
    last["record"] = json.dumps(json.loads(last["record"]) | parts)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(last), lineterminator="\n")
    writer.writeheader()
    writer.writerows([*rows, last])
    return out.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-40],
        lambda text: "\n".join(text.splitlines()[:-1]) + "\n",
        lambda text: text.replace("0.8", "0.9", 1),
    ],
    ids=["empty", "cut in a row", "a row less", "a digit"],
)
@pytest.mark.parametrize("seal", ["old", "none"])
def test_a_cut_or_altered_packed_file_is_refused_and_kept(tmp_path: Path, damage: Any, seal: str) -> None:
    path = tmp_path / "paper" / "runs.csv"
    pack(some(3), path)
    text = damage(path.read_text())
    path.write_text(text)
    if seal == "none":
        path.with_name("runs.csv.sha256").unlink()
    for act in (lambda: pack(some(1), path), lambda: unpack(path, tmp_path / "records")):
        with pytest.raises(UserError, match="version control"):
            act()
    assert path.read_text() == text
    assert not (tmp_path / "records").exists()
    assert len(packed.check(tmp_path)) == 1


def test_a_lost_packed_file_is_told_by_its_seal_and_no_other_is_begun(tmp_path: Path) -> None:
    paths = [tmp_path / "paper" / name for name in ("runs.csv", "curves.csv")]
    pack(some(3), paths[0])
    curves.pack({"f" * 64: {"round": [0.0], "loss": [1.0]}}, paths[1])
    for path in paths:
        path.unlink()
    seals = {seal: seal.read_text() for seal in tmp_path.glob("paper/*")}
    for act in (lambda: pack(some(1), paths[0]), lambda: RunFolders(tmp_path / "records", tmp_path).archive("paper")):
        with pytest.raises(UserError, match=r"runs\.csv is missing, and runs\.csv\.sha256 beside it says that it was"):
            act()
    with pytest.raises(UserError, match=r"curves\.csv is missing"):
        curves.pack({"e" * 64: {"round": [0.0], "loss": [1.0]}}, paths[1])
    assert len(packed.check(tmp_path)) == 2
    assert seals == {seal: seal.read_text() for seal in tmp_path.glob("paper/*")}


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_packed_file_is_whole_whenever_we_are_killed(
    tmp_path: Path, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.csv"
    pack(some(2), path)
    real, left = files.write_atomic, iter(range(written))

    def killed(place: Path, content: str | bytes) -> None:
        next(left)
        real(place, content)

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_atomic", killed)
        with pytest.raises(StopIteration):
            pack(some(3), path)
    assert len(packed.Packed(path)) == (3 if written == 2 else 2)
    assert pack(some(3), path) == 3
    assert path.with_name("runs.csv.sha256").read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: altered(text, format=7), "it has format 7"),
        (lambda text: altered(text, status="failed", format=1, checksum=None), "has a part checksum|status is failed"),
        (lambda text: altered(text, metrics={}), "checksum"),
        (lambda text: text + text.splitlines()[-1] + "\n", "occurs twice"),
        (lambda text: "a,b\n1,2\n", "no columns key and record"),
    ],
)
def test_a_sealed_file_of_damaged_runs_is_refused(tmp_path: Path, damage: Any, said: str) -> None:
    path = tmp_path / "paper" / "runs.csv"
    pack(some(2), path)
    sealed(path, damage(path.read_text()))
    with pytest.raises(UserError, match=said) as caught:
        pack([], path)
    assert "\n" not in str(caught.value)
    assert len(packed.check(tmp_path)) == 1


def test_a_row_under_anothers_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    records = some(2)
    pack(records, path)
    one, two = (record.key for record in records)
    lines = path.read_text().splitlines(keepends=True)
    swapped = {one: two, two: one}
    sealed(path, "".join([lines[0], *(swapped[line[:64]] + line[64:] for line in lines[1:])]))
    with pytest.raises(UserError, match="belongs to key"):
        packed.Packed(path)[one]


def test_archive_prefers_what_was_run_here(store: RecordStore) -> None:
    first, second = some(2)
    store.save(first.changed(device="here"))
    archive = Archive(store, {first.key: first, second.key: second})
    assert archive.load(first.key).device == "here"
    assert archive.load(second.key) == second
    assert archive.load("0" * 64) is None


def test_readable_columns_are_those_of_the_record(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    pack([helpers.record(helpers.config(), best=0.8123456789, last=0.7)], path)
    with open(path, encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["seen_graph_best"], row["seen_graph_last"]) == ("0.812346", "0.7")
    assert list(Packed(path).took()) == [(dict(r.config), r.seconds["total"]) for r in Packed(path).values()]


DAMAGED_ROWS = {
    "null": (lambda record: None, "it is no mapping"),
    "a list": (lambda record: [record], "it is no mapping"),
    "a word": (lambda record: "x" * 9, "it is no mapping"),
    "no device": (lambda record: {k: v for k, v in record.items() if k != "device"}, "its checksum"),
    "no data set": (lambda record: record | {"config": record["config"] | {"dataset": {}}}, "its checksum"),
    "no protocol": (lambda record: record | {"config": record["config"] | {"protocol": None}}, "its checksum"),
    "no seconds": (lambda record: record | {"seconds": {"train": 1.0}}, "its checksum"),
    "seconds in words": (lambda record: record | {"seconds": {"total": "many"}}, "its checksum"),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGED_ROWS.values(), ids=list(DAMAGED_ROWS))
def test_what_took_how_long_is_not_asked_of_a_damaged_run(tmp_path: Path, damage: Any, said: str) -> None:
    path = tmp_path / "runs.csv"
    pack(records := some(1), path)
    row = json.loads(next(csv.DictReader(io.StringIO(path.read_text(), newline="")))["record"])
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([("key", "record"), (records[0].key, json.dumps(damage(row)))])
    sealed(path, out.getvalue())
    with pytest.raises(UserError, match=f"are damaged .run {records[0].key[:8]}: {said}.*from version control"):
        list(Packed(path).took())


@pytest.mark.parametrize("cut", ["", "{half", ",", None], ids=["empty", "cut", "a comma", "no record"])
def test_what_took_how_long_is_not_asked_of_what_is_no_json(tmp_path: Path, cut: str | None) -> None:
    path = tmp_path / "runs.csv"
    sealed(path, "key,record\n" + "f" * 64 + ("" if cut is None else f',"{cut}"') + "\n")
    with pytest.raises(UserError, match="run ffffffff: it is no JSON"):
        list(Packed(path).took())


def test_runs_that_diverged_are_packed_apart_until_they_finish(tmp_path: Path) -> None:
    path = tmp_path / "paper" / "diverged.csv"
    notes = [note_of(helpers.config(seed=seed)).changed(status="diverged", error="why") for seed in range(3)]
    keys = [note.key for note in notes]
    assert pack_diverged([], path, ()) == 0
    assert not path.exists(), "no file for nothing"
    assert pack_diverged(notes[:1], path, ()) == 1
    assert pack_diverged(notes[1:], path, [keys[2]]) == 2
    assert dict(PackedDiverged(path)) == dict(zip(keys[:2], notes[:2], strict=True))
    assert pack_diverged([], path, [keys[0]]) == 1
    assert [*PackedDiverged(path)] == [keys[1]]
    assert pack_diverged([], path, keys) == 0
    assert path.exists(), "else git would still have the old one"
    assert len(PackedDiverged(path)) == 0


def test_every_kind_of_packed_file_is_checked(tmp_path: Path) -> None:
    folder = tmp_path / "paper"
    pack(some(1), folder / "runs.csv")
    pack_diverged([note_of(helpers.config()).changed(status="diverged", error="why")], folder / "diverged.csv", ())
    curves.pack({"f" * 64: {"round": [0.0], "loss": [1.0]}}, folder / "curves.csv")
    assert packed.check(tmp_path) == []
    for number, name in enumerate(("curves", "diverged", "runs"), 1):
        path = folder / f"{name}.csv"
        path.write_text(path.read_text() + "\n")
        assert len(packed.check(tmp_path)) == number


def test_what_was_run_here_is_not_unpacked_over(store: RecordStore, tmp_path: Path) -> None:
    records = some(2)
    pack(records, tmp_path / "runs.csv")
    store.save(records[0].changed(device="here"))
    assert unpack(tmp_path / "runs.csv", store.folder) == 1
    assert {record.key: record.device for record in store.all()} == {records[0].key: "here", records[1].key: "cpu"}


def test_an_archive_knows_where_its_answers_come_from(store: RecordStore) -> None:
    here, both, there = some(3)
    for record in (here, both):
        store.save(record)
    archive = Archive(store, {record.key: record for record in (both, there)})
    found = {key: archive.is_local(key) for key in (here.key, both.key, there.key, "0" * 64)}
    assert found == {here.key: True, both.key: True, there.key: False, "0" * 64: False}


def test_a_published_run_is_enough_unless_its_curves_are_wanted(store: RecordStore) -> None:
    (record,) = some(1)
    every = {name: [0.5] for name in record.metrics}
    bare, full = (
        Archive(store, {record.key: record}, found) for found in ({}, {record.key: {"round": [0.0], **every}})
    )
    assert bare.is_done(record.key)
    assert not bare.is_done(record.key, "all")
    assert full.is_done(record.key, "all")
    assert not full.is_done("0" * 64)
    store.save(record, {"loss": [1.0]})
    assert full.curves(record.key).keys() == {"round", *every}, "those with more columns"
