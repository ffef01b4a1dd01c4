"""Tables: pure functions of run records. What did not run is blank, what ran with too few seeds says so.

Every number exists at both rounds a record keeps, the best validation round and the last; the protocol says which of
the two a table prints.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from tabulate import tabulate

from fgl_repro.config import Config, key_of, keys_of, override, read, science
from fgl_repro.core.errors import UserError
from fgl_repro.fl.metrics import METRICS
from fgl_repro.runs import tuning
from fgl_repro.runs.record import DIVERGED, Record, on_cpus
from fgl_repro.runs.store import Source
from fgl_repro.tables import reference
from fgl_repro.tables.entries import Cell, Panel
from fgl_repro.tables.spec import TableSpec

Selection = Literal["best", "last"]
SELECTION_OF: dict[str, Selection] = {"best_validation": "best", "last": "last"}
"""Which of the two rounds of a record a table prints, by ``protocol.selection``."""
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
    chosen: str
    keys: tuple[str, ...]
    hours: float | None = None
    lost: str = ""
    fine_tuned: bool = False

    @property
    def to_run(self) -> str:
        """``(2.1 h to run)`` or ``(3 min to run)``; empty without an estimate."""
        if self.hours is None:
            return ""
        time = f"{self.hours:.1f} h" if self.hours >= 1 else f"{math.ceil(60 * self.hours)} min"
        return f"({time} to run)"

    def at(self, selection: str) -> Stat | None:
        """The number at one of the two rounds."""
        return self.best if selection == "best" else self.last


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

    def round_name(self, selection: Selection | str) -> str:
        """One of the two rounds in words."""
        return round_name(selection, self.tested)

    def dagger(self, selection: Selection | str) -> str:
        """What stands behind numbers that were chosen by looking at test rows."""
        return " †" if self.tested and selection == "best" else ""

    def narrowed(self, part: TableSpec) -> Grid:
        """Keep the numbers of ``part``, which comes from ``spec.narrow``; seeds stay those of the table."""
        kept = {cell: self.results[cell] for cell in part.cells()}
        return replace(
            self, spec=part, results=kept, fitted=_fitted(part, self.fitted), whole=self.whole or self.results
        )


def round_name(selection: str, tested: bool) -> str:
    """One of the two rounds in words; a dagger marks what was chosen by looking at test rows."""
    return "best test round †" if tested and selection == "best" else ROUND_NAMES[selection]


def stat(values: Sequence[float | None], ddof: int) -> Stat | None:
    """Mean and std of what was measured; None when nothing was."""
    known = [v for v in values if v is not None]
    if not known:
        return None
    std = float(np.std(known, ddof=ddof)) if len(known) > 1 else None
    return Stat(float(np.mean(known)), std, len(known))


def measured(record: Record, probe: str, selection: str, metric: str) -> float | None:
    """One metric of one probe at one of the two rounds; None for a probe without rows.

    Raises:
        UserError: The record has errors where shares are asked for, or the other way round.
    """
    found = record.at(probe, selection)
    if found is not None and found.kind.error != METRICS[metric].error:
        what, name = record.config["dataset"]["name"], found.metric or "accuracy"
        raise UserError(f"what runs on {what} measure is {name}, not {metric}: say metric: {name} in the table's yaml.")
    value = getattr(found, METRICS[metric].entry, None)
    return None if value is None else float(value)


def chosen_keys(spec: TableSpec, cell: Cell, protocol: str, source: Source) -> tuple[list[str], tuning.Choice | None]:
    """Keys of a cell's runs, one a seed, and what tuning chose; no keys while candidates are missing."""
    choice = tuning.chosen(spec.config(cell, protocol, spec.seeds[0]), source)
    return (keys_of(choice.config, spec.seeds) if choice else []), choice


