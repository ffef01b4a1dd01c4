"""Finished runs as objects: what was asked for, its numbers as data frames, and what a notebook shows of them."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from fgl_repro.core.errors import as_user_error
from fgl_repro.runs import frames
from fgl_repro.runs.folders import folder_named
from fgl_repro.runs.names import label
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.summary import summary


@dataclass(frozen=True)
class Run:
    """This is a finished run.

    Attributes:
        record: All that is recorded of it, see :class:`fgl_repro.runs.record.Record`.
        curves: A line a round, ``round`` the index: ``validation``, and with ``curves="all"`` every probe.
        source: Where it was found: ``local``, or the paper with whose results it is published.
        probe: The probe that was asked for.
        selection: The round that the protocol prints, ``best`` or ``last``.
        options: What else it was asked for by, ``protocol=fedlog protocol.rounds=30``.
        overrides: Those of it that are dotted keys, by name.
    """

    record: Record
    curves: pd.DataFrame
    source: str
    probe: str
    selection: str
    options: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """It is the SHA-256 of all that can change the run's numbers."""
        return self.record.key

    @property
    def score(self) -> float | None:
        """It is what a table would print: a fraction, or an error as it is; None where no rows are tested."""
        found = self.record.at(self.probe, self.selection)
        return None if found is None else found.accuracy

    @property
    def scores(self) -> pd.DataFrame:
        """There is a line for each probe and each of the two rounds.

        The columns are those of ``records()`` and, at the end, what it was asked for by dotted keys.
        """
        lines = frames.scores(self.record, self.source)
        return pd.DataFrame([line | dict(self.overrides) for line in lines], columns=[*frames.SCORES, *self.overrides])

    @property
    def clients(self) -> pd.DataFrame:
        """There is a line for each probe, round and client: its own accuracy, and on how many rows."""
        return pd.DataFrame(frames.clients(self.record), columns=frames.CLIENTS)

    @property
    def bytes(self) -> pd.DataFrame:
        """There is a line for each phase, direction and field of what a client sends or receives."""
        return pd.DataFrame(frames.sent(self.record), columns=frames.SENT)

    def save(self, folder: str | Path) -> Path:
        """Write record and curves into another folder of records too; returns the record's file."""
        columns = {str(name): [None if pd.isna(x) else x for x in values] for name, values in self.curves.items()}
        rounds = {"round": list(self.curves.index)} if columns else {}
        with as_user_error():
            return RecordStore(folder_named(folder)).save(self.record, rounds | columns)

    def __str__(self) -> str:
        """Return what ``fgl-train`` prints of it."""
        where = "recorded here" if self.source == frames.LOCAL else f"published with {self.source}"
        return f"{self.label}: {where}, {self.key[:8]}\n{summary(self.record, self.probe)}"

    @property
    def label(self) -> str:
        """It is what the run is called: ``fedavg-release cora K=3 closed_set protocol.rounds=30 seed=0``."""
        identity = self.record.config
        return label(identity, f"{identity['setting']['world']} {self.options}".strip())

    __repr__ = __str__


@dataclass(frozen=True)
class Sweep:
    """A sweep holds many runs, in the order in which they were asked for.

    Attributes:
        runs: Those that finished.
        failed: What each other one was, and the sentence that says why it did not finish.
    """

    runs: tuple[Run, ...]
    failed: tuple[tuple[str, str], ...] = ()

    @property
    def scores(self) -> pd.DataFrame:
        """There is a line for each run, probe and round; the columns are those of a run's scores.

        What was asked for in two ways, as two settings of one world, is one run and stands here once.
        """
        once = {run.key: run for run in self}.values()
        lines = [line | dict(run.overrides) for run in once for line in frames.scores(run.record, run.source)]
        swept = dict.fromkeys(name for run in once for name in run.overrides)
        return pd.DataFrame(lines, columns=[*frames.SCORES, *swept])

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        """Tell how many runs there are, what each came to, and why the first that failed did."""
        numbers = [self._numbers.to_string(max_rows=60)] if self.runs else []
        return "\n".join([self._counted, *numbers, *self._failure])

    def _repr_html_(self) -> str:
        """Show the same in a notebook."""
        paragraphs = [f"<p>{html.escape(line)}</p>" for line in (self._counted, *self._failure)]
        return "".join([paragraphs[0], self._numbers.to_html(max_rows=60) if self.runs else "", *paragraphs[1:]])

    @property
    def _counted(self) -> str:
        return f"{len(self)} runs finished, {len(self.failed)} failed"

    @property
    def _failure(self) -> list[str]:
        return [f"First failure: {': '.join(self.failed[0])}"] if self.failed else []

    @property
    def _numbers(self) -> pd.DataFrame:
        """A line for each run, and in print 60 at most: the number that a table would print."""
        lines = [{"run": run.label, "probe": run.probe, "score": run.score} for run in self]
        return pd.DataFrame(lines)

    def __getitem__(self, index: int) -> Run:
        return self.runs[index]
