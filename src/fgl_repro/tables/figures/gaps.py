"""How far a grid of accuracies is from print: a field for each method and column, coloured and numbered in points,
of errors in percent of the printed number."""

from __future__ import annotations

from itertools import product
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from fgl_repro.tables import agreement, reference
from fgl_repro.tables.entries import Cell, Panel, spelled
from fgl_repro.tables.results import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDEST = 20.0  # points at which colours end
LETTERS = 15.0  # that an inch holds below the charts


def draw(figure: Figure, table: Grid) -> None:
    """Draw a chart a panel: methods down, data sets and client counts across, ours minus the printed number."""
    spec, columns = table.spec, len(table.spec.drawn)
    height = 0.24 * len(spec.rows) + 1.1
    figure.set_size_inches(max(0.52 * columns + 3.2, 6.4), height * len(spec.panels) + 0.7)
    grid = figure.subplots(len(spec.panels), 1, squeeze=False)
    for (chart,), panel in zip(grid, spec.panels, strict=True):
        _chart(chart, table, panel)
    above = "red: above" + ", of errors less is better" * spec.has_errors
    legend = (
        f"ours minus the paper, {spec.unit}, {table.round_name(table.selection)} ({above}); "
        "columns: data set, number of clients; blank: not run or not printed; in brackets: taken for a misprint"
    )
    figure.supxlabel(fill(legend, int(LETTERS * figure.get_size_inches()[0])), fontsize=8)


def _chart(chart: Axes, table: Grid, panel: Panel) -> None:
    spec = table.spec
    places = spec.drawn
    shades = np.full((len(spec.rows), len(places)), np.nan)
    for (y, row), (x, at) in product(enumerate(spec.rows), enumerate(places)):
        cell = Cell(panel, row, *at)
        gap = agreement.difference(reference.of(cell), table.results[cell].at(table.selection))
        if gap.points is None:
            continue
        suspect = gap.old_rule == "suspect"
        if not suspect:
            shades[y, x] = gap.points
        color = "white" if abs(gap.points) > 0.6 * WIDEST and not suspect else "black"
        rounded = round(gap.points, 0 if suspect else 1) + 0.0  # which turns -0.0 into 0.0
        text = f"({rounded:+.0f})" if suspect else f"{rounded:+.1f}"
        chart.text(x, y, text, ha="center", va="center", fontsize=6.5, color=color)
    chart.imshow(shades, cmap="RdBu_r", vmin=-WIDEST, vmax=WIDEST, aspect="auto")
    chart.set_xlim(-0.5, len(places) - 0.5)
    chart.set_ylim(len(spec.rows) - 0.5, -0.5)
    chart.set_xticks(range(len(places)), [f"{spelled(d)}\n{k}" if k == spec.clients[0] else str(k) for d, k in places])
    chart.set_yticks(range(len(spec.rows)), [row.label for row in spec.rows])
    chart.tick_params(length=0, labelsize=7.5, labeltop=True, labelbottom=False)
    for x in range(len(spec.clients), len(places), len(spec.clients)):
        chart.axvline(x - 0.5, color="0.4", lw=0.8)
    chart.set_title(f"{panel.name}  {panel.title}", fontsize=9.5, loc="left")