def result(spec: TableSpec, cell: Cell, protocol: str, source: Source) -> Result:
    """Fill one cell from the records of its seeds."""
    if not cell.fits:
        return Result(None, None, len(spec.seeds), "no data", "", ())
    keys, choice = chosen_keys(spec, cell, protocol, source)
    if choice is None:
        return Result(None, None, len(spec.seeds), "untuned", "", ())
    found = [(key, record) for key in keys if (record := source.load(key)) is not None]
    ddof = choice.config.protocol.ddof

    def over_seeds(selection: str) -> Stat | None:
        return stat([measured(r, cell.panel.probe, selection, spec.metric_of(cell.panel)) for _, r in found], ddof)

    best, last = over_seeds("best"), over_seeds("last")
    known = tuple(key for key, _ in found)
    ended = Counter(note.status for key in keys if key not in known and (note := source.load_failed(key)) is not None)
    status, hours = _status(len(keys), len(found), best, ended), None
    status = "no data" if status == "not run" and cell.dataset in spec.absent else status
    if status in ("partial", "not run"):
        own = [record.seconds["total"] for record in on_cpus(record for _, record in found)]
        each = sum(own) / len(own) if own else source.costs.of_like(science(choice.config))
        left = len(keys) - len(found) - ended[DIVERGED]  # which would diverge again
        hours = each * left / 3600 if left and each is not None else None
    lost = ", ".join(f"{ended[name]} {word}" for name, word in NO_RESULT.items() if ended[name] and found)
    keys, tuned_on = [key[:8] for key in known], any(record.fine_tuned for _, record in found)
    return Result(best, last, len(spec.seeds), status, str(choice), tuple(keys), hours, lost, tuned_on)


def _status(wanted: int, found: int, best: Stat | None, ended: Mapping[str, int]) -> str:
    """``ended``: how many runs that have no result ended how."""
    if found == wanted:
        return "complete" if best is not None else "empty"
    if found:
        return "partial"
    return next((status for status in NO_RESULT if ended.get(status)), "not run")


def fill(spec: TableSpec, protocol: str, source: Source) -> Grid:
    """The table, or a part of one, from whatever records there are."""
    if spec.whole is not None:
        return fill(spec.whole, protocol, source).narrowed(spec)
    if not (spec.rows and spec.panels):
        raise UserError(f"{spec.name} has no runs to read: a table of kind {spec.kind} needs rows and panels.")
    _compose(spec, protocol)
    example = spec.config(next(spec.cells()), protocol, spec.seeds[0]).protocol
    results = {cell: result(spec, cell, protocol, source) for cell in spec.cells()}
    rules = (_fitted(spec, example.fitted), example.redraw, example.selected_by == "test")
    return Grid(spec, protocol, SELECTION_OF[example.selection], example.ddof, results, *rules)


