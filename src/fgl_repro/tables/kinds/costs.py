"""What a run costs, and how that grows: bytes, seconds, memory of the rows' runs (O-pFGL's Tables 26 to 28, Figure 4).

``options.quantities`` are some of ``QUANTITIES``, each with the metric under which the reference says, in its notes,
what the paper claims of it; a figure has no reference, and is drawn. At the end of a row stand the exponents with
which a quantity grows in the nodes n of the graph, the clients K and the features d: least squares of logarithms over
all data sets and client counts that ran.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fgl_repro.data.catalog import facts
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import Source
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell, Row, place
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.bytes import megabytes
from fgl_repro.tables.kinds.common import told
from fgl_repro.tables.results import Stat, columns_of, grid_text
from fgl_repro.tables.spec import TableSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTITIES: dict[str, Callable[[Record], float | None]] = {
    "up": lambda record: sum(megabytes(record, phase, ("up",)) for phase in ("setup", "rounds")),
    "down": lambda record: sum(megabytes(record, phase, ("down",)) for phase in ("setup", "rounds")),
    "seconds": lambda record: record.seconds["train"],
    "clients": lambda record: record.seconds["train"] - server if (server := _server(record)) is not None else None,
    "server": lambda record: _server(record),
    "memory": lambda record: record.peak_memory_mb,
}
"""Megabytes (10^6) that one client sends and receives in all; seconds of training, those of all clients one after the
other, and those of the server; peak megabytes of the process. None in records that do not tell."""
LEAST = 5
"""Places below which three exponents and a factor cannot be fitted."""

Drawn = dict[str, list[tuple[str, list[Stat | None]]]]
"""Name of each row, and its number in each place, by quantity."""


def content(spec: TableSpec, protocol: str, source: Source) -> Content:
    """A grid a quantity: rows down, places across, then exponents and claim."""
    (panel,), wanted = spec.panels, len(spec.seeds)
    rows: list[dict[str, Any]] = []
    drawn: Drawn = {}
    grids = []
    for quantity, metric in dict(spec.option("quantities")).items():
        lines = []
        for row in spec.rows:
            cells = [Cell(panel, row, *at) for at in spec.places]
            found = [measured(spec, cell, protocol, source, str(quantity)) for cell in cells]
            fitted = exponents(spec, found)
            drawn.setdefault(str(quantity), []).append((row.label, found))
            for cell, own in zip(cells, found, strict=True):
                line = common.head(spec, protocol, cell) | {"quantity": quantity}
                line |= columns_of(own, 6, "value", "std", "n_seeds") | {"wanted": wanted}
                rows.append(line | {"fitted": fitted, "claim": claim(spec, row, str(metric))})
            lines.append([row.label, *(told(own, 2, wanted) for own in found), fitted, claim(spec, row, str(metric))])
        heads = ["method", *(place(*at) for at in spec.places), "grows as", "claim"]
        grids.append(f"### {str(quantity).capitalize()}\n\n{grid_text(heads, lines)}")
    done = sum(row["n_seeds"] >= wanted for row in rows)
    drawing = (lambda figure: draw(figure, spec, drawn)) if spec.sort == "figure" else None
    return Content(rows, "\n\n".join(grids), done, len(rows), draw=drawing)


def measured(spec: TableSpec, cell: Cell, protocol: str, source: Source, quantity: str) -> Stat | None:
    """Mean and std of a quantity over a cell's runs."""
    found = [QUANTITIES[quantity](record) for record in common.recorded(spec, cell, protocol, source)]
    return common.stat([value for value in found if value is not None])


def _server(record: Record) -> float | None:
    return record.seconds.get("server")


def exponents(spec: TableSpec, found: list[Stat | None]) -> str:
    """``n^0.5 K^-1.0 d^0.0``; empty where too few places have a number above 0, or do not tell the three apart."""
    known = [(at, own.mean) for at, own in zip(spec.places, found, strict=True) if own and own.mean > 0]
    sizes = [(1.0, np.log(facts(name).full_nodes), np.log(k), np.log(facts(name).features)) for (name, k), _ in known]
    if len(known) < LEAST or np.linalg.matrix_rank(np.array(sizes)) < len(sizes[0]):
        return ""
    _, *powers = np.linalg.lstsq(np.array(sizes), np.log([value for _, value in known]), rcond=None)[0]
    return " ".join(f"{name}^{round(float(power), 1) + 0.0:.1f}" for name, power in zip("nKd", powers, strict=True))


def claim(spec: TableSpec, row: Row, metric: str) -> str:
    """What the paper's text says that a quantity consists of, its formula being lost; empty where nothing is said."""
    lines = reference.lines(spec.options["reference"]) if "reference" in spec.options else ()
    notes = [line["note"] for line in lines if line["method"] == row.name and line["metric"] == metric]
    said = notes[0].partition("prose: ")[2].partition(";")[0] if notes else ""
    return "" if said.startswith("formula lost") else said


def draw(figure: Figure, spec: TableSpec, drawn: Drawn) -> None:
    """A chart a place: rows across, a mark a quantity, on a logarithmic axis."""
    figure.set_size_inches(2.0 + 5.2 * len(spec.places), 4.6)
    line = figure.subplots(1, len(spec.places), squeeze=False)[0]
    for number, (chart, at) in enumerate(zip(line, spec.places, strict=True)):
        for series, (quantity, lines) in enumerate(drawn.items()):
            found = [(x, own[number]) for x, (_, own) in enumerate(lines)]
            points = [(x, own.mean, own.std or 0.0) for x, own in found if own is not None and own.mean > 0]
            charts.dots(chart, points, series, quantity)
        charts.tidy(chart, "", "megabytes of one client", place(*at), whole=False)
        chart.set_yscale("log")
        chart.set_xticks(range(len(spec.rows)), [row.label for row in spec.rows], rotation=60, ha="right")
    charts.legend(figure)
