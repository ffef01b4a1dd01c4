"""A figure of variants beside each other: probes across, a mark with its std for every variant, a chart a data set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fgl_repro.runs.store import Source
from fgl_repro.tables import results as tables
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import probes
from fgl_repro.tables.kinds.accuracy import long_rows
from fgl_repro.tables.results import Grid
from fgl_repro.tables.spec import Cell, TableSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPREAD = 0.6  # of the distance between two probes, shared by the variants


def content(spec: TableSpec, protocol: str, source: Source) -> Content:
    """The grid of accuracies and its drawing."""
    table = tables.fill(spec, protocol, source)
    done, wanted = tables.tally(table)
    rows = long_rows(table)
    return Content(rows, probes.body(table), done, wanted, draw=lambda figure: draw(figure, table))


def draw(figure: Figure, table: Grid) -> None:
    """A series a variant."""
    spec = table.spec

    def series(dataset: str, clients: int) -> Iterator[tuple[str, list[charts.Point]]]:
        for number, row in enumerate(spec.rows):
            shift = SPREAD * ((number + 0.5) / len(spec.rows) - 0.5)
            cells = [Cell(panel, row, dataset, clients) for panel in spec.panels]
            yield row.label, [p for x, cell in enumerate(cells) for p in probes.point(table, cell, x + shift)]

    probes.draw(figure, spec, charts.dots, series, [panel.title for panel in spec.panels])
