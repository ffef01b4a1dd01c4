"""The schema of a record: every published run fits it, and what no run could have written is refused."""

from __future__ import annotations

import copy
import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgl_repro.config import digest
from fgl_repro.core.errors import UserError
from fgl_repro.runs.formats import FORMAT
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.record import Note, Record
from support import helpers

RESULTS = Path(__file__).parents[2] / "results"


def packed() -> Iterator[str]:
    """The ``record`` column of every published run."""
    csv.field_size_limit(2**31 - 1)
    for path in sorted(RESULTS.glob("*/runs.csv")):
        with open(path, encoding="utf-8", newline="") as file:
            yield from (row["record"] for row in csv.DictReader(file))


def test_every_published_run_is_read_and_written_back_to_the_byte() -> None:
    texts = list(packed())
    for text in texts:
        record = Record.from_json(json.loads(text))
        assert json.dumps(record.as_json(), sort_keys=True, separators=(",", ":")) == text
    assert len(texts) >= 2983


def test_a_new_record_carries_a_checksum_that_survives_the_file() -> None:
    record = helpers.record(helpers.config(), facts={"gamma": (1, 2), "by": {2: "b", 10: "a"}})
    content = json.loads(json.dumps(record.as_json()))
    assert content["format"] == FORMAT
    assert content["checksum"] == digest({k: v for k, v in content.items() if k != "checksum"})
    assert Record.from_json(content).as_json() == content


UP, BOTH = {"up": {"weights": 300}}, {"up": {"norm": 9, "weights": 300}, "down": {"weights": 300}}


@pytest.mark.parametrize(
    ("protocol", "sent", "down"),
    [
        ("protocol.judged=server", BOTH, {"weights": 303}),
        ("protocol.judged=own", BOTH, {"weights": 300}),
        ("protocol.judged=server protocol.fine_tuning=5", BOTH, {"weights": 300}),
        ("protocol.judged=server", UP | {"down": {"weights": 200}}, {"weights": 200}),
        ("protocol.judged=server", UP | {"down": {"masks": 300}}, {"masks": 300}),
        ("protocol.judged=server", UP, None),
    ],
    ids=["lacking", "own", "fine-tuned", "other sizes", "other fields", "nothing comes down"],
)
def test_an_older_record_gets_the_download_that_it_lacks(
    protocol: str, sent: dict[str, Any], down: dict[str, int] | None
) -> None:
    """One of the mean that was judged after the last of a hundred rounds; the seal of what was written is checked."""
    config = helpers.config(overrides=dict(each.split("=") for each in protocol.split()))
    old = helpers.record(config, format=2, bytes={"setup": {"down": {"features": 7}}, "rounds": sent})
    read = Record.from_json(old.as_json())
    mended = down is not None and down != sent.get("down")
    assert read.bytes == old.bytes | {"rounds": sent | ({"down": down} if down else {})}
    assert read.format == (FORMAT if mended else 2)
    assert Record.from_json(read.as_json()) == read, "once"
    new = old.changed(format=FORMAT)
    assert Record.from_json(new.as_json()) == new
    with pytest.raises(UserError, match="checksum"):
        Record.from_json(old.as_json() | {"bytes": {}})


Change = Callable[[dict[str, Any]], object]


def best(content: dict[str, Any]) -> dict[str, Any]:
    return content["metrics"]["unseen_node"]["best"]


