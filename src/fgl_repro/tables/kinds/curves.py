"""A figure of accuracy (or of an error) over rounds: a chart a probe, a line a method. Of test data, never chosen by.

``options``: ``seconds``, whether it is also told how long training took; ``curve``, a number that the method traces,
called ``label``, where that is drawn instead, as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fgl_repro.data.catalog import rebuilds
from fgl_repro.fl.metrics import Metric
from fgl_repro.runs.record import Record, on_cpus
from fgl_repro.runs.store import RunSource
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell, Panel, brief_place, place
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.common import stat_text
from fgl_repro.tables.printing import columns_of, decimal, grid_text
from fgl_repro.tables.results import Stat
from fgl_repro.tables.spec import TableSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TELLS_ERRORS = True
CURVES, TRACED = "all", "validation"


@dataclass(frozen=True)
class Curve:
    """Mean and std over seeds, a point a round; ``bare``: why each run without the curve lacks it."""

    points: list[Stat]
    bare: list[str]


def over_seeds(curves: Sequence[Sequence[float | None]]) -> list[Stat]:
    """Make a point for every round that all curves have; none where a probe has no rows."""
    rounds = [[v for v in values if v is not None and not math.isnan(v)] for values in zip(*curves, strict=False)]
    return [stat for values in rounds if (stat := common.stat(values)) is not None]


def quantity(spec: TableSpec, panel: Panel) -> Metric:
    """Say what is drawn: a loss that is traced is told as an error is."""
    name = spec.options.get("curve")
    return spec.metric_of(panel) if name is None else Metric(str(name), str(spec.option("label")), error=True)


def curve(spec: TableSpec, cell: Cell, protocol: str, source: RunSource) -> Curve:
    """Read the curve of one method on one probe."""
    records = common.recorded(spec, cell, protocol, source)
    name = str(spec.options.get("curve", cell.panel.probe))
    found = [_kept(record, name, source) for record in records]
    full = [values for values in found if values]
    bare = [record for record, values in zip(records, found, strict=True) if not values]
    return Curve(over_seeds(full), [_reason(spec, record, name, source) for record in bare])


def _kept(record: Record, name: str, source: RunSource) -> list[float | None]:
    """Read a run's curve. Where the rows of its one probe select the round, the curve that selects is the probe's."""
    curves = source.curves(record.key)
    return curves.get("validation" if name not in curves and _selects(record, name) else name, [])


def _selects(record: Record, name: str) -> bool:
    return record.tested and set(record.metrics) == {"validation", name}


def _reason(spec: TableSpec, record: Record, name: str, source: RunSource) -> str:
    """Tell why a run lacks a curve; what methods trace, and what selects the round, every run keeps."""
    if "curve" in spec.options:
        return common.UNTRACED if source.curves(record.key) else common.UNPUBLISHED
    return common.UNPUBLISHED if _selects(record, name) and spec.curves != "all" else common.UNASKED


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Write a CSV line a round; in text, where each line starts, where it is best, and where it ends."""
    found = {cell: curve(spec, cell, protocol, source) for cell in spec.cells()}
    rows: list[dict[str, Any]] = []
    for cell, line in found.items():
        head = common.head(spec, protocol, cell) | {"panel": cell.panel.name, "probe": cell.panel.probe}
        for number, value in enumerate(line.points, 1):
            rows.append(head | {"round": number} | columns_of(value, 6, "mean", "std", "n_seeds"))
        if not line.points:
            rows.append(head | {"round": ""} | columns_of(None, 6, "mean", "std", "n_seeds"))
    bare = [why for cell, line in found.items() if cell.panel == spec.panels[0] for why in line.bare]
    parts = [_body(spec, found), *common.without_curves(spec, bare)]
    if spec.options.get("seconds"):
        parts.append(_seconds(spec, protocol, source))
    wanted = len(spec.seeds)
    done = sum(bool(line.points) and line.points[-1].n == wanted for line in found.values())
    return Content(rows, "\n\n".join(parts), done, len(found), draw=lambda figure: draw(figure, spec, found))