def _fitted(spec: TableSpec, protocol: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Those of a protocol's fitted methods and data sets that the table has."""
    methods = {row.method for row in spec.rows}
    here = {m: [name for name in names if name in spec.datasets] for m, names in protocol.items() if m in methods}
    return {method: names for method, names in here.items() if names}


def tally(table: Grid) -> tuple[int, int]:
    """Complete cells, and all."""
    return sum(found.status == "complete" for found in table.results.values()), len(table.results)


def _compose(spec: TableSpec, protocol: str) -> None:
    """Compose all options that the table needs in one go."""
    named = {
        "dataset": spec.datasets,
        "partitioner": [spec.partitioner],
        "setting": [panel.setting for panel in spec.panels],
        "protocol": [protocol],
        "model": [spec.model, *(row.model for row in spec.rows), *(panel.model for panel in spec.panels)],
        "method": [row.method for row in spec.rows],
    }
    read((group, name) for group, names in named.items() for name in names if name)


def firsts(spec: TableSpec, protocol: str) -> list[Config]:
    """The first run of every cell at hand, before tuning."""
    _compose(spec, protocol)
    return [spec.config(cell, protocol, spec.seeds[0]) for cell in spec.planned()]


def _at_seeds(config: Config, spec: TableSpec) -> list[Config]:
    """The runs of a cell."""
    return [override(config, {"seed": seed}) for seed in spec.seeds]


def runs(spec: TableSpec, protocol: str) -> list[Config]:
    """Every run of the table before tuning; panels that share a world name the same run more than once."""
    return [run for config in firsts(spec, protocol) for run in _at_seeds(config, spec)]


def candidate_runs(spec: TableSpec, protocol: str) -> list[Config]:
    """First phase of a tuned table; empty otherwise."""
    return [candidate for config in firsts(spec, protocol) for candidate in tuning.candidates(config)]


def chosen_runs(spec: TableSpec, protocol: str, source: Source) -> tuple[list[Config], int]:
    """Second phase: the runs a table prints, and how many cannot be named yet because candidates are missing."""
    found = [tuning.choose(config, source) for config in firsts(spec, protocol)]
    known = [run for config in found if config is not None for run in _at_seeds(config, spec)]
    return known, found.count(None) * len(spec.seeds)


def needed(spec: TableSpec, protocol: str, source: Source) -> dict[str, Config]:
    """Every run a table rests on that can be named yet, candidates included: its key, and its config at some seed."""
    configs = firsts(spec, protocol)
    found = {key_of(run): run for config in configs for run in tuning.candidates(config)}
    for config in configs:
        if (chosen := tuning.choose(config, source)) is not None:
            found |= dict.fromkeys(keys_of(chosen, spec.seeds), chosen)
    return found


# --- output -----------------------------------------------------------------------------------------------------------


def number(value: Stat | None, form: str) -> str:
    """``86.01 ± 1.18`` (percent), ``0.5442 ± 0.0146`` (error), ``0.8601 (0.0118)`` (fraction); blank for nothing."""
    if value is None:
        return ""
    scale, digits = (100, 2) if form == "percent" else (1, 4)
    mean, std = f"{scale * value.mean:.{digits}f}", f"{scale * (value.std or 0.0):.{digits}f}"
    if value.std is None:
        return mean
    return f"{mean} ({std})" if form == "fraction" else f"{mean} ± {std}"


def cell_text(found: Result, selection: str, form: str, costs: bool = False) -> str:
    """A cell as tables print it: number and, where seeds are missing, how many there are; or why there is none.

    Args:
        costs: Whether it also tells what the missing seeds would take.
    """
    if found.status in NO_RESULT:
        return NO_RESULT[found.status]
    if found.status == "empty":
        return "no rows"
    value = found.at(selection)
    text = number(value, form)
    counts = ", ".join(filter(None, (f"{value.n} of {found.wanted}" if value else "", found.lost)))
    few = f"[{counts}]" if value is not None and value.n < found.wanted else ""
    return " ".join(filter(None, (text, few, found.to_run if costs else "")))


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """CSV with unix line ends, so that the same numbers are the same bytes everywhere; columns as in the first row."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def decimal(value: float | None, digits: int) -> str:
    """A number of a CSV, blank for None."""
    return "" if value is None else f"{value:.{digits}f}"


def columns_of(value: Stat | None, digits: int, *names: str) -> dict[str, Any]:
    """Mean, std and count of seeds as columns of a CSV that have these names; a third name may be left out."""
    parts = ("", "", 0) if value is None else (decimal(value.mean, digits), decimal(value.std, digits), value.n)
    return dict(zip(names, parts, strict=False))


def row_gap(table: Grid, pair: list[str], panel: Panel, dataset: str, clients: int, selection: str) -> float | None:
    """The first row minus the second, ours or (``paper``) printed; None where one of them has no number.

    In points, or where they are errors in percent of the second.
    """
    by_id = {row.id: row for row in table.spec.rows}
    if not set(pair) <= set(by_id):
        return None
    cells = [Cell(panel, by_id[name], dataset, clients) for name in pair]
    more, less = (reference.of(c) if selection == "paper" else table.results[c].at(selection) for c in cells)
    if more is None or less is None:
        return None
    return 100 * (more.mean - less.mean) / ((less.mean if table.spec.kind_of(panel).error else 0) or 1)


def signed(value: float | None) -> str:
    """Points with their sign, blank for None."""
    return "" if value is None else f"{value:+.2f}"


def seed_range(counts: Iterable[int]) -> str:
    """Over how many seeds numbers are: ``3 seeds``, ``1 to 3 seeds``; blanks (0) are left out."""
    ran = {int(count) for count in counts} - {0}
    if len(ran) < 2:
        return f"{max(ran, default=0)} seed{'' if ran == {1} else 's'}"
    return f"{min(ran)} to {max(ran)} seeds"


def grid_text(heads: Sequence[str], rows: Sequence[Sequence[object]], numbers_from: int = 1) -> str:
    """A markdown table, aligned so that it also reads well as plain text."""
    align = ["left" if i < numbers_from else "right" for i in range(len(heads))]
    return tabulate(rows, heads, tablefmt="pipe", colalign=align, disable_numparse=True)
