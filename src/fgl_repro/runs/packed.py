"""Published runs: one CSV a paper, a line a run, readable columns first and the whole record last.

Beside each packed CSV (``runs.csv``, and the ``curves.csv`` of :mod:`fgl_repro.runs.curves`) stands its seal, a line as
``sha256sum`` writes it. It is a file of its own so that the CSV stays one that any program reads and that no committed
line changes. A cut or altered file is refused, and never merged into. Runs that diverged have a file of their own,
``diverged.csv``: where settings are tried out, they have lost.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from fgl_repro.core.errors import UserError, sentence
from fgl_repro.core.files import read_sealed, write_sealed
from fgl_repro.runs import curves
from fgl_repro.runs.progress import Costs
from fgl_repro.runs.record import SELECTIONS, Note, Record
from fgl_repro.runs.store import RecordStore

_ORDER = itemgetter("dataset", "clients", "world", "method", "variant", "seed", "key")
Kind = TypeVar("Kind", bound=Note)
PROBES = ("seen_graph", "unseen_node", "missing_class", "new_client", "validation")


class _Sealed(Mapping[str, Kind]):
    """What a packed file says of runs, by key, each validated when it is first asked for.

    Raises:
        UserError: The file, or the run, is damaged.
    """

    def __init__(self, path: Path, kind: type[Kind]) -> None:
        self._path, self._kind = path, kind
        self._found: dict[str, Kind] = {}
        csv.field_size_limit(2**31 - 1)
        try:
            rows = list(csv.DictReader(io.StringIO(read_sealed(path), newline="")))
            self._texts = {row["key"]: row["record"] for row in rows}
        except (KeyError, csv.Error):
            raise self._damaged("it has no columns key and record") from None
        if len(self._texts) < len(rows):
            raise self._damaged("a key occurs twice")

    def _damaged(self, why: str) -> UserError:
        return UserError(f"the packed records {self._path} are damaged ({why}): restore the file from version control.")

    def __getitem__(self, key: str) -> Kind:
        if key not in self._found:
            text = self._texts[key]
            try:
                record = self._kind.from_json(json.loads(text))
            except (UserError, ValueError, TypeError, RecursionError) as error:
                why = error if isinstance(error, UserError) else "it is no JSON"
                raise self._damaged(f"run {key[:8]}: {why}") from None
            if record.key != key:
                raise self._damaged(f"run {key[:8]}: it belongs to key {record.key[:8]}")
            self._found[key] = record
        return self._found[key]

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


class Packed(_Sealed[Record]):
    """Published runs."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, Record)

    def took(self) -> Iterator[tuple[dict[str, Any], float]]:
        """Yield science and seconds of every run on a CPU; a run is not validated for this while it has them.

        Raises:
            UserError: A run lacks them, or what costs need to know of it.
        """
        for key, text in self._texts.items():
            try:
                record = json.loads(text)
                took = record["config"], float(record["seconds"]["total"])
                Costs([took])
                on_cpu = record["device"] == "cpu"
            except (LookupError, ValueError, TypeError, AttributeError, RecursionError):
                _ = self[key]  # which says what is wrong with it
                raise self._damaged(f"run {key[:8]}: its config lacks what every run has") from None
            if on_cpu:
                yield took


class PackedDiverged(_Sealed[Note]):
    """Notes of published runs that diverged."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, Note)


def check(results: Path) -> list[str]:
    """Write a sentence for every packed file in a folder of ``results`` that is damaged, or holds a run that is."""
    sentences = []
    seals = (path.with_suffix("") for path in results.glob("*/*.csv.sha256"))
    for path in sorted({*results.glob("*/*.csv"), *seals}):
        try:
            if path.name == "runs.csv":
                all(Packed(path).values())
            elif path.name == "diverged.csv":
                all(PackedDiverged(path).values())
            elif path.name == "curves.csv":
                curves.read_packed(path)
        except (UserError, OSError) as error:
            sentences.append(sentence(error))
    return sentences


def _which(note: Note) -> dict[str, Any]:
    """Return what says which run it was."""
    config = note.config
    protocol, method = config["protocol"], config["method"]
    return {
        "key": note.key,
        "method": method["name"],
        "variant": method.get("variant", ""),
        "dataset": config["dataset"]["name"],
        "clients": config["partitioner"]["clients"],
        "partitioner": config["partitioner"]["name"],
        "world": config["setting"]["world"],
        "protocol": note.protocol,
        "lr": protocol.get("lr"),
        "weight_decay": protocol.get("weight_decay"),
        "seed": config["seed"],
    }


def _row(record: Record, probes: Sequence[str]) -> dict[str, Any]:
    row = _which(record) | {"best_round": record.selection.best_round}
    for probe in probes:
        for selection in SELECTIONS:
            value = getattr(record.at(probe, selection), "accuracy", None)
            row[f"{probe}_{selection}"] = None if value is None else round(value, 6)
    return row | _whole(record)


def _whole(note: Note) -> dict[str, str]:
    bare = note.without_purposes()  # whoever unpacks it has pushed it nowhere
    return {"record": json.dumps(bare.as_json(), sort_keys=True, separators=(",", ":"))}


def pack(records: Iterable[Record], path: Path, dropped: Collection[str] = ()) -> int:
    """Merge finished runs into a packed CSV, new ones replacing old ones of the same key; returns the rows it holds.

    The same records give the same bytes. Curves are not kept, nor are packed runs of the keys ``dropped``.

    Raises:
        UserError: The file is damaged; it is left as it is.
    """
    held = {key: record for key, record in Packed(path).items() if key not in dropped}
    held |= {record.key: record for record in records}
    used = {probe for record in held.values() for probe in record.metrics}
    probes = [p for p in PROBES if p in used] + sorted(used - set(PROBES))
    return _write([_row(record, probes) for record in held.values()], path)


def differing(records: Iterable[Record], held: Mapping[str, Record]) -> list[Record]:
    """Find the runs that ``held`` has with other numbers, or another selected round, under the same key."""
    known = ((record, held[record.key]) for record in records if record.key in held)
    return [new for new, old in known if (new.metrics, new.selection) != (old.metrics, old.selection)]


def pack_diverged(notes: Iterable[Note], path: Path, runs: Collection[str]) -> int:
    """Merge notes of runs that diverged into a packed CSV, without those of keys in ``runs``; no file without any."""
    held = dict(PackedDiverged(path)) | {note.key: note for note in notes}
    rows = [_which(note) | _whole(note) for note in held.values() if note.key not in runs]
    return _write(rows, path) if rows or path.exists() else 0


def _write(rows: Iterable[dict[str, Any]], path: Path) -> int:
    rows = sorted(rows, key=_ORDER)
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_sealed(path, out.getvalue())
    return len(rows)


def unpack(path: Path, folder: Path | str) -> int:
    """Write the packed runs that ``folder`` does not hold yet as record files; returns how many."""
    if not path.exists():
        raise UserError(f"{path} does not exist: nothing to unpack.")
    store = RecordStore(folder)
    new = [record for key, record in Packed(path).items() if store.load(key) is None]
    for record in new:
        store.save(record)
    return len(new)