def _body(spec: TableSpec, found: dict[Cell, Curve]) -> str:
    body = []
    for cell, line in found.items():
        means = [value.mean for value in line.points]
        kind = quantity(spec, cell.panel)
        top = max(range(len(means)), key=lambda at: kind.merit(means[at]), default=0)
        shown = [common.scaled(line.points[at], kind) if means else None for at in (0, top, -1)]
        first, highest, last = (stat_text(value, 4 if kind.error else 2, len(spec.seeds)) for value in shown)
        where = brief_place(cell.dataset, cell.clients)
        body.append([cell.panel.title, where, cell.row.label, first, highest, top + 1 if means else "", last])
    kind = quantity(spec, spec.panels[0])
    best, what = ("lowest", kind.title.capitalize()) if kind.error else ("highest", "Accuracy in percent")
    heads = ["probe", "column", "method", "round 1", best, "in round", "last round"]
    parts = [f"{what}, mean and std over seeds.", rebuilds(spec.datasets), grid_text(heads, body, numbers_from=3)]
    return "\n\n".join(filter(None, parts))


def _seconds(spec: TableSpec, protocol: str, source: RunSource) -> str:
    """Tell what training took of CPUs, one-off phases included; that depends on the machine and what else ran on it."""
    body = []
    for cell in (cell for cell in spec.cells() if cell.panel == spec.panels[0]):
        records = common.recorded(spec, cell, protocol, source)
        found = common.stat([record.seconds["train"] for record in on_cpus(records)])
        rounds = spec.config(cell, protocol, spec.seeds[0]).protocol.rounds
        each = None if found is None else 1000 * found.mean / rounds
        where = brief_place(cell.dataset, cell.clients)
        body.append([where, cell.row.label, stat_text(found, 1, len(spec.seeds)), decimal(each, 0)])
    heads = ["column", "method", "seconds of training", "ms a round"]
    note = "Run time; that of older records includes the accuracies of every round."
    return f"{note}\n\n" + grid_text(heads, body, numbers_from=2)


def draw(figure: Figure, spec: TableSpec, found: dict[Cell, Curve]) -> None:
    """Draw a line of charts for each data set and client count, probes across."""
    places = spec.places
    figure.set_size_inches(max(0.8 + 3.2 * len(spec.panels), 7.2), 0.9 + 3.1 * len(places))
    grid = figure.subplots(len(places), len(spec.panels), squeeze=False, sharey=True, sharex=True)
    draw_lines(grid.tolist(), spec, found)
    charts.legend(figure)


def draw_lines(grid: Sequence[Sequence[Axes]], spec: TableSpec, found: dict[Cell, Curve]) -> None:
    """Draw the lines into a grid of charts, data sets and client counts down, probes across."""
    drawn = [(quantity(spec, cell.panel), line) for cell, line in found.items()]
    heights = [kind.scale * value.mean for kind, line in drawn for value in line.points]
    whole = not any(kind.error for kind, _ in drawn) and charts.far_apart(heights)
    for line, (dataset, clients) in zip(grid, spec.places, strict=True):
        for chart, panel in zip(line, spec.panels, strict=True):
            kind = quantity(spec, panel)
            for number, row in enumerate(spec.rows):
                values = found[Cell(panel, row, dataset, clients)].points
                shown = [common.scaled(value, kind) for value in values]
                points = [(n, value.mean, value.std) for n, value in enumerate(shown, 1)]
                charts.band(chart, points, number, row.label, marks=False)
            named = kind.title if "curve" in spec.options else charts.axis(kind)
            left = f"{place(dataset, clients)}\n{named}" if chart is line[0] else ""
            charts.tidy(chart, "round", left, panel.title, whole=whole)
