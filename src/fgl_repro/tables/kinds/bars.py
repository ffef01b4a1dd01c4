"""A figure of variants beside each other: probes across, a mark with its std for every variant, a chart a data set."""

from __future__ import annotations

from fgl_repro.runs.store import Source
from fgl_repro.tables import results as tables
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import probes
from fgl_repro.tables.kinds.accuracy import long_rows
from fgl_repro.tables.spec import TableSpec

SPREAD = 0.6  # of the distance between two probes, shared by the variants


def content(spec: TableSpec, protocol: str, source: Source) -> Content:
    """The grid of accuracies and its drawing, a series a variant."""
    table = tables.fill(spec, protocol, source)
    series = [(row.label, [(panel, row) for panel in spec.panels]) for row in spec.rows]
    across = [panel.title for panel in spec.panels]
    return Content(
        long_rows(table),
        probes.body(table),
        *tables.tally(table),
        draw=lambda figure: probes.draw(figure, table, charts.dots, series, across, spread=SPREAD),
    )
