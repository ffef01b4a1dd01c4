"""What runs cost: bytes, seconds, memory, a mark a row and quantity (O-pFGL's Figure 4).

``options.quantities`` are some of ``QUANTITIES``. How they grow is what :mod:`fgl_repro.tables.kinds.growth` tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fgl_repro.runs.record import Record, on_cpus
from fgl_repro.runs.store import RunSource
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell, place
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.bytes import megabytes
from fgl_repro.tables.kinds.common import stat_text
from fgl_repro.tables.printing import columns_of, grid_text
from fgl_repro.tables.results import Stat
from fgl_repro.tables.spec import TableSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTITIES: dict[str, Callable[[Record], float | None]] = {
    "up": lambda record: sum(megabytes(record, phase, ("up",)) for phase in ("setup", "rounds")),
    "down": lambda record: sum(megabytes(record, phase, ("down",)) for phase in ("setup", "rounds")),
    "seconds": lambda record: record.seconds["train"],
    "clients": lambda record: (
        record.seconds["train"] - server if (server := record.seconds.get("server")) is not None else None
    ),
    "server": lambda record: record.seconds.get("server"),
    "memory": lambda record: record.peak_memory_mb - rest if (rest := record.resting_memory_mb) is not None else None,
}
"""Megabytes (10^6) that one client sends and receives in all; seconds of training, those of all clients one after the
other, and those of the server; megabytes at most, beyond those taken before. None in records that do not tell."""

UNITS = {
    **dict.fromkeys(("up", "down"), "megabytes of a client"),
    **dict.fromkeys(("seconds", "clients", "server"), "seconds"),
    "memory": "megabytes",
}
"""What each quantity is told in."""

ByQuantity = dict[str, list[tuple[str, list[Stat | None]]]]
"""Name of each row, and its number in each place, by quantity."""


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid a quantity: rows down, places across."""
    panel, wanted = common.only_panel(spec), len(spec.seeds)
    rows: list[dict[str, Any]] = []
    drawn: ByQuantity = {}
    grids = []
    for quantity in map(str, spec.option("quantities")):
        lines = []
        for row in spec.rows:
            cells = [Cell(panel, row, *at) for at in spec.places]
            found = [measured(spec, cell, protocol, source, quantity) for cell in cells]
            drawn.setdefault(quantity, []).append((row.label, found))
            for cell, own in zip(cells, found, strict=True):
                line = common.head(spec, protocol, cell) | {"quantity": quantity}
                rows.append(line | columns_of(own, 6, "value", "std", "n_seeds") | {"wanted": wanted})
            lines.append([row.label, *(stat_text(own, 2, wanted) for own in found)])
        heads = ["method", *(place(*at) for at in spec.places)]
        grids.append(f"### {quantity.capitalize()}\n\n{grid_text(heads, lines)}")
    done = common.count_done(rows, wanted)
    return Content(rows, "\n\n".join(grids), done, len(rows), draw=lambda figure: draw(figure, spec, drawn))


def measured(spec: TableSpec, cell: Cell, protocol: str, source: RunSource, quantity: str) -> Stat | None:
    """Compute mean and std of a quantity over a cell's runs on CPUs."""
    found = [QUANTITIES[quantity](record) for record in on_cpus(common.recorded(spec, cell, protocol, source))]
    return common.stat([value for value in found if value is not None])


def draw(figure: Figure, spec: TableSpec, drawn: ByQuantity) -> None:
    """Draw a chart a place: rows across, a mark a quantity, on a logarithmic axis.

    What is 0 has no place there; it is said beside the row's name.
    """
    figure.set_size_inches(2.0 + 5.2 * len(spec.places), 4.6)
    line = figure.subplots(1, len(spec.places), squeeze=False)[0]
    units = " or ".join(dict.fromkeys(UNITS[quantity] for quantity in drawn))
    for number, (chart, at) in enumerate(zip(line, spec.places, strict=True)):
        named = [row.label for row in spec.rows]
        for series, (quantity, lines) in enumerate(drawn.items()):
            found = [(x, own[number]) for x, (_, own) in enumerate(lines)]
            points = [(x, own.mean, own.std) for x, own in found if own is not None and own.mean > 0]
            charts.dots(chart, points, series, quantity)
            for x in (x for x, own in found if own is not None and own.mean == 0):
                named[x] += f"{',' if named[x] != spec.rows[x].label else ':'} {quantity} 0"
        charts.tidy(chart, "", units, place(*at), whole=False)
        chart.set_yscale("log")
        chart.set_xticks(range(len(named)), named, rotation=60, ha="right")
        chart.set_xlim(-0.5, len(named) - 0.5)
    charts.legend(figure)
