"""How costs grow: bytes, seconds, memory of runs that leave a middle in one thing at a time (O-pFGL's Tables 26 to 28).

The table sweeps a few overrides ``around`` a middle. ``options``: ``letters``, what each is called; ``quantities``,
some of ``costs.QUANTITIES``, each with the metric under which the reference says, in its notes, what the paper claims
of it; ``reference``, that CSV. An exponent is the slope of a straight line through logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from fgl_repro.runs.store import RunSource
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Row
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import common, costs
from fgl_repro.tables.printing import columns_of, decimal, grid_text
from fgl_repro.tables.results import Stat
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.swept import line_of, rows_by_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 3
"""Points below which a slope has no error."""


@dataclass(frozen=True)
class Growth:
    """A quantity of one row by one axis.

    Attributes:
        points: Value of the axis, and the quantity's mean and std over seeds there.
        exponent, error: What :func:`slope` says of the points.
    """

    points: tuple[tuple[float, Stat], ...]
    exponent: float | None = None
    error: float | None = None

    @property
    def exponent_text(self) -> str:
        """``1.02 ± 0.03``."""
        return "" if self.exponent is None else f"{self.exponent + 0.0:.2f} ± {self.error:.2f}"

    def columns(self, letter: str) -> dict[str, str]:
        """Write exponent and error for the CSV, blank where there are none."""
        return {
            f"exponent_{letter}": decimal(self.exponent, 4),
            f"exponent_{letter}_error": decimal(self.error, 4),
        }


Grown = dict[tuple[str, str, str], Growth]
"""By quantity, id of the line, and axis."""


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid a quantity: rows down; what it is in the middle, then the exponents and what the paper claims."""
    quantities = {str(name): str(metric) for name, metric in dict(spec.option("quantities")).items()}
    letters = {str(axis): str(letter) for axis, letter in dict(spec.option("letters")).items()}
    found = {
        (cell.row, quantity): costs.measured(spec, cell, protocol, source, quantity)
        for cell in spec.cells()
        for quantity in quantities
    }
    grown = {
        (quantity, line.id, axis): growth(spec, [(row, found[row, quantity]) for row in rows], axis)
        for quantity in quantities
        for line, rows in rows_by_line(spec).items()
        for axis in letters
    }
    rows: list[dict[str, Any]] = []
    for cell, quantity in product(spec.cells(), quantities):
        line, own = line_of(spec, cell.row), found[cell.row, quantity]
        values = {letter: cell.row.overrides[axis] for axis, letter in letters.items()}
        about = {"name": line.name, "quantity": quantity} | values | columns_of(own, 6, "value", "std", "n_seeds")
        fitted = {
            name: text
            for axis, letter in letters.items()
            for name, text in grown[quantity, line.id, axis].columns(letter).items()
        }
        claimed = {"wanted": len(spec.seeds), "claim": claim(spec, line, quantities[quantity])}
        rows.append(common.head(spec, protocol, cell) | about | fitted | claimed)
    grids = [_grid(spec, quantity, metric, letters, grown) for quantity, metric in quantities.items()]
    done = common.count_done(rows, len(spec.seeds))
    return Content(
        rows,
        "\n\n".join(grids),
        done,
        len(rows),
        draw=lambda figure: draw(figure, spec, list(quantities), letters, grown),
    )


def growth(spec: TableSpec, found: Sequence[tuple[Row, Stat | None]], axis: str) -> Growth:
    """Fit the growth of a quantity along one axis, where all others stand in the middle."""
    others = [name for name in spec.sweep if name != axis]
    own = [(row, s) for row, s in found if all(row.overrides[name] == spec.around[name] for name in others)]
    points = tuple(sorted((float(row.overrides[axis]), s) for row, s in own if s is not None))
    return Growth(points, *slope([(x, s.mean) for x, s in points]))


def slope(points: Sequence[tuple[float, float]]) -> tuple[float | None, float | None]:
    """Fit log y to log x by least squares: the slope and its standard error.

    Both are None with fewer than three points, and where a y is not above 0, which has no logarithm.
    """
    known = [(math.log(x), math.log(y)) for x, y in points if y > 0]
    if len(known) < LEAST or len(known) < len(points):
        return None, None
    x, y = (np.array(values) for values in zip(*known, strict=True))
    away = x - x.mean()
    power = float(away @ y / (away @ away))
    rest = y - y.mean() - power * away
    return power, math.sqrt(float(rest @ rest) / (len(known) - 2) / float(away @ away))


def claim(spec: TableSpec, row: Row, metric: str) -> str:
    """Quote the paper's text on what a quantity consists of, its formula being lost; empty where nothing is said."""
    lines = reference.lines(spec.printed_file)
    notes = [line["note"] for line in lines if line["method"] == row.name and line["metric"] == metric]
    quote = notes[0].partition("prose: ")[2].partition(";")[0] if notes else ""
    return "" if quote.startswith("formula lost") else quote


def _grid(spec: TableSpec, quantity: str, metric: str, letters: dict[str, str], grown: Grown) -> str:
    middle = ", ".join(f"{letter} = {spec.around[axis]}" for axis, letter in letters.items())
    lines = []
    for line in rows_by_line(spec):
        by_axis = [grown[quantity, line.id, axis] for axis in letters]
        first = next(iter(letters))
        at = dict(by_axis[0].points).get(float(spec.around[first]))
        lines.append([line.label, common.stat_text(at, 2, len(spec.seeds)), *(own.exponent_text for own in by_axis)])
        lines[-1].append(claim(spec, line, metric))
    heads = ["method", f"at {middle}", *(f"{letter}^" for letter in letters.values()), "claim"]
    return f"### {quantity.capitalize()}, {costs.UNITS[quantity]}\n\n{grid_text(heads, lines)}"


def draw(figure: Figure, spec: TableSpec, quantities: list[str], letters: dict[str, str], grown: Grown) -> None:
    """Draw a row of charts a quantity, a chart an axis, a line a method; both axes are logarithmic."""
    figure.set_size_inches(2.6 + 3.6 * len(letters), 1.0 + 3.4 * len(quantities))
    every = figure.subplots(len(quantities), len(letters), squeeze=False, sharey="row")
    for charts_of_one, quantity in zip(every, quantities, strict=True):
        for chart, (axis, letter) in zip(charts_of_one, letters.items(), strict=True):
            for number, line in enumerate(rows_by_line(spec)):
                found = dict(grown[quantity, line.id, axis].points)
                if all(s.mean > 0 for s in found.values()):  # what is 0 somewhere has no place on a logarithmic axis
                    every_x = [(x, found.get(x)) for x in sorted(map(float, spec.sweep[axis]))]
                    points = [(x, s.mean, s.std) if s else charts.no_point(x) for x, s in every_x]
                    charts.band(chart, points, number, line.label)
            unit = f"{quantity}, {costs.UNITS[quantity]}" if chart is charts_of_one[0] else ""
            charts.tidy(chart, f"{letter}, {axis.rpartition('.')[2]}", unit, "", whole=False)
            chart.set_xscale("log")
            chart.set_yscale("log")
            chart.set_xticks([float(v) for v in spec.sweep[axis]], [str(v) for v in spec.sweep[axis]], minor=False)
            chart.minorticks_off()
    charts.legend(figure)