DAMAGES: dict[str, tuple[Change, str]] = {
    "no metrics": (lambda c: c.update(metrics={}), "its probes are none, not "),
    "metrics null": (lambda c: c.update(metrics=None), "its metrics is NoneType where dict belongs"),
    "metrics gone": (lambda c: c.pop("metrics"), "it has no metrics"),
    "a probe less": (lambda c: c["metrics"].pop("unseen_node"), "its probes are "),
    "a probe more": (lambda c: c["metrics"].update(extra=c["metrics"]["seen_graph"]), "its probes are extra, "),
    "validation alone": (
        lambda c: c.update(metrics={"validation": c["metrics"]["validation"]}, partition={}),
        "its probes are ",
    ),
    "no best": (lambda c: c["metrics"]["unseen_node"].pop("best"), "not measured at the best and the last round"),
    "7.5": (lambda c: best(c).update(accuracy=7.5), "its unseen_node at the best round has accuracy 7.5, which is no "),
    "NaN": (lambda c: best(c).update(accuracy=float("nan")), "has accuracy nan, which is no fraction"),
    "a digit of the accuracy": (lambda c: best(c).update(accuracy=0.81), "which is neither its pooled one nor"),
    "a digit of the mean": (lambda c: best(c).update(pooled=0.81), "has pooled 0.81, but its clients give 0.8"),
    "text for a number": (lambda c: best(c).update(accuracy="0.8"), "its accuracy is str where float belongs"),
    "a list for a number": (lambda c: best(c).update(macro=[0.8]), "its macro is list where float belongs"),
    "true for a number": (lambda c: best(c).update(macro=True), "its macro is bool where float belongs"),
    "no counts": (lambda c: best(c).pop("counts"), "its best has no counts"),
    "fewer clients": (lambda c: best(c)["clients"].pop(), "counts that do not fit"),
    "a negative count": (lambda c: best(c).update(counts=[-1, 0]), "counts that do not fit"),
    "rows of nobody": (lambda c: best(c).update(counts=[10, 3]), "counts that do not fit"),
    "config of another": (lambda c: c["config"].update(seed=1), "its key is not the digest of its config"),
    "no config": (lambda c: c.update(config={}), "its config lacks an axis"),
    "no axis": (lambda c: c["config"].pop("model"), "its config lacks an axis"),
    "another cell": (lambda c: c.update(cell="0" * 64), "its cell is not the digest"),
    "failed": (lambda c: c.update(status="failed"), "its status is failed"),
    "seconds of text": (lambda c: c["seconds"].update(total="x"), "its total is str where float belongs"),
    "seconds infinite": (lambda c: c["seconds"].update(total=float("inf")), "its seconds are not all finite"),
    "no seconds": (lambda c: c.update(seconds={}), "its seconds lack train or total"),
    "bytes negative": (lambda c: c["bytes"]["rounds"]["up"].update(weights=-1), "its bytes are not all finite"),
    "test rows of text": (lambda c: c["partition"].update(test_rows=3), "its test_rows are no mapping"),
    "best round after the last": (lambda c: c["selection"].update(best_round=100), "its best round is 100 of 99"),
    "an unknown part": (lambda c: c.update(extra=1), "it has a part extra that no run of this version writes"),
    "format 9": (lambda c: c.update(format=9), "it has format 9, this version reads 1, 2, 3"),
    "format null": (lambda c: c.update(format=None), "it has format None"),
    "wandb null": (lambda c: c.update(wandb=None), "its wandb is NoneType where dict belongs"),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=list(DAMAGES))
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed anew", "format 1"])
def test_damage_is_named(damage: Change, said: str, sealed: bool) -> None:
    """Even damage with a good checksum, and damage in a record from before there were checksums."""
    content = copy.deepcopy(helpers.record(helpers.config()).as_json())
    del content["checksum"]
    if not sealed:
        content["format"] = 1
    damage(content)
    if sealed:
        content["checksum"] = digest(content)
    with pytest.raises(UserError) as caught:
        Record.from_json(content)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [None, [], "text", 3, {}])
def test_other_json_is_refused(content: object) -> None:
    with pytest.raises(UserError, match=r"it is no mapping|it has format None"):
        Record.from_json(content)


def test_an_altered_digit_breaks_the_checksum() -> None:
    content = helpers.record(helpers.config(), best=0.8).as_json()
    for accuracy in ("accuracy", "pooled", "clients_mean"):
        best(content)[accuracy] = 0.81
    best(content)["clients"][0] = 0.81
    with pytest.raises(UserError, match="checksum"):
        Record.from_json(content)
    content.pop("checksum")
    with pytest.raises(UserError, match="checksum"):
        Record.from_json(content)
    Record.from_json(content | {"format": 1})  # before there were checksums nobody can tell


def test_notes_of_older_versions_are_read() -> None:
    note = note_of(helpers.config())
    old = {"format": 1, "key": note.key, "cell": note.cell, "status": "oom", "config": {}, "error": "E", "written": ""}
    assert Note.from_json(old).status == "oom"
    with pytest.raises(UserError, match="its status is ok"):
        Note.from_json(old | {"status": "ok"})
    assert Note.from_json(replace(note, error="E").as_json()).error == "E"


def test_a_number_beyond_all_floats_is_compared() -> None:
    content = helpers.record(helpers.config()).as_json()
    content["bytes"]["rounds"]["up"]["weights"] = 10**400
    content["checksum"] = digest({name: value for name, value in content.items() if name != "checksum"})
    assert Record.from_json(content).bytes["rounds"]["up"]["weights"] == 10**400
