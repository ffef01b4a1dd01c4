"""Is one row of a table better than the others? Paired t-tests over the seeds that two rows share.

Runs of two methods at one seed have the same graph, partition and split, so that what a split is worth drops out of
their gap. Which gaps are told from nothing is decided for all of a table together, also where a part is asked for, so
that among those said to be a twentieth at most is expected to be chance (Benjamini and Hochberg, 1995). Seeds of one
split say nothing about other splits; protocols called ``..._splits`` draw these, too, from one graph: what is told
holds for that graph, whose splits have most nodes in common.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Any

import pandas as pd

from fgl_repro.core.errors import UserError
from fgl_repro.runs.store import RunSource
from fgl_repro.tables.entries import ACCURACY, Cell, Panel, Row, place
from fgl_repro.tables.kinds import ranks
from fgl_repro.tables.printing import csv_text, decimal, grid_text
from fgl_repro.tables.request import Request
from fgl_repro.tables.results import chosen_on, printed_round_name
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.verdict import LEVEL, differing

ENOUGH = 5
"""Runs that a paired test wants: of three, two degrees of freedom tell next to nothing."""


@dataclass(frozen=True)
class Gap:
    """A row's numbers minus another's, seed by seed; above nothing where the row is better, be they errors.

    Attributes:
        mean: Of the gaps, in fractions or the unit of the error.
        std: Of the gaps (ddof 1); None for a single one.
        seeds: How many both rows have.
        p: Of both rows being alike; None with too few seeds, or where every gap is the same: without any spread the
            test has nothing to go by.
    """

    mean: float
    std: float | None
    seeds: int
    p: float | None


def gap(runs: pd.DataFrame, first: str, second: str) -> Gap | None:
    """Tell how far the first row is ahead of the second; None where they share no seed.

    Args:
        runs: A line a run of one column: ``row``, ``seed``, ``value``.
    """
    own, other = (runs[runs["row"] == row].set_index("seed")["value"] for row in (first, second))
    gaps = (own - other).dropna()
    if gaps.empty:
        return None
    mean, std = float(gaps.mean()), float(gaps.std()) if len(gaps) > 1 else None
    return Gap(mean, std, len(gaps), _p(gaps))


def _p(gaps: pd.Series[float]) -> float | None:
    if len(gaps) < ENOUGH:
        return None
    if gaps.std() < 1e-9:
        return 1.0 if abs(gaps.mean()) < 1e-9 else None
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(gaps, 0.0).pvalue)


@dataclass(frozen=True)
class PairedLine:
    """One other row in one column."""

    cell: Cell
    gap: Gap | None
    differs: bool = False

    @property
    def way(self) -> str:
        """Which way the row is told from the other: ``ahead``, ``behind`` or ``not``; empty where none was tested."""
        if self.gap is None or self.gap.p is None:
            return ""
        return ("ahead" if self.gap.mean > 0 else "behind") if self.differs else "not"


@dataclass(frozen=True)
class PairedComparison:
    """A row against every other one, in every column of a table.

    Attributes:
        spec: What is asked for, with ``row`` as its first row.
        lines: By panel, column and other row.
        tested: How many gaps of the whole table have a p-value.
        few: What is said where the protocol has too few seeds for tests, see :func:`too_few`.
    """

    spec: TableSpec
    protocol: str
    row: Row
    lines: list[PairedLine]
    tested: int
    few: str = ""


def too_few(spec: TableSpec, protocol: str) -> str:
    """Say that a table has too few seeds for tests, and which of its protocols have enough; empty: it has enough."""
    seeds = {each: len(spec.under(each).seeds) for each in (protocol, *spec.protocols)}
    if seeds[protocol] >= ENOUGH:
        return ""
    able = ", ".join(f"{each} has {count}" for each, count in seeds.items() if count >= ENOUGH)
    return f"this protocol has {seeds[protocol]}" + (f" ({able})" if able else "")


def row_named(spec: TableSpec, word: str) -> Row:
    """Find the row that ``word`` calls, by id or method; empty: the first that a user has added, or the paper's own.

    Raises:
        UserError: There is none, or several.
    """
    own = [row for row in spec.rows if row.id in spec.added_rows] or [r for r in spec.rows if r.name == spec.proposed]
    found = [row for row in spec.rows if row.id == word] or [row for row in spec.rows if row.method == word]
    if not word and own:
        return own[0]
    if len(found) != 1:
        what = f"has {len(found) or 'no'} rows {word}" if word else "has no method of its own"
        raise UserError(f"{spec.name} {what}: choose by --row from {', '.join(row.id for row in found or spec.rows)}.")
    return found[0]


def compared(wanted: Request, word: str, source: RunSource) -> PairedComparison:
    """Compare the row that ``word`` calls (see :func:`row_named`) with those asked for, from the records there are.

    Raises:
        UserError: The table is no grid of accuracies, has no such row, or is narrowed to that alone.
    """
    if wanted.spec.kind != ACCURACY:
        raise UserError(
            f"{wanted.spec.name} is no grid of accuracies, whose rows can be compared: see 'fgl-table show'."
        )
    row, protocol = row_named(wanted.spec, word), wanted.protocol
    spec, whole = (
        replace(each, rows=(row, *(other for other in each.rows if other.id != row.id)))
        for each in (wanted.part, wanted.part.whole or wanted.part)
    )
    if len(spec.rows) == 1:
        raise UserError(f"there is no other row to compare {row.id} with: name others by --methods, or none.")
    found: list[tuple[Cell, Gap | None]] = []
    for panel in whole.panels:
        runs = ranks.accuracies(whole, panel, protocol, source)
        for at in whole.places:
            column = runs[runs["column"] == place(*at)]
            found += [(Cell(panel, other, *at), gap(column, row.label, other.label)) for other in whole.rows[1:]]
    p = {number: gap.p for number, (_, gap) in enumerate(found) if gap is not None and gap.p is not None}
    apart = dict(zip(p, differing(list(p.values())), strict=True))
    marked, shown = {number for number, differs in apart.items() if differs}, set(spec.cells())
    lines = [PairedLine(cell, gap, number in marked) for number, (cell, gap) in enumerate(found) if cell in shown]
    return PairedComparison(spec, protocol, row, lines, len(p), too_few(wanted.spec, protocol))


def csv_of(found: PairedComparison) -> str:
    """Write one line a column and other row."""
    spec, rows = found.spec, []
    for line in found.lines:
        cell = line.cell
        row: dict[str, Any] = {"paper": spec.paper, spec.sort: spec.table, "panel": cell.panel.name}
        row |= {"protocol": found.protocol, "dataset": cell.dataset, "clients": cell.clients}
        metric = spec.metric_name(cell.panel)
        row |= {"row": found.row.id, "against": cell.row.id, "metric": metric}
        row |= chosen_on(spec, found.protocol, cell.dataset)
        row["unit"] = metric if spec.metric_of(cell.panel).error else "fraction"
        mean, std, seeds, p = (None, None, 0, None) if line.gap is None else astuple(line.gap)
        row |= {"gap": decimal(mean, 6), "std": decimal(std, 6), "n_seeds": seeds}
        rows.append(row | {"p": "" if p is None else f"{p:.3g}", "told": int(line.differs)})
    return csv_text(rows)


def page(found: PairedComparison) -> str:
    """Write a page for people: how to read it, then a grid for each panel and data set, other rows down."""
    spec, label = found.spec, found.row.label
    head = (
        f"{label} minus each other row{', of errors the other way round' * spec.has_errors}: above zero it is better. "
    )
    shown_round = printed_round_name(spec, found.protocol)
    head += f"Mean and std over the seeds that both have, {shown_round}, protocol `{found.protocol}`."
    parts = [f"{spec.full_title}: {label} against the others", head, _tests(found)]
    parts += [_counts(found)] if len(spec.panels) * len(spec.places) > 1 else []
    for panel in spec.panels:
        parts.append(f"### {panel.name}: {panel.title}")
        for dataset in spec.datasets:
            parts.append(_grid(found, panel, dataset))
    return "\n\n".join(parts)


def _tests(found: PairedComparison) -> str:
    """Tell how gaps were tested, or why none was."""
    if not found.tested:
        short = f", and {found.few}" if found.few else ""
        return f"No gap could be tested: a test wants {ENOUGH} seeds that both rows have, with gaps that vary{short}."
    text = f"p: paired t-test, two-sided. *: told apart at a false discovery rate of {LEVEL:.0%} over the "
    return f"{text}{found.tested} gaps tested in the whole table. A test wants {ENOUGH} seeds and gaps that vary."


def _counts(found: PairedComparison) -> str:
    """Tell in how many columns the row is told from each other one."""
    rows = []
    for other in found.spec.rows[1:]:
        ways = [line.way for line in found.lines if line.cell.row == other]
        tested = f"{sum(map(bool, ways))} of {len(ways)}"
        rows.append([other.label, tested, str(ways.count("ahead")), str(ways.count("behind"))])
    return grid_text(["against", "columns tested", "told ahead", "told behind"], rows)


def _grid(found: PairedComparison, panel: Panel, dataset: str) -> str:
    own = [line for line in found.lines if line.cell.panel == panel and line.cell.dataset == dataset]
    heads = ["against", *(place(dataset, clients) for clients in found.spec.clients)]
    rows = []
    for other in found.spec.rows[1:]:
        texts = [_text(found.spec, line) for line in own if line.cell.row == other]
        rows.append([other.label, *texts])
    return grid_text(heads, rows)


def _text(spec: TableSpec, line: PairedLine) -> str:
    """Write ``+1.87 ± 0.90, p = 0.012 *``; how many seeds where they are too few to test; blank without any."""
    if line.gap is None:
        return ""
    scale, digits = (1, 4) if spec.metric_of(line.cell.panel).error else (100, 2)
    text = f"{scale * line.gap.mean:+.{digits}f}"
    text += f" ± {scale * line.gap.std:.{digits}f}" if line.gap.std is not None else ""
    if line.gap.p is None:
        return f"{text} [{line.gap.seeds} seeds]" if line.gap.seeds > 1 else f"{text} [1 seed]"
    return f"{text}, p = {line.gap.p:.2g}{' *' if line.differs else ''}"
