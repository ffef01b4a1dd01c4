"""A figure of accuracy over something swept: its values across (evenly spaced), a line a probe and row of the yaml, a
chart a data set.

``options``: ``axis``, the override of ``sweep`` that runs across, and ``label``, what it is called. Whatever else is
swept is averaged over, seed by seed; in a table that sweeps ``around`` a middle it stays there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from fgl_repro.core.errors import UserError
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import results
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell, Panel, Row
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import bars, common
from fgl_repro.tables.kinds.accuracy import long_rows
from fgl_repro.tables.results import Grid, Result, Stat
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.swept import rows_by_line, swept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TELLS_ERRORS = True

Results = dict[Cell, Result]


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill and draw the accuracies; the CSV has every cell and, where points are means of cells, the points."""
    axis, table = _axis(spec), results.fill(spec, protocol, source)
    rows, points = lines(table), table
    if spec.around:
        points = along(table)
    elif set(spec.sweep) - {axis}:
        points = averaged(table, source)
        rows += lines(points)
    drawn = rows_by_line(points.spec)
    series = [
        (_called(points.spec, panel, line, len(drawn)), [(panel, row) for row in rows])
        for panel, (line, rows) in product(points.spec.panels, drawn.items())
    ]
    longest, label = max(drawn.values(), key=len), str(spec.option("label"))
    across = [str(row.overrides[axis]) for row in longest]

    def draw(figure: Figure) -> None:
        bars.draw(figure, points, charts.band, series, across, label)

    return Content(rows, bars.body(points), *results.tally(points), draw=draw if _has_line(points) else None)


def _has_line(points: Grid) -> bool:
    """Tell whether there are two points that a line could join: one alone says nothing of what is swept."""
    known = [cell for cell, result in points.results.items() if result.best or result.last]
    return any(
        two > 1 for two in Counter((cell.panel, cell.row.line, cell.dataset, cell.clients) for cell in known).values()
    )


def _axis(spec: TableSpec) -> str:
    """Name what runs across.

    Raises:
        UserError: The table does not sweep it.
    """
    axis = str(spec.option("axis"))
    if axis not in spec.sweep:
        raise UserError(f"the table {spec.path} does not sweep {axis}, which runs across: give sweep its values.")
    return axis


def _called(spec: TableSpec, panel: Panel, line: Row, of: int) -> str:
    """Say what tells a drawn line from the others: its probe, its row, or both."""
    names = [line.label] * (of > 1) + [panel.title] * (of == 1 or len(spec.panels) > 1)
    return ", ".join(names)


def lines(table: Grid) -> list[dict[str, Any]]:
    """Write the lines of the CSV: first the values of what is swept, ``mean`` where they are averaged over."""
    rows = [cell.row for cell in table.results for _ in ("best", "last")]
    swept = [{dotted: row.overrides.get(dotted, "mean") for dotted in table.spec.sweep} for row in rows]
    return [values | line for values, line in zip(swept, long_rows(table), strict=True)]


def along(table: Grid) -> Grid:
    """Keep the rows of a table around a middle in which nothing but the axis leaves it."""
    spec, axis = table.spec, table.spec.option("axis")
    middle = {dotted: value for dotted, value in spec.around.items() if dotted != axis}
    rows = tuple(row for row in spec.rows if middle.items() <= row.overrides.items())
    kept = {cell: result for cell, result in table.results.items() if cell.row in rows}
    return replace(table, spec=replace(spec, rows=rows), results=kept)


def averaged(table: Grid, source: RunSource) -> Grid:
    """Give the table one row a value of the axis: at each seed the mean of its rows, over seeds mean and std of that.

    A seed counts where all of them have a number.
    """
    spec, axis = table.spec, table.spec.option("axis")
    alone = [replace(spec, seeds=(seed,), whole=None) for seed in spec.seeds]
    by_seed = [results.fill(one, table.protocol, source).results for one in alone]
    rows, means = [], {}
    for line, value in product(spec.lines, spec.sweep[axis]):
        ids = {row.id for row in swept(line, {**spec.sweep, axis: [value]})}
        group = tuple(row for row in spec.rows if row.id in ids)
        if not group:  # the table is narrowed
            continue
        (row,) = swept(line if len(spec.lines) > 1 else replace(line, name=""), {axis: [value]})
        rows.append(row)
        for _, cells in common.columns(replace(spec, rows=group)):
            means[replace(cells[0], row=row)] = mean_of(table, cells, by_seed)
    return replace(table, spec=replace(spec, rows=tuple(rows)), results=means)


def mean_of(table: Grid, cells: Sequence[Cell], by_seed: Sequence[Results]) -> Result:
    """Make one result of several cells."""

    def over_seeds(selection: str) -> Stat | None:
        found = [[own[cell].at(selection) for cell in cells] for own in by_seed]
        known = [[stat.mean for stat in stats if stat is not None] for stats in found]
        return results.stat([sum(v) / len(v) if len(v) == len(cells) else None for v in known], table.ddof)

    parts = [table.results[cell] for cell in cells]
    states = {part.status for part in parts}
    status = states.pop() if len(states) == 1 else "partial"
    keys = tuple(key for part in parts for key in part.keys)
    return Result(over_seeds("best"), over_seeds("last"), len(by_seed), status, keys=keys)
