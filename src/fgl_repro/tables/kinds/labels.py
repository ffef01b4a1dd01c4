"""A figure of label shares: what owners hold, what is true of the test nodes, what models predict (FedSage's Figure 4).

Predictions are those of the panel's probe at the protocol's round, means over clients and seeds. Owners and truth are
those of the first seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fgl_repro.config import Config
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RunSource
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import common
from fgl_repro.tables.printing import decimal, grid_text
from fgl_repro.tables.results import printed_round
from fgl_repro.tables.spec import TableSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Shares = dict[str, list[float]]
"""Share of each class, by what it is a share of: ``truth``, ``owner 1``, ..., a row's label."""


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid for each data set and client count: shares down, classes across."""
    rows: list[dict[str, Any]] = []
    grids, found, seeds, done, wanted = [], {}, {}, 0, 0
    for title, cells in common.columns(spec):
        shares = held(spec, cells[0], protocol)
        for cell in cells:
            records = common.recorded(spec, cell, protocol, source)
            predicted = predicted_shares(spec, cell, protocol, records)
            done, wanted = done + bool(predicted), wanted + 1
            shares |= {cell.row.label: predicted} if predicted else {}
            seeds[title, cell.row.label] = len(records)
        found[title] = shares
        classes = len(next(iter(shares.values()), []))
        body = [[name, *(f"{100 * share:.1f}" for share in line)] for name, line in shares.items()]
        grids.append(f"### {title}, percent\n\n{grid_text(['nodes', *map(str, range(classes))], body)}")
        head = common.data_head(spec, protocol, cells[0].dataset) | {"clients": cells[0].clients}
        for name, line in shares.items():
            about = head | {"of": name}
            ran = {"n_seeds": seeds.get((title, name), "")}  # owners and truth are of no run
            rows += [about | {"class": c, "share": decimal(share, 6)} | ran for c, share in enumerate(line)]
    empty = [{"paper": spec.paper, spec.sort: spec.table, "protocol": protocol}]
    drawing, shown = (lambda figure: draw(figure, found)), "predictions: mean"
    return Content(rows or empty, "\n\n".join(grids), done, wanted, draw=drawing, shown=shown)


def held(spec: TableSpec, cell: Cell, protocol: str) -> Shares:
    """Find truth and owners; nothing where the graph cannot be had."""
    config = spec.config(cell, protocol, spec.seeds[0])
    graph = common.graph_for(config)
    if graph is None:
        return {}
    return common.kept(config, graph, f"labels of {cell.panel.probe}", lambda: _held(config, cell))


def _held(config: Config, cell: Cell) -> Shares:
    world = common.world_of(config)
    assert world is not None
    probe = next(probe for probe in world.probes if probe.name == cell.panel.probe)
    truth = np.bincount(probe.graph.labels[probe.rows], minlength=world.graph.base.num_classes)
    owners = {f"owner {k}": _shares(counts) for k, counts in enumerate(world.graph.nodes_by_class, 1)}
    return {"truth": _shares(truth), **owners}


def predicted_shares(spec: TableSpec, cell: Cell, protocol: str, records: Sequence[Record]) -> list[float]:
    """Read the predicted shares of a row's runs; empty where none has run."""
    which = printed_round(spec, protocol)
    counts = [np.sum(np.array(record.metrics[cell.panel.probe][which].predicted), axis=0) for record in records]
    return _shares(np.sum(counts, axis=0)) if counts else []


def _shares(counts: np.ndarray) -> list[float]:
    shares: list[float] = (counts / max(counts.sum(), 1)).tolist()
    return shares


def draw(figure: Figure, found: dict[str, Shares]) -> None:
    """Draw charts in a line: a mark for each share, classes across."""
    figure.set_size_inches(2.6 + 4.4 * len(found), 4.6)
    line = figure.subplots(1, max(len(found), 1), squeeze=False, sharey=True)[0]
    for chart, (title, shares) in zip(line, found.items(), strict=False):
        for number, (name, values) in enumerate(shares.items()):
            shift = charts.aside(number, len(shares), charts.SHARED)
            charts.dots(chart, [(c + shift, 100 * share, None) for c, share in enumerate(values)], number, name)
        charts.tidy(chart, "class", "share of nodes (%)" if chart is line[0] else "", title)
        chart.set_xticks(range(len(next(iter(shares.values()), []))))
    charts.legend(figure)
