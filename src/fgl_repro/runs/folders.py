"""Where runs are looked for: what was recorded here, and what is published with the repository."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from fgl_repro.config import conf_dir
from fgl_repro.core.errors import UserError
from fgl_repro.core.files import folder_of
from fgl_repro.runs import curves
from fgl_repro.runs.names import label
from fgl_repro.runs.packed import Packed, PackedDiverged
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import PREFIX, Archive, RecordStore

RECORDS = Path("results/records")
RESULTS = Path("results")
NAMED = 5
"""Of runs that might be meant, so many are named."""


def default_records() -> Path:
    """Tell where records lie unless somebody says otherwise; an empty ``FGL_RECORDS`` counts as unset."""
    return folder_of("FGL_RECORDS", RECORDS)


def default_results() -> Path:
    """Tell where published runs lie unless somebody says otherwise: here or, where none are, beside the code."""
    beside = conf_dir().parent / RESULTS
    return beside if any(beside.glob("*/runs.csv")) and not any(RESULTS.glob("*/runs.csv")) else RESULTS


def folder_named(folder: str | Path, *, there: bool = False) -> Path:
    """Return a folder by its name. An empty one would be the current folder; nothing lies below a file.

    Args:
        there: Whether it must be there already, as one that is only read must be.

    Raises:
        UserError: It is no folder, or not there.
    """
    if not isinstance(folder, str | Path):
        raise UserError(f"{folder!r} is no name of a folder: give one in quotes")
    if folder == "":
        raise UserError("the name is empty: name a folder")
    path = Path(folder)
    above = next((each for each in (path, *path.parents) if each.exists()), Path("."))
    if not above.is_dir():
        raise UserError(f"{above} is no folder: name one")
    if there and not path.is_dir():
        raise UserError(f"there is no folder {folder}: name one that is there")
    return path


class PublishedFiles(NamedTuple):
    """The files of what is published of a paper: its runs, their curves, and its runs that diverged."""

    runs: Path
    curves: Path
    diverged: Path


class PublishedRuns(NamedTuple):
    """What is published of a paper: its runs, their curves, and notes of its runs that diverged, by key."""

    runs: Packed
    curves: dict[str, curves.Columns]
    diverged: PackedDiverged

    def below(self, store: RecordStore, *, lenient: bool = False) -> Archive:
        """Return what lies in ``store``, over what is published."""
        return Archive(store, self.runs, self.curves, lenient=lenient, took=self.runs.took, diverged=self.diverged)


@dataclass(frozen=True)
class RunFolders:
    """The two folders that hold runs.

    Attributes:
        records: What was run here.
        results: What is published, a folder for each paper.
        fresh: Whether what is only published does not count as done.
        paper: Whose published runs count as done; empty: those of all papers.
    """

    records: Path
    results: Path
    fresh: bool = False
    paper: str = ""

    @property
    def store(self) -> RecordStore:
        """The records of this checkout."""
        return RecordStore(self.records)

    @property
    def done(self) -> Archive:
        """What counts as done: runs recorded here, and (unless ``fresh``) those published."""
        if self.fresh:
            return Archive(self.store, {}, lenient=True)
        return self.archive(self.paper, lenient=True)

    @property
    def papers(self) -> list[str]:
        """Papers with packed runs, or with the seal of runs that are lost, which whoever reads them is told."""
        names = ("runs.csv", "runs.csv.sha256")
        return sorted({path.parent.name for name in names for path in self.results.glob(f"*/{name}")})

    def published_files(self, paper: str) -> PublishedFiles:
        """Name the files of what is published of a paper, be they there or not."""
        folder = self.results / paper
        return PublishedFiles(folder / "runs.csv", folder / "curves.csv", folder / "diverged.csv")

    def archive(self, paper: str, *, lenient: bool = False) -> Archive:
        """Return what was run here, over what was published of the paper.

        A paper of one's own rests on all papers' runs.
        """
        if paper not in self.papers:
            return self.archive_of_all(lenient=lenient)
        return self.published(paper).below(self.store, lenient=lenient)

    def published_alone(self, paper: str) -> Archive:
        """Return what was published and nothing else.

        A run that ends while pages are written is on none of them.
        """
        return self.published(paper).below(RecordStore(self.results / paper))

    def archive_of_all(self, *, lenient: bool) -> Archive:
        """Return what was run here, over what was published of any paper."""
        every = [self.published(paper) for paper in self.papers]
        runs, rounds, diverged = (ChainMap(*each) for each in zip(({}, {}, {}), *every, strict=True))
        return Archive(
            self.store,
            runs,
            rounds,
            lenient=lenient,
            took=lambda: chain.from_iterable(own.runs.took() for own in every),
            diverged=diverged,
        )

    def everything_published(self) -> dict[str, Packed]:
        """Read the published runs of every paper."""
        return {paper: self.published(paper).runs for paper in self.papers}

    def published(self, paper: str) -> PublishedRuns:
        """Read what is published of a paper; it is read again when a file changes."""
        files = self.published_files(paper)
        states = [(path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else None for path in files]
        return _read(*files, *states)

    def find(self, key: str) -> Record:
        """Find the one run whose key begins with ``key``: as it was recorded here or, where it was not, published.

        Raises:
            UserError: There is none, or more than one: the sentence names them.
        """
        if not isinstance(key, str):
            raise UserError(f"{key!r} is no key of a run: give the beginning of one, in quotes.")
        own = self.store
        here = [path.stem for path in own.files() if path.stem.startswith(key[:PREFIX])]
        published = {
            each: runs
            for runs in self.everything_published().values()
            for each in runs
            if each.startswith(key) and each[:PREFIX] not in here
        }
        if len(here) + len(published) > 1:
            labels = {each: _label(own.load_if_whole(each)) for each in sorted(here)[:NAMED]}
            labels |= {each: _label(published[each][each]) for each in sorted(published)[: NAMED - len(labels)]}
            digits = max(8, len(key) + 1)
            named = ", ".join(f"{each[:digits]} ({what})" for each, what in labels.items())
            count = len(here) + len(published)
            further = f" and {count - len(labels)} others" if count > len(labels) else ""
            raise UserError(f"{count} runs have a key that starts with {key!r}, {named}{further}: give more digits.")
        record = own.load(here[0]) if here else next((runs[whole] for whole, runs in published.items()), None)
        if record is None or not record.key.startswith(key):  # a file's name has only the first digits of a key
            where = f"{self.results}/*/runs.csv, column key, and {self.records}"
            raise UserError(f"no run, recorded here or published, has a key that starts with {key!r}: see {where}.")
        return record


def _label(record: Record | None) -> str:
    return label(record.config) if record else "damaged"


@lru_cache
def _read(runs: Path, rounds: Path, diverged: Path, *_: tuple[int, int] | None) -> PublishedRuns:
    """Read packed files; the further arguments have them read again once one has changed."""
    return PublishedRuns(Packed(runs), curves.read_packed(rounds), PackedDiverged(diverged))
