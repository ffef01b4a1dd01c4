"""A figure of accuracy over a hyper-parameter: its values across (evenly spaced), a line a probe, a chart a data set.

``options``: ``axis``, the dotted override in which rows differ, and ``label``, what it is called.
"""

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


def content(spec: TableSpec, protocol: str, source: Source) -> Content:
    """The grid of accuracies, with the hyper-parameter's value in the CSV, and its drawing."""
    table = accuracies.filled(spec, protocol, source)
    done, wanted = accuracies.tally(table)
    axis = spec.options["axis"]
    values = [cell.row.overrides[axis] for cell in table.results for _ in ("best", "last")]
    rows = [{axis: value} | row for value, row in zip(values, tables.long_rows(table), strict=True)]
    return Content(rows, accuracies.body(table), done, wanted, draw=lambda figure: draw(figure, table))


def draw(figure: Figure, table: Table) -> None:
    """Charts in a line."""
    spec = table.spec
    places = [(dataset, clients) for dataset in spec.datasets for clients in spec.clients]
    figure.set_size_inches(2.6 + 4.2 * len(places), 4.6)
    line = figure.subplots(1, len(places), squeeze=False, sharey=True)[0]
    for chart, (dataset, clients) in zip(line, places, strict=True):
        for number, panel in enumerate(spec.panels):
            points = [
                point
                for x, row in enumerate(spec.rows)
                for point in accuracies.point(table, Cell(panel, row, dataset, clients), x)
            ]
            charts.band(chart, points, number, panel.title)
        charts.tidy(
            chart,
            str(spec.options["label"]),
            "accuracy (%)" if chart is line[0] else "",
            f"{spelled(dataset)}, {clients} clients",
        )
        chart.set_xticks(range(len(spec.rows)), [str(row.overrides[spec.options["axis"]]) for row in spec.rows])
    charts.legend(figure, line[0])
