"""A figure of accuracy over something swept: its values across (evenly spaced), a line a probe, a chart a data set.

``options``: ``axis``, the override of ``sweep`` that runs across, and ``label``, what it is called. Whatever else is
swept is averaged over, seed by seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fgl_repro.runs.store import Source
from fgl_repro.tables import results as tables
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import bars, common
from fgl_repro.tables.kinds.accuracy import long_rows
from fgl_repro.tables.results import Grid, Result, Stat
from fgl_repro.tables.spec import Cell, Row, TableSpec, swept

Results = dict[Cell, Result]


def content(spec: TableSpec, protocol: str, source: Source) -> Content:
    """The accuracies and their drawing; the CSV has every cell and, where points are means of cells, the points."""
    axis, table = spec.option("axis"), tables.fill(spec, protocol, source)
    rows, points = lines(table), table
    if set(spec.sweep) - {axis}:
        points = averaged(table, source)
        rows += lines(points)
    swept_rows = points.spec.rows
    series = [(panel.title, [(panel, row) for row in swept_rows]) for panel in spec.panels]
    across, label = [str(row.overrides[axis]) for row in swept_rows], str(spec.option("label"))
    return Content(
        rows,
        bars.body(points),
        *tables.tally(points),
        draw=lambda figure: bars.draw(figure, points, charts.band, series, across, label),
    )


def lines(table: Grid) -> list[dict[str, Any]]:
    """Lines of the CSV: first the values of what is swept, ``mean`` where they are averaged over."""
    rows = [cell.row for cell in table.results for _ in ("best", "last")]
    said = [{dotted: row.overrides.get(dotted, "mean") for dotted in table.spec.sweep} for row in rows]
    return [values | line for values, line in zip(said, long_rows(table), strict=True)]


def averaged(table: Grid, source: Source) -> Grid:
    """The table with one row a value of the axis: at each seed the mean of its rows, over seeds mean and std of that.

    A seed counts where all of them have a number.
    """
    spec, axis = table.spec, table.spec.option("axis")
    by_seed = [tables.fill(replace(spec, seeds=(seed,)), table.protocol, source).results for seed in spec.seeds]
    groups: dict[Any, list[Row]] = {}
    for row in spec.rows:
        groups.setdefault(row.overrides[axis], []).append(row)
    rows, results = [], {}
    for value, group in groups.items():
        shared = {dotted: said for dotted, said in group[0].overrides.items() if dotted not in spec.sweep}
        (row,) = swept(Row("", group[0].method, shared), {axis: [value]})
        rows.append(row)
        for _, cells in common.columns(replace(spec, rows=tuple(group))):
            results[replace(cells[0], row=row)] = mean_of(table, cells, by_seed)
    return replace(table, spec=replace(spec, rows=tuple(rows)), results=results)


def mean_of(table: Grid, cells: Sequence[Cell], by_seed: Sequence[Results]) -> Result:
    """One result for several cells."""

    def over_seeds(selection: str) -> Stat | None:
        found = [[results[cell].at(selection) for cell in cells] for results in by_seed]
        known = [[stat.mean for stat in stats if stat is not None] for stats in found]
        return tables.stat([sum(v) / len(v) if len(v) == len(cells) else None for v in known], table.ddof)

    parts = [table.results[cell] for cell in cells]
    states = {part.status for part in parts}
    status = states.pop() if len(states) == 1 else "partial"
    keys = tuple(key for part in parts for key in part.keys)
    return Result(over_seeds("best"), over_seeds("last"), len(by_seed), status, "", keys)
