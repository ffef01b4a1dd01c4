"""A figure of variants beside each other: probes across, a mark with its std for every variant, a chart a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgl_repro import charts, tables
from fgl_repro.kind import accuracies
from fgl_repro.records import Source
from fgl_repro.sheet import Content
from fgl_repro.tables import Table
from fgl_repro.tablespec import Cell, TableSpec, spelled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPREAD = 0.6  # of the distance between two probes, shared by the variants


def content(spec: TableSpec, protocol: str, source: Source) -> Content:
    """The grid of accuracies and its drawing."""
    table = accuracies.filled(spec, protocol, source)
    done, wanted = accuracies.tally(table)
    rows = tables.long_rows(table)
    return Content(rows, accuracies.body(table), done, wanted, draw=lambda figure: draw(figure, table))


def draw(figure: Figure, table: Table) -> None:
    """Charts in a line."""
    spec = table.spec
    places = [(dataset, clients) for dataset in spec.datasets for clients in spec.clients]
    figure.set_size_inches(2.6 + 4.4 * len(places), 4.6)
    line = figure.subplots(1, len(places), squeeze=False, sharey=True)[0]
    for chart, (dataset, clients) in zip(line, places, strict=True):
        for number, row in enumerate(spec.rows):
            shift = SPREAD * ((number + 0.5) / len(spec.rows) - 0.5)
            points = [
                point
                for x, panel in enumerate(spec.panels)
                for point in accuracies.point(table, Cell(panel, row, dataset, clients), x + shift)
            ]
            charts.dots(chart, points, number, row.label)
        charts.tidy(chart, "", "accuracy (%)" if chart is line[0] else "", f"{spelled(dataset)}, {clients} clients")
        chart.set_xticks(range(len(spec.panels)), [panel.title for panel in spec.panels])
        chart.set_xlim(-0.5, len(spec.panels) - 0.5)
    charts.legend(figure, line[0])
