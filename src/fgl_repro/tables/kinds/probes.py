"""Accuracies of variants of a method over probes, for figures that a grid of numbers stands behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from fgl_repro.tables.figures import charts
from fgl_repro.tables.results import ROUNDS, Grid, cell_text, grid_text
from fgl_repro.tables.spec import Cell, TableSpec, spelled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLOSE = 40.0  # points; where all accuracies lie closer together, axes show their part alone

Series = Callable[[str, int], Iterable[tuple[str, list[charts.Point]]]]
"""Label and points of every series for a data set and client count."""


def body(table: Grid) -> str:
    """Rows down, panels across, a grid for each data set and client count, at the protocol's round."""
    spec, grids = table.spec, []
    heads = ["", *(panel.title for panel in spec.panels)]
    for dataset in spec.datasets:
        for clients in spec.clients:
            lines = [
                [
                    row.label,
                    *(
                        cell_text(table.results[Cell(panel, row, dataset, clients)], table.selection, spec.format)
                        for panel in spec.panels
                    ),
                ]
                for row in spec.rows
            ]
            grids.append(f"### {spelled(dataset)}, {clients} clients\n\n{grid_text(heads, lines)}")
    return f"Accuracy in percent, {ROUNDS[table.selection]}, mean and std over seeds.\n\n" + "\n\n".join(grids)


def point(table: Grid, cell: Cell, x: float) -> list[charts.Point]:
    """The cell at the protocol's round as a point of a chart (x, mean, std in percent), none where nothing ran."""
    found = table.results[cell].at(table.selection)
    return [] if found is None else [(x, 100 * found.mean, 100 * (found.std or 0.0))]


def draw(
    figure: Figure, spec: TableSpec, mark: Callable[..., None], series: Series, across: Sequence[str], xlabel: str = ""
) -> None:
    """A chart for each data set and client count, in a line.

    Args:
        mark: ``charts.dots`` or ``charts.band``.
        series: What is drawn, at x = 0, 1, ...
        across: What x = 0, 1, ... are called.
        xlabel: What they are together.
    """
    places = [(dataset, clients) for dataset in spec.datasets for clients in spec.clients]
    figure.set_size_inches(2.6 + 4.4 * len(places), 4.6)
    line = figure.subplots(1, len(places), squeeze=False, sharey=True)[0]
    drawn = {place: list(series(*place)) for place in places}
    heights = [mean for named in drawn.values() for _, points in named for _, mean, _ in points]
    whole = max(heights, default=100.0) - min(heights, default=0.0) > CLOSE
    for chart, place in zip(line, places, strict=True):
        for number, (label, points) in enumerate(drawn[place]):
            mark(chart, points, number, label)
        title = f"{spelled(place[0])}, {place[1]} clients"
        charts.tidy(chart, xlabel, "accuracy (%)" if chart is line[0] else "", title, whole=whole)
        chart.set_xticks(range(len(across)), across)
        chart.set_xlim(-0.5, len(across) - 0.5)
    charts.legend(figure)
