"""A figure of variants beside each other: probes across, a mark with its std for every variant, a chart a data set."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING

from fgl_repro.data.catalog import rebuilds
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import results
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell, Panel, Row, place
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import accuracy, common
from fgl_repro.tables.printing import grid_text
from fgl_repro.tables.results import Grid
from fgl_repro.tables.spec import TableSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TELLS_ERRORS = True

Series = tuple[str, list[tuple[Panel, Row]]]
"""A label, and what stands at x = 0, 1, ..."""


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill the grid of accuracies and draw it, a series a variant."""
    table = results.fill(spec, protocol, source)
    series = [(row.label, [(panel, row) for panel in spec.panels]) for row in spec.rows]
    across = [panel.title for panel in spec.panels]
    return Content(
        accuracy.long_rows(table),
        body(table),
        *results.tally(table),
        draw=lambda figure: draw(figure, table, charts.dots, series, across, spread=charts.SHARED),
    )


def body(table: Grid) -> str:
    """Write a grid for each data set and client count, rows down, panels across, at the protocol's round."""
    heads = ["", *(panel.title for panel in table.spec.panels)]
    measured = table.spec.measure[:1].upper() + table.spec.measure[1:]  # abbreviations keep their capitals
    parts = [f"{measured}, {table.round_name(table.selection)}, mean and std over seeds."]
    parts += filter(None, [rebuilds(table.spec.datasets)])
    for at in table.spec.places:
        lines = accuracy.lines(table, [(panel, *at) for panel in table.spec.panels], table.selection)
        parts.append(f"### {place(*at)}\n\n{grid_text(heads, lines)}")
    return "\n\n".join(parts)


def draw(
    figure: Figure,
    table: Grid,
    mark: Callable[..., None],
    series: Sequence[Series],
    across: Sequence[str],
    xlabel: str = "",
    spread: float = 0.0,
) -> None:
    """Draw a chart for each data set and client count, in a line.

    Mean and std are in percent, or of errors as they are; nothing is drawn where nothing ran.

    Args:
        mark: ``charts.dots`` or ``charts.band``.
        across: What x = 0, 1, ... are called.
        xlabel: What they are together.
        spread: Part of the distance between two x which the series share.
    """
    places = table.spec.drawn
    figure.set_size_inches(2.6 + 4.4 * len(places), 4.6)
    row = figure.subplots(1, len(places), squeeze=False, sharey=True)[0]
    drawn: dict[tuple[tuple[str, int], int], list[charts.Point]] = {}
    kind = table.spec.metric_of(series[0][1][0][0])
    named = {table.spec.metric_of(panel).title for _, line in series for panel, _ in line}
    for at, (number, (_, line)) in product(places, enumerate(series)):
        shift = charts.aside(number, len(series), spread)
        for x, which in enumerate(line):
            found = table.results[Cell(*which, *at)].at(table.selection)
            told = None if found is None else common.scaled(found, kind)
            point = charts.no_point(x + shift) if told is None else (x + shift, told.mean, told.std)
            drawn.setdefault((at, number), []).append(point)
    heights = [mean for points in drawn.values() for _, mean, _ in points if not math.isnan(mean)]
    whole = not kind.error and charts.far_apart(heights)
    ylabel = (charts.axis(kind) if len(named) == 1 else "percent") + table.dagger(table.selection)
    for chart, at in zip(row, places, strict=True):
        for number, (label, _) in enumerate(series):
            mark(chart, drawn[at, number], number, label)
        charts.tidy(chart, xlabel, ylabel if chart is row[0] else "", place(*at), whole=whole)
        chart.set_xticks(range(len(across)), across)
        chart.set_xlim(-0.5, len(across) - 0.5)
    if len(series) > 1:  # of those that are asked for: where one of several has run, it has to be said which
        charts.legend(figure)
