"""Accuracies of variants of a method over probes, for figures that a grid of numbers stands behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from fgl_repro.runs.store import Source
from fgl_repro.tables import results as tables
from fgl_repro.tables.figures import charts
from fgl_repro.tables.results import SAID, Table, grid_text, shown
from fgl_repro.tables.spec import Cell, TableSpec, spelled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Series = Callable[[str, int], Iterable[tuple[str, list[charts.Point]]]]
"""Label and points of every series for a data set and client count."""


def filled(spec: TableSpec, protocol: str, source: Source) -> Table:
    """The grid, as for a table."""
    return tables.fill(spec, protocol, source)


def body(table: Table) -> str:
    """Rows down, panels across, a grid for each data set and client count, at the protocol's round."""
    spec, grids = table.spec, []
    heads = ["", *(panel.title for panel in spec.panels)]
    for dataset in spec.datasets:
        for clients in spec.clients:
            lines = [
                [
                    row.label,
                    *(
                        shown(table.results[Cell(panel, row, dataset, clients)], table.selection, spec.format)
                        for panel in spec.panels
                    ),
                ]
                for row in spec.rows
            ]
            grids.append(f"### {spelled(dataset)}, {clients} clients\n\n{grid_text(heads, lines)}")
    return f"Accuracy in percent, {SAID[table.selection]}, mean and std over seeds.\n\n" + "\n\n".join(grids)


def tally(table: Table) -> tuple[int, int]:
    """Complete cells, and all."""
    return sum(found.status == "complete" for found in table.results.values()), len(table.results)


def point(table: Table, cell: Cell, x: float) -> list[charts.Point]:
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
    for chart, place in zip(line, places, strict=True):
        for number, (label, points) in enumerate(series(*place)):
            mark(chart, points, number, label)
        title = f"{spelled(place[0])}, {place[1]} clients"
        charts.tidy(chart, xlabel, "accuracy (%)" if chart is line[0] else "", title)
        chart.set_xticks(range(len(across)), across)
        chart.set_xlim(-0.5, len(across) - 0.5)
    charts.legend(figure, line[0])
