"""Records: one JSON file a run, found by the key of its configuration; and the packed CSV that is committed.

A record is the only thing tables know. The file ``<key[:16]>.json`` is written under a temporary name and renamed, so
that a reader sees a whole record or none; ``<key[:16]>.failed.json`` says why a run did not finish and is never taken
for a result; ``<key[:16]>.curves.csv`` holds one line a round.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fgl_repro.core.errors import UserError
from fgl_repro.runs import claims
from fgl_repro.runs.record import SELECTIONS, Note, Record

PREFIX = 16  # hex digits of the key in a file name
PROBES = ("seen_graph", "unseen_node", "missing_class", "new_client", "validation")

Kind = TypeVar("Kind", bound=Note)
Curves = Mapping[str, Sequence[float | int | None]]


class Source(Protocol):
    """Anything that answers for a key: a folder of records, or a folder over a packed file."""

    def load(self, key: str) -> Record | None: ...

    def load_failed(self, key: str) -> Note | None: ...

    def curves(self, key: str) -> dict[str, list[float | None]]: ...


def write_atomic(path: Path, text: str) -> None:
    """Write ``text`` so that ``path`` holds either what it held before or all of it, whenever we are killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _read(path: Path, kind: type[Kind]) -> Kind:
    """The note or record in ``path``.

    Raises:
        UserError: The file is damaged, or its content could not have been written by a run.
    """
    try:
        found = kind.from_json(json.loads(path.read_text(encoding="utf-8")))
        if not path.name.startswith(found.key[:PREFIX] + "."):
            raise UserError(f"it belongs to key {found.key}, not to its file name")
    except (OSError, ValueError, RecursionError, UserError) as error:
        why = error if isinstance(error, UserError) else "it cannot be read as JSON"
        raise UserError(
            f"the record {path} is damaged ({why}): move it away (or let 'fgl-table run' set it aside) and run again."
        ) from None
    return found


class RecordStore:
    """A folder of records. It is created by the first write, so that reading leaves no trace."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def path(self, key: str) -> Path:
        """Where the record of ``key`` is or would be."""
        return self.folder / f"{key[:PREFIX]}.json"

    def _beside(self, key: str, suffix: str) -> Path:
        return self.folder / f"{key[:PREFIX]}.{suffix}"

    def load(self, key: str) -> Record | None:
        """The finished run of ``key``, or None.

        Raises:
            UserError: The file is damaged, or belongs to another key with the same sixteen digits.
        """
        path = self.path(key)
        if not path.exists():
            return None
        record = _read(path, Record)
        if record.key != key:
            raise UserError(f"the record {path} belongs to another run, key {record.key}: move it away.")
        return record

    def recover(self, key: str) -> Record | None:
        """Like ``load``, but a damaged file is renamed to ``.corrupt`` with a warning, so that the run is repeated."""
        try:
            return self.load(key)
        except UserError as error:
            path = self.path(key)
            aside = self._beside(key, "corrupt")
            number = 1
            while aside.exists():
                number += 1
                aside = self._beside(key, f"{number}.corrupt")
            with suppress(FileNotFoundError):
                os.replace(path, aside)
            print(f"warning: {error} It is now {aside.name} and the run is repeated.", file=sys.stderr)
            return None

    def load_failed(self, key: str) -> Note | None:
        """Why the last attempt at ``key`` did not finish, or None; a damaged note is as good as none."""
        path = self._beside(key, "failed.json")
        try:
            return _read(path, Note) if path.exists() else None
        except UserError:
            return None

    def save(self, record: Record, curves: Curves | None = None) -> Path:
        """Write a finished run; the record is renamed into place last, so its presence means all is there."""
        if curves:
            write_atomic(self._beside(record.key, "curves.csv"), _curves_text(curves))
        path = self.path(record.key)
        write_atomic(path, json.dumps(record.as_json(), indent=1) + "\n")
        self._beside(record.key, "failed.json").unlink(missing_ok=True)
        return path

    def save_failed(self, note: Note) -> Path:
        """Note a run that failed (``failed``) or ran out of memory (``oom``), with its traceback."""
        path = self._beside(note.key, "failed.json")
        write_atomic(path, json.dumps(note.as_json(), indent=1) + "\n")
        return path

    def curves(self, key: str) -> dict[str, list[float | None]]:
        """Columns of the curves file; empty when there is none (packed records have no curves)."""
        path = self._beside(key, "curves.csv")
        if not path.exists():
            return {}
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        columns = zip(*rows[1:], strict=True) if len(rows) > 1 else ([] for _ in rows[0])
        return {name: [float(x) if x else None for x in values] for name, values in zip(rows[0], columns, strict=True)}

    def enough(self, record: Record | None, curves: str = "validation") -> bool:
        """Whether a run has been done: recorded, and with every probe in every round if ``curves`` is ``all``."""
        return record is not None and (curves != "all" or set(record.metrics) <= set(self.curves(record.key)))

    def files(self) -> list[Path]:
        """Record files in order of name; temporary, failed and set-aside files are not among them."""
        if not self.folder.is_dir():
            return []
        return sorted(p for p in self.folder.glob("*.json") if p.name.count(".") == 1)

    def all(self, *, strict: bool = True) -> Iterator[Record]:
        """Every finished run. Damaged files raise UserError, or are passed over when not ``strict``."""
        for path in self.files():
            try:
                yield _read(path, Record)
            except UserError:
                if strict:
                    raise

    def check(self) -> list[str]:
        """One sentence for every damaged record; nothing is touched."""
        sentences = []
        for path in self.files():
            try:
                _read(path, Record)
            except UserError as error:
                sentences.append(str(error))
        return sentences

    def find(self, prefix: str) -> Record:
        """The one finished run whose key starts with ``prefix``.

        Raises:
            UserError: None, or more than one.
        """
        named = [p for p in self.files() if p.stem.startswith(prefix[:PREFIX])]
        found = [r for r in (_read(path, Record) for path in named) if r.key.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        what = "no record" if not found else f"{len(found)} records"
        raise UserError(f"{what} in {self.folder} with a key that starts with {prefix!r}: see the names of its files.")

    def claim(self, key: str) -> claims.Claim | None:
        """The right to compute ``key`` (a context manager), or None while another living process holds it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return claims.take(self._beside(key, "claim"))

    def is_claimed(self, key: str) -> bool:
        """Whether a living process computes ``key``."""
        path = self._beside(key, "claim")
        return path.exists() and not claims.is_stale(path)

    def forget_claim(self, key: str, pid: int) -> None:
        """Remove the claim of our own dead worker ``pid``."""
        claims.Claim(self._beside(key, "claim"), pid).release()


