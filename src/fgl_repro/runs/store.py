"""Records in a folder: one JSON file a run, found by the key of its configuration.

A record is the only thing tables know. The file ``<key[:16]>.json`` is written under a temporary name and renamed, so
that a reader sees a whole record or none; ``<key[:16]>.failed.json`` says why a run did not finish and is never taken
for a result; ``<key[:16]>.curves.csv`` holds one line a round. What is read is validated: readers refuse a damaged
file, runs set it aside (``.corrupt``); where it was the record, they are done again.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from fgl_repro.config import Config, key_of
from fgl_repro.core.errors import UserError, sentence
from fgl_repro.core.files import remove_leftovers, set_aside, write_atomic, write_together
from fgl_repro.runs import claims
from fgl_repro.runs.progress import Costs
from fgl_repro.runs.record import Note, OtherVersionError, Record, on_cpus

PREFIX = 16  # hex digits of the key in a file name
RECORD = re.compile(rf"[0-9a-f]{{{PREFIX}}}")
"""What a record's file is called, without its ending."""
MEND = "move it away (or let 'fgl-table run' set it aside) and run again"
REMAKE = "the run's result stands without them, and runtime.force=true makes both again"

Kind = TypeVar("Kind", bound=Note)
CurveValues = Mapping[str, Sequence[float | int | None]]

UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
"""What the system says where nothing more can be written."""


class UnwritableError(OSError):
    """No run can be recorded any more: the disk is full, or it is read-only."""


@contextmanager
def _recording() -> Iterator[None]:
    """Tell what keeps every run from being recorded from what the system refuses of one file."""
    try:
        yield
    except OSError as error:
        if error.errno in UNWRITABLE:
            raise UnwritableError(error.errno, error.strerror, error.filename) from error
        raise


def _read(path: Path, kind: type[Kind]) -> Kind:
    """Read the note or record in ``path``.

    Raises:
        OtherVersionError: The file is whole, but another version wrote it.
        UserError: The file is damaged, or its content could not have been written by a run.
        OSError: The file is there and cannot be read; that says nothing of its content.
    """
    try:
        found = kind.from_json(json.loads(path.read_text(encoding="utf-8")))
        if not path.name.startswith(found.key[:PREFIX] + "."):
            raise UserError(f"it belongs to key {found.key}, not to its file name")
    except OtherVersionError as error:
        raise OtherVersionError(
            f"the record {path} is of another version ({error}): read it by that one, or give this one another folder."
        ) from None
    except (IsADirectoryError, ValueError, RecursionError, UserError) as error:
        why = error if isinstance(error, UserError) else "it cannot be read as JSON"
        raise UserError(f"the record {path} is damaged ({why}): {MEND}.") from None
    return found


