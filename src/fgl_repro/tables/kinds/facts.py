"""What runs tell of themselves beside the printed numbers: a fact of the record, or the accuracy (FED-PUB's Table 5).

``options.facts`` maps a metric of the reference to a fact of the record; ``accuracy`` is that of the panel's probe at
the protocol's round. Facts are those after the last round. ``options.scenario`` is what the reference calls the
partition. ``options.charts``, if there, is what a figure draws: the metrics over an override, ``axis``, called
``label``, for the rows that override what ``where`` says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import printed_pairs, reference, results
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import ACCURACY, Cell
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.common import CellLines, stat_text
from fgl_repro.tables.printed_pairs import PrintedPair
from fgl_repro.tables.printing import columns_of, decimal
from fgl_repro.tables.results import Stat
from fgl_repro.tables.spec import TableSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class InUnit:
    """The paper's number, in its unit; ``percent``: whether that is percent, and not the unit of records."""

    value: float | None
    std: float | None
    percent: bool


Found = dict[tuple[Cell, str], tuple[Stat | None, InUnit]]
"""Ours, in the printed unit, and the paper's, by cell and metric."""


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid: rows down; each metric, ours and printed, across."""
    found: Found = {}
    pairs: list[PrintedPair] = []
    metrics, wanted = dict(spec.option("facts")), len(spec.seeds)

    def line(cell: Cell) -> CellLines:
        records = common.recorded(spec, cell, protocol, source)
        selection = results.printed_round(spec, protocol)
        texts: list[object] = [cell.row.name]
        rows = []
        for metric, fact in metrics.items():
            paper = in_unit(spec, cell, metric)
            own = over_seeds(records, cell, selection, fact, 100 if paper.percent else 1)
            found[cell, metric] = own, paper
            pairs.append(PrintedPair(f"{cell.row.name}, {metric}", own, paper.value, 100 if paper.percent else 1))
            theirs = {"printed": decimal(paper.value, 3), "printed_std": decimal(paper.std, 3)}
            texts += [stat_text(own, 2, wanted), theirs["printed"]]
            row = common.head(spec, protocol, cell) | {"metric": metric}
            rows.append(row | columns_of(own, 4, "value", "std", "n_seeds") | {"wanted": wanted} | theirs)
        return texts, rows

    heads = ["", *(head for metric in metrics for head in (metric.replace("_", " "), "paper"))]
    drawn = (lambda figure: draw(figure, spec, found)) if "charts" in spec.options else None
    return replace(printed_pairs.with_verdicts(common.filled(spec, heads, line, wanted), pairs), draw=drawn)


def over_seeds(records: list[Record], cell: Cell, selection: str, fact: str, unit: float) -> Stat | None:
    """Compute mean and std of one fact in the printed unit; None where no record has it."""
    if fact == ACCURACY:
        found = [results.measured(record, cell.panel.probe, selection, ACCURACY) for record in records]
    else:
        found = [record.fact(fact) for record in records]
    return common.stat([unit * value for value in found if value is not None])


def in_unit(spec: TableSpec, cell: Cell, metric: str) -> InUnit:
    """Find the paper's number of a row."""
    scenario = spec.option("scenario") if spec.printed_file else ""
    for line in reference.lines(spec.printed_file):
        place = (line["dataset"].lower(), int(line["n_clients"]), line["scenario"], line["variant"], line["metric"])
        if place == (cell.dataset, cell.clients, scenario, cell.row.name, metric):
            std = float(line["std"]) if line["std"] else None
            return InUnit(float(line["value"]), std, line["unit"] == "percent")
    return InUnit(None, None, metric == ACCURACY)


def draw(figure: Figure, spec: TableSpec, found: Found) -> None:
    """Draw a line of charts a metric; across, every chart of the options, the values of its axis evenly spaced."""
    columns = [(title, cells, options) for title, cells in common.columns(spec) for options in spec.option("charts")]
    metrics = list(spec.option("facts"))
    figure.set_size_inches(1.2 + 3.6 * len(columns), 1.3 + 2.5 * len(metrics))
    grid = figure.subplots(len(metrics), len(columns), squeeze=False, sharey="row", sharex="col")
    for line, metric in zip(grid, metrics, strict=True):
        for chart, (title, cells, options) in zip(line, columns, strict=True):
            shown = [cell for cell in cells if options["where"].items() <= cell.row.overrides.items()]
            pairs = [found[cell, metric] for cell in shown]
            ours = [(x, own.mean, own.std) if own else charts.no_point(x) for x, (own, _) in enumerate(pairs)]
            theirs = [charts.no_point(x) if p.value is None else (x, p.value, p.std) for x, (_, p) in enumerate(pairs)]
            charts.band(chart, ours, 0, "ours")
            charts.band(chart, theirs, 1, "paper")
            unit = " (%)" if all(paper.percent for _, paper in pairs) else ""
            heading = title if metric == metrics[0] else ""
            charts.tidy(chart, str(options["label"]), metric.replace("_", " ") + unit, heading, whole=False)
            chart.set_xticks(range(len(shown)), [str(cell.row.overrides[options["axis"]]) for cell in shown])
            chart.set_xlim(-0.5, len(shown) - 0.5)
            chart.label_outer()
    figure.align_ylabels()
    charts.legend(figure)