def _curves_text(curves: Curves) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if "round" not in curves:
        rounds = range(max(map(len, curves.values()), default=0))
        curves = {"round": list(rounds), **curves}
    writer.writerow(curves)
    writer.writerows(["" if x is None else x for x in row] for row in zip(*curves.values(), strict=True))
    return out.getvalue()


class Archive:
    """A store over a packed file: what was run here wins, what was only published still answers.

    Args:
        store: Records of this checkout.
        packed: Records read from a committed CSV, by key.
        curves: Committed curves, by key.
        lenient: Set damaged files aside instead of refusing.
    """

    def __init__(
        self,
        store: RecordStore,
        packed: Mapping[str, Record],
        curves: Mapping[str, dict[str, list[float | None]]] | None = None,
        *,
        lenient: bool = False,
    ) -> None:
        self._store = store
        self._packed = packed
        self._curves = curves or {}
        self._read = store.recover if lenient else store.load
        self._seen: dict[str, Record | None] = {}

    def load(self, key: str) -> Record | None:
        """The finished run of ``key``, read once; records that appear later belong to a new archive."""
        if key not in self._seen:
            self._seen[key] = self._read(key) or self._packed.get(key)
        return self._seen[key]

    def load_failed(self, key: str) -> Note | None:
        return self._store.load_failed(key)

    def curves(self, key: str) -> dict[str, list[float | None]]:
        """The run's curves, those with more columns where both have some."""
        return max(self._store.curves(key), self._curves.get(key, {}), key=len)


# --- the packed CSV: one row a run, readable columns first, the whole record last ------------------------------------


def _row(record: Record, probes: Sequence[str]) -> dict[str, Any]:
    config = record.config
    protocol, method = config["protocol"], config["method"]
    row: dict[str, Any] = {
        "key": record.key,
        "method": method["name"],
        "variant": method.get("variant", ""),
        "dataset": config["dataset"]["name"],
        "clients": config["partitioner"]["clients"],
        "world": config["setting"]["world"],
        "lr": protocol.get("lr"),
        "weight_decay": protocol.get("weight_decay"),
        "seed": config["seed"],
        "best_round": record.selection.best_round,
    }
    for probe in probes:
        for selection in SELECTIONS:
            value = getattr(record.at(probe, selection), "accuracy", None)
            row[f"{probe}_{selection}"] = None if value is None else round(value, 6)
    row["record"] = json.dumps(record.as_json(), sort_keys=True, separators=(",", ":"))
    return row


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("dataset", "clients", "world", "method", "variant", "seed", "key")
    return tuple(row[n] for n in names)


def read_packed(path: Path) -> dict[str, Record]:
    """Records of a packed CSV by key; none when the file does not exist.

    Raises:
        UserError: The file is damaged.
    """
    if not path.exists():
        return {}
    csv.field_size_limit(2**31 - 1)
    found: dict[str, Record] = {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                record = Record.from_json(json.loads(row["record"]))
                if record.key != row["key"]:
                    raise ValueError(row["key"])
                found[record.key] = record
    except (ValueError, KeyError, TypeError, csv.Error, UserError) as error:
        why = f" ({error})" if isinstance(error, UserError) else ""
        raise UserError(f"the packed records {path} are damaged{why}: restore the file from version control.") from None
    return found


def pack(records: Iterable[Record], path: Path) -> int:
    """Merge finished runs into a packed CSV, new ones replacing old ones of the same key; returns the rows it holds.

    The same records give the same bytes. Curves are not kept.
    """
    held = read_packed(path)
    held |= {record.key: record for record in records}
    used = {probe for record in held.values() for probe in record.metrics}
    probes = [p for p in PROBES if p in used] + sorted(used - set(PROBES))
    rows = sorted((_row(record, probes) for record in held.values()), key=_order)
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_atomic(path, out.getvalue())
    return len(rows)


def unpack(path: Path, folder: Path | str) -> int:
    """Write the packed runs that ``folder`` does not hold yet as record files; returns how many."""
    if not path.exists():
        raise UserError(f"{path} does not exist: nothing to unpack.")
    store = RecordStore(folder)
    new = [record for key, record in read_packed(path).items() if store.load(key) is None]
    for record in new:
        store.save(record)
    return len(new)
