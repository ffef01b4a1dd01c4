"""Curves of many runs in one CSV that is committed: a line a run and round. Records are packed in ``packed.py``."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping
from pathlib import Path

from fgl_repro.core.errors import UserError
from fgl_repro.core.files import read_sealed, write_sealed
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RecordStore

Columns = dict[str, list[float | None]]
"""Per-round values by name, ``round`` among them, as ``RecordStore.curves`` gives them."""


def read_packed(path: Path) -> dict[str, Columns]:
    """Read the curves of a packed file by key; none when it does not exist.

    Raises:
        UserError: The file is damaged.
    """
    found: dict[str, Columns] = {}
    try:
        for row in csv.DictReader(io.StringIO(read_sealed(path), newline="")):
            columns = found.setdefault(row.pop("key"), {name: [] for name in row})
            for name, value in row.items():
                columns[name].append(float(value) if value else None)
    except (ValueError, KeyError, TypeError, csv.Error):
        raise UserError(f"the packed curves {path} are damaged: restore the file from version control.") from None
    return {key: {n: v for n, v in columns.items() if any(x is not None for x in v)} for key, columns in found.items()}


def pack(curves: Mapping[str, Columns], path: Path, dropped: Collection[str] = ()) -> int:
    """Merge curves, by key, into a packed file, new ones replacing old ones; returns the runs it holds.

    Packed curves that have more columns than the new ones stay, but those of the keys ``dropped``, which are of other
    runs. The same curves give the same bytes. No file is made for no curves.
    """
    held = {key: columns for key, columns in read_packed(path).items() if key not in dropped}
    held |= {key: columns for key, columns in curves.items() if len(columns) >= max(1, len(held.get(key, {})))}
    if not held and not path.exists():
        return 0
    names = list(dict.fromkeys(name for key in sorted(held) for name in held[key] if name != "round"))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["key", "round", *names])
    for key in sorted(held):
        columns = held[key]
        length = len(columns["round"])
        values = [columns.get(name, [None] * length) for name in names]
        for number, *line in zip(columns["round"], *values, strict=True):
            writer.writerow([key, int(number or 0), *("" if x is None else repr(x) for x in line)])
    write_sealed(path, out.getvalue())
    return len(held)


def unpack(path: Path, store: RecordStore, runs: Mapping[str, Record]) -> int:
    """Give the records of ``store`` that are the packed ``runs`` the curves they lack; returns how many got some."""
    count = 0
    for key, columns in read_packed(path).items():
        record = store.load(key)
        same = record is not None and key in runs and record.written == runs[key].written
        if record is not None and same and len(columns) > len(store.curves(key)):
            store.save(record, columns | {"round": [int(number or 0) for number in columns["round"]]})
            count += 1
    return count
