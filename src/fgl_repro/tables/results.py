"""Tables: pure functions of run records. What did not run is blank, what ran with too few seeds says so.

Every number exists at both rounds a record keeps, the best validation round and the last; the protocol says which of
the two a table prints.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from fgl_repro.config import science
from fgl_repro.core.errors import UserError
from fgl_repro.data.catalog import rebuilt
from fgl_repro.fl.metrics import METRICS
from fgl_repro.fl.protocol import Protocol
from fgl_repro.runs.record import DIVERGED, SELECTION_OF, Record, on_cpus
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import needs, reference
from fgl_repro.tables.entries import ACCURACY, Cell, Panel
from fgl_repro.tables.spec import TableSpec

RoundChoice = Literal["best", "last"]
NO_RESULT = {"oom": "OOM", DIVERGED: DIVERGED, "failed": "failed"}
ROUND_NAMES = {"best": "best validation round", "last": "last round"}
"""The two rounds of a record, and what pages call them."""


@dataclass(frozen=True)
class Stat:
    """Mean and std over seeds, of shares as fractions; ``std`` is None for a single seed, which has no spread."""

    mean: float
    std: float | None
    n: int

    def restated(self, ddof: int, other: int) -> Stat:
        """Give the same numbers with a std that has the delta degrees of freedom ``other`` instead of ``ddof``."""
        if self.std is None:
            return self
        return replace(self, std=self.std * math.sqrt((self.n - ddof) / (self.n - other)))


@dataclass(frozen=True)
class Result:
    """What records say about a cell.

    Attributes:
        best: At the best validation round; None where nothing was measured.
        last: At the last round.
        wanted: Seeds the table asks for.
        status: ``complete``, ``partial``, ``empty`` (runs finished, but the probe has no rows), ``oom``,
            ``diverged``, ``failed``, ``untuned`` (candidates are missing), ``not run``, or ``no data`` (nor can it be,
            here).
        chosen: Tuned overrides, where the protocol tunes.
        keys: Runs behind the number, first eight digits, in the order of seeds.
        hours: What the missing seeds would take on one core, by the seeds that are there or published runs of the same
            method, variant, data set and number of clients; None where none is missing or nothing like it ever ran.
        lost: Which of the missing seeds ran and came to nothing, ``1 diverged``, where others have a number.
        fine_tuned: Whether its numbers are those of models that trained on after the last round.
    """

    best: Stat | None
    last: Stat | None
    wanted: int
    status: str
    chosen: str = ""
    keys: tuple[str, ...] = ()
    hours: float | None = None
    lost: str = ""
    fine_tuned: bool = False

    @property
    def to_run(self) -> str:
        """``(2.1 h to run)`` or ``(3 min to run)``; empty without an estimate."""
        return "" if self.hours is None else f"({duration(self.hours)} to run)"

    def at(self, selection: str) -> Stat | None:
        """Return the number at one of the two rounds."""
        return self.best if selection == "best" else self.last


def duration(hours: float) -> str:
    """Write ``2.1 h``, or ``3 min`` where it is less than one."""
    return f"{hours:.1f} h" if hours >= 1 else f"{math.ceil(60 * hours)} min"


@dataclass(frozen=True)
class Grid:
    """A spec filled from records under one protocol.

    Attributes:
        selection: The round that the protocol prints.
        fitted: The protocol's, see :class:`fgl_repro.fl.protocol.Protocol`, of the methods and data sets of the spec.
        redraw: Whether the runs of a cell are draws of splits as well as of seeds.
        tested: Whether test rows select the round.
        whole: All results of the table that it is a part of, among which verdicts are decided; empty: its own.
    """

    spec: TableSpec
    protocol: str
    selection: str
    ddof: int
    results: dict[Cell, Result]
    fitted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    redraw: bool = False
    tested: bool = False
    whole: Mapping[Cell, Result] = field(default_factory=dict)

    def round_name(self, selection: RoundChoice | str) -> str:
        """Tell one of the two rounds in words."""
        return round_name(selection, self.tested)

    def dagger(self, selection: RoundChoice | str) -> str:
        """Write what stands behind numbers that were chosen by looking at test rows."""
        return " †" if self.tested and selection == "best" else ""

    def narrowed(self, part: TableSpec) -> Grid:
        """Keep the numbers of ``part``, which comes from ``spec.narrow``; seeds stay those of the table."""
        kept = {cell: self.results[cell] for cell in part.cells()}
        return replace(
            self, spec=part, results=kept, fitted=_fitted(part, self.fitted), whole=self.whole or self.results
        )


DECIMALS = 9
"""To which means are ranked: seeds that add up to the same differ in the last bits by the order of the sum."""


def rules(spec: TableSpec, protocol: str) -> Protocol:
    """Return what the protocol says of all cells of a table."""
    return spec.config(next(spec.cells()), protocol, spec.seeds[0]).protocol


def printed_round(spec: TableSpec, protocol: str) -> RoundChoice:
    """Name the round that the protocol prints."""
    return SELECTION_OF[rules(spec, protocol).selection]


def printed_round_name(spec: TableSpec, protocol: str) -> str:
    """Tell the round that the protocol prints in words."""
    return round_name(printed_round(spec, protocol), rules(spec, protocol).selected_by == "test")


def round_name(selection: str, tested: bool) -> str:
    """Tell one of the two rounds in words; a dagger marks what was chosen by looking at test rows."""
    return "best test round †" if tested and selection == "best" else ROUND_NAMES[selection]


def chosen_on(spec: TableSpec, protocol: str, dataset: str) -> dict[str, Any]:
    """Fill the columns of a CSV that say what its numbers may not be taken for without being told."""
    return {"chosen_on": rules(spec, protocol).selected_by, "rebuild": int(bool(rebuilt(dataset)))}


def stat(values: Sequence[float | None], ddof: int) -> Stat | None:
    """Compute mean and std of what was measured; None when nothing was."""
    known = [v for v in values if v is not None]
    if not known:
        return None
    std = float(np.std(known, ddof=ddof)) if len(known) > 1 else None
    return Stat(float(np.mean(known)), std, len(known))


def measured(record: Record, probe: str, selection: str, metric: str) -> float | None:
    """Read one metric of one probe at one of the two rounds; None for a probe without rows.

    Raises:
        UserError: The record has another metric in the same place, or errors where shares are asked for.
    """
    found, wanted = record.at(probe, selection), METRICS[metric]
    if found is not None:
        name = found.metric or ACCURACY
        if found.kind.error != wanted.error or (wanted.entry == ACCURACY and name != metric):
            what = f"probe {probe} of runs on {record.config['dataset']['name']}"
            raise UserError(f"{what} measures {name}, not {metric}: say metric: {name} in the table's yaml.")
    value = getattr(found, wanted.entry, None)
    return None if value is None else float(value)


def result(spec: TableSpec, cell: Cell, protocol: str, source: RunSource) -> Result:
    """Fill one cell from the records of its seeds."""
    if not cell.fits:
        return Result(None, None, len(spec.seeds), "no data")
    keys, candidate = needs.chosen_keys(spec, cell, protocol, source)
    if candidate is None:
        return Result(None, None, len(spec.seeds), "untuned")
    found = [(key, record) for key in keys if (record := source.load(key)) is not None]
    ddof = candidate.config.protocol.ddof

    def over_seeds(selection: str) -> Stat | None:
        return stat([measured(r, cell.panel.probe, selection, spec.metric_name(cell.panel)) for _, r in found], ddof)

    best, last = over_seeds("best"), over_seeds("last")
    known = tuple(key for key, _ in found)
    ended = Counter(note.status for key in keys if key not in known and (note := source.load_failed(key)) is not None)
    status, hours = _status(len(keys), len(found), best, ended), None
    status = "no data" if status == "not run" and cell.dataset in spec.absent else status
    if status in ("partial", "not run"):
        own = [record.seconds["total"] for record in on_cpus(record for _, record in found)]
        each = sum(own) / len(own) if own else source.costs.of_like(science(candidate.config))
        left = len(keys) - len(found) - ended[DIVERGED]  # which would diverge again
        hours = each * left / 3600 if left and each is not None else None
    lost = ", ".join(f"{ended[name]} {word}" for name, word in NO_RESULT.items() if ended[name] and found)
    keys, tuned_on = [key[:8] for key in known], any(record.fine_tuned for _, record in found)
    return Result(best, last, len(spec.seeds), status, str(candidate), tuple(keys), hours, lost, tuned_on)


def _status(wanted: int, found: int, best: Stat | None, ended: Mapping[str, int]) -> str:
    """Say how a cell stands; ``ended``: how many runs that have no result ended how."""
    if found == wanted:
        return "complete" if best is not None else "empty"
    if found:
        return "partial"
    return next((status for status in NO_RESULT if ended.get(status)), "not run")


def fill(spec: TableSpec, protocol: str, source: RunSource) -> Grid:
    """Fill the table, or a part of one, from whatever records there are."""
    if spec.whole is not None:
        return fill(spec.whole, protocol, source).narrowed(spec)
    if not (spec.rows and spec.panels):
        about_data = "it is about data; 'fgl-table list' shows which tables have some"  # as ours without rows are
        why = about_data if spec.is_ours else f"a table of kind {spec.kind} needs rows and panels"
        raise UserError(f"{spec.name} has no runs to read: {why}.")
    needs.compose(spec, protocol)
    example = rules(spec, protocol)
    results = {cell: result(spec, cell, protocol, source) for cell in spec.cells()}
    rest = (_fitted(spec, example.fitted), example.redraw, example.selected_by == "test")
    return Grid(spec, protocol, SELECTION_OF[example.selection], example.ddof, results, *rest)


def _fitted(spec: TableSpec, protocol: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Keep those of a protocol's fitted methods and data sets that the table has."""
    methods = {row.method for row in spec.rows}
    here = {m: [name for name in names if name in spec.datasets] for m, names in protocol.items() if m in methods}
    return {method: names for method, names in here.items() if names}


def tally(table: Grid) -> tuple[int, int]:
    """Count complete cells, and all."""
    return sum(found.status == "complete" for found in table.results.values()), len(table.results)


def row_gap(table: Grid, pair: list[str], panel: Panel, dataset: str, clients: int, selection: str) -> float | None:
    """Subtract the second row from the first, ours or (``paper``) printed; None where one of them has no number.

    In points, or where they are errors in percent of the second.
    """
    by_id = {row.id: row for row in table.spec.rows}
    if not set(pair) <= set(by_id):
        return None
    cells = [Cell(panel, by_id[name], dataset, clients) for name in pair]
    more, less = (reference.of(c) if selection == "paper" else table.results[c].at(selection) for c in cells)
    if more is None or less is None:
        return None
    return 100 * (more.mean - less.mean) / ((less.mean if table.spec.metric_of(panel).error else 0) or 1)