def read_curves(path: Path) -> dict[str, list[float | None]]:
    """Read the columns of a curves file, ``round`` among them; a gap is None. UserError if the file is damaged."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            names, *rows = csv.reader(file)
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        found = {n: [float(x) if x else None for x in values] for n, values in zip(names, columns, strict=True)}
        if found["round"] != list(range(len(rows))) or len(found) < len(names):
            raise ValueError("round")
    except (IsADirectoryError, ValueError, KeyError, csv.Error):
        raise UserError(f"the curves {path} are damaged: {REMAKE}.") from None
    return found


class RecordStore:
    """A folder of records. It is created by the first write, so that reading leaves no trace."""

    def __init__(self, folder: Path | str) -> None:
        if not str(folder):
            raise UserError("the folder of the records is empty: give it a name, as in paths.records=results/records.")
        self.folder = Path(folder)
        self._tidied = False

    def path(self, key: str) -> Path:
        """Tell where the record of ``key`` is or would be."""
        return self.beside(key, "json")

    def beside(self, key: str, suffix: str) -> Path:
        """Tell where what lies beside the record of ``key`` is or would be, as ``curves.csv`` or ``claim``."""
        return self.folder / f"{key[:PREFIX]}.{suffix}"

    def load(self, key: str) -> Record | None:
        """Load the finished run of ``key``, or None; UserError if the file is damaged."""
        path = self.path(key)
        return _read(path, Record) if path.exists() else None

    def load_if_whole(self, key: str) -> Record | None:
        """Do as ``load``, but take a record that is damaged or out of reach for none."""
        with suppress(UserError, OSError):
            return self.load(key)
        return None

    def recover(self, key: str) -> Record | None:
        """Do as ``load``, but rename what is damaged to ``.corrupt`` with a warning.

        A run whose record was damaged is repeated; one whose curves were is not.
        """
        found = None
        try:
            found = self.load(key)
        except OtherVersionError:
            raise
        except UserError as error:
            why = str(error).removesuffix(f": {MEND}.")
            _set_aside(self.path(key), why, "the run counts as not done")
        try:
            self.curves(key)
        except UserError as error:
            _set_aside(self.beside(key, "curves.csv"), str(error).removesuffix(f": {REMAKE}."), REMAKE)
        return found

    def load_failed(self, key: str) -> Note | None:
        """Load why the last attempt at ``key`` did not finish, or None; a damaged note is as good as none."""
        with suppress(UserError, FileNotFoundError):
            return _read(self.beside(key, "failed.json"), Note)
        return None

    def save(self, record: Record, curves: CurveValues | None = None) -> Path:
        """Write a finished run, the record last: its presence means that all is there.

        Where the run had been done before, a kill between the two files leaves new curves beside the old record.

        Raises:
            UnwritableError: The disk is full or read-only; it holds what it held before.
        """
        path = self.path(record.key)
        kept = {self.beside(record.key, "curves.csv"): _curves_text(curves)} if curves else {}
        with _recording():
            write_together({**kept, path: json.dumps(record.as_json(), indent=1) + "\n"})
            self.beside(record.key, "failed.json").unlink(missing_ok=True)
        return path

    def save_failed(self, note: Note) -> Path:
        """Note a run that failed, ran out of memory or diverged (its status), and why; returns the note's file."""
        path = self.beside(note.key, "failed.json")
        write_atomic(path, json.dumps(note.as_json(), indent=1) + "\n")
        return path

    def curves(self, key: str) -> dict[str, list[float | None]]:
        """Read the columns of the curves file; empty when there is none, UserError if it is damaged."""
        path = self.beside(key, "curves.csv")
        return read_curves(path) if path.exists() else {}

    def is_done(self, key: str, curves: str = "validation") -> bool:
        """Tell whether a run is done: recorded, and with its probes in every round if ``curves`` is ``all``."""
        record = self.load_if_whole(key)
        if record is None or curves != "all":
            return record is not None
        try:
            return record.probes_of_rounds <= set(self.curves(key))
        except UserError:
            return False

    def files(self) -> list[Path]:
        """List record files in order of name; temporary, failed, set-aside and foreign files are not among them."""
        return [path for path in self._plain_json() if RECORD.fullmatch(path.stem)]

    def foreign(self) -> list[Path]:
        """List what looks like a record and is not called as one."""
        return [path for path in self._plain_json() if not RECORD.fullmatch(path.stem)]

    def orphans(self) -> list[Path]:
        """List curves whose run is not recorded, and which nobody is about to record."""
        keys = {path: path.name.partition(".")[0] for path in sorted(self.folder.glob("*.curves.csv"))}
        return [path for path, key in keys.items() if not (self.is_claimed(key) or self.path(key).exists())]

    def _plain_json(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(p for p in self.folder.glob("*.json") if p.name.count(".") == 1)

    def all(self, *, strict: bool = True) -> Iterator[Record]:
        """Read every finished run. Damaged files raise UserError, or are passed over when not ``strict``."""
        for path in self.files():
            try:
                yield _read(path, Record)
            except (UserError, OSError):
                if strict:
                    raise

    @property
    def costs(self) -> Costs:
        """What the finished runs took of a CPU."""
        return Costs((run.config, run.seconds["total"]) for run in on_cpus(self.all(strict=False)))

    def check(self) -> list[str]:
        """Write a sentence for every damaged record, note, curves file and claim; nothing is touched."""
        if not self.folder.is_dir():
            raise UserError(f"{self.folder} is no folder of records: nothing to check.")
        sentences, records = [], set(self.files())
        for path in sorted(self.folder.iterdir()):
            try:
                if path.name.endswith(".failed.json"):
                    _read(path, Note)
                elif path.name.endswith(".curves.csv"):
                    read_curves(path)
                elif path.name.endswith(".claim") and claims.is_garbage(path):
                    raise UserError(f"the claim {path} names no process: delete it, or let the next run do so.")
                elif path in records:
                    _read(path, Record)
            except (UserError, OSError) as error:
                sentences.append(sentence(error))
        return sentences

    def prepare(self) -> None:
        """Make the folder; OSError if that or writing in it is impossible."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.folder))

    def claim(self, key: str) -> claims.Claim | None:
        """Take the right to compute ``key`` (a context manager); None while another living process holds it.

        Raises:
            UnwritableError: The disk is full or read-only.
        """
        with _recording():
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self._tidied:
                remove_leftovers(self.folder, ".*.tmp")
                self._tidied = True
            return claims.take(self.beside(key, "claim"))

    def is_claimed(self, key: str) -> bool:
        """Tell whether a living process computes ``key``."""
        path = self.beside(key, "claim")
        return os.path.lexists(path) and not claims.is_stale(path)

    def forget_claim(self, key: str, pid: int) -> None:
        """Remove the claim of our own dead worker ``pid``."""
        claims.Claim(self.beside(key, "claim"), pid).release()


def _curves_text(curves: CurveValues) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if "round" not in curves:
        rounds = range(max(map(len, curves.values()), default=0))
        curves = {"round": list(rounds), **curves}
    writer.writerow(curves)
    writer.writerows(["" if x is None else x for x in row] for row in zip(*curves.values(), strict=True))
    return out.getvalue()


def _set_aside(path: Path, why: str, then: str) -> None:
    print(f"warning: {why}. Now called {set_aside(path).name}; {then}.", file=sys.stderr)


class Archive:
    """A store over a packed file: what was run here wins, what was only published still answers.

    Args:
        store: Records of this checkout.
        packed: Records read from a committed CSV, by key.
        curves: Committed curves, by key.
        lenient: Set damaged files aside instead of refusing.
        took: Science and seconds of the packed runs, where that is to be had without reading each.
        diverged: Notes of published runs that diverged, by key.
    """

    def __init__(
        self,
        store: RecordStore,
        packed: Mapping[str, Record],
        curves: Mapping[str, dict[str, list[float | None]]] | None = None,
        *,
        lenient: bool = False,
        took: Callable[[], Iterable[tuple[Mapping[str, Any], float]]] | None = None,
        diverged: Mapping[str, Note] | None = None,
    ) -> None:
        self._diverged = diverged or {}
        self._took = took
        self._store = store
        self._packed = packed
        self._curves = curves or {}
        self._read = store.recover if lenient else store.load
        self._seen: dict[str, Record | None] = {}
        self._local: set[str] = set()

    def load(self, key: str) -> Record | None:
        """Load the finished run of ``key`` once; records that appear later belong to a new archive."""
        if key not in self._seen:
            own = self._read(key)
            self._seen[key] = own or self._packed.get(key)
            self._local |= set() if own is None else {key}
        return self._seen[key]

    def is_local(self, key: str) -> bool:
        """Tell whether the run of ``key`` is recorded here, be it published, too."""
        return self.load(key) is not None and key in self._local

    def is_done(self, key: str, curves: str = "validation") -> bool:
        """Tell whether a run was done here or published, with its probes in every round if ``curves`` is ``all``."""
        if curves != "all" and key in self._packed:
            return True
        record = self.load(key)
        return record is not None and (curves != "all" or record.probes_of_rounds <= set(self.curves(key)))

    @cached_property
    def costs(self) -> Costs:
        """What the published runs took of a CPU; not those done here, or a page would hang on what else has run."""
        if self._took is not None:
            return Costs(self._took())
        return Costs((run.config, run.seconds["total"]) for run in on_cpus(self._packed.values()))

    def load_failed(self, key: str) -> Note | None:
        """Load why the last attempt at ``key`` here did not finish, or that a published one diverged; else None."""
        return self._store.load_failed(key) or self._diverged.get(key)

    def curves(self, key: str) -> dict[str, list[float | None]]:
        """Return the run's curves; of one and the same run, here and published, those with more columns."""
        found = self.load(key)  # which sets damaged curves aside, if that is wanted
        own, other = self._store.curves(key), self._packed.get(key)
        if found is not None and other is not None and found.written != other.written:
            return own  # done again here: the published curves are another run's
        return max(own, self._curves.get(key, {}), key=len)


RunSource = RecordStore | Archive
"""Anything that answers for a key."""


def loaded(source: RunSource, keys: Iterable[str]) -> dict[str, Record]:
    """Load the finished runs among ``keys``, in their order; a key without a record is left out."""
    return {key: record for key in keys if (record := source.load(key)) is not None}


def is_missing(config: Config, source: RunSource) -> bool:
    """Tell whether a run is to be done: it is not done yet, or it is forced."""
    return config.runtime.force or not source.is_done(key_of(config), config.runtime.curves)
