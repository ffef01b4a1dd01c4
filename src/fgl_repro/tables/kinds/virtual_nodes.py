"""How alike virtual nodes are: a number that the method traces, over rounds, and the cosine of every two of them.

Runs that keep all curves record the cosines, after the last round (FedVN's Figures 4 and 5). ``options`` are those of
``curves``, which draws what runs without cosines have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from fgl_repro.runs.store import RunSource
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import common, curves
from fgl_repro.tables.kinds.common import stat_text
from fgl_repro.tables.printing import csv_text, grid_text
from fgl_repro.tables.spec import TableSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TELLS_ERRORS = True
CURVES = "all"
MOST_NUMBERED = 20
"""Up to how many virtual nodes a heat map numbers."""


@dataclass(frozen=True)
class Square:
    """The cosines of every two virtual nodes of one run, ``[M, M]``."""

    seed: int
    cosines: list[list[float]]

    @property
    def pairs(self) -> dict[tuple[int, int], float]:
        """The cosine of every two, each pair once."""
        return {(i, j): self.cosines[i][j] for i, j in combinations(range(len(self.cosines)), 2)}


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Add to the curves, where runs tell of them, the cosines: in text over all pairs, one by one in a CSV."""
    common.only_column(spec)
    made = curves.content(spec, protocol, source)
    found: dict[Cell, list[Square]] = {}
    bare = 0
    for cell in spec.cells():
        records = common.recorded(spec, cell, protocol, source)
        told = [(int(record.config["seed"]), record.fact("cosines")) for record in records]
        found[cell] = [Square(seed, square) for seed, square in told if square is not None]
        bare += len(told) - len(found[cell])
    parts = [made.body]
    if bare:
        again = common.run_command(spec)
        parts.append(f"{bare} runs do not tell of every two virtual nodes: `{again}` does them again.")
    if not any(found.values()):
        return replace(made, body="\n\n".join(parts))
    rows = [
        common.head(spec, protocol, cell)
        | {"seed": square.seed, "virtual_node": i, "other_virtual_node": j, "cosine": f"{value:.6f}"}
        for cell, squares in found.items()
        for square in squares
        for (i, j), value in square.pairs.items()
    ]
    parts.insert(1, _body(spec, found))
    lines = {cell: curves.curve(spec, cell, protocol, source) for cell in spec.cells()}
    return replace(
        made,
        body="\n\n".join(parts),
        files={f"{spec.stem}_pairs.csv": csv_text(rows)},
        draw=lambda figure: draw(figure, spec, lines, found),
    )


def _body(spec: TableSpec, found: dict[Cell, list[Square]]) -> str:
    body = []
    for cell, squares in found.items():
        values = [np.array(list(square.pairs.values())) for square in squares]
        told = [[each.mean() for each in values], [np.abs(each).mean() for each in values]]
        told += [[each.min() for each in values], [each.max() for each in values]]
        body.append([cell.row.label, *(stat_text(common.stat(each), 3, len(spec.seeds)) for each in told)])
    heads = ["method", "mean", "mean without sign", "lowest", "highest"]
    text = "Cosines of every two virtual nodes after the last round, over all pairs; mean and std over seeds."
    return f"{text}\n\n{grid_text(heads, body)}"


def draw(figure: Figure, spec: TableSpec, lines: dict[Cell, curves.Curve], found: dict[Cell, list[Square]]) -> None:
    """Draw the curves, and beside them the cosines of each row's first seed: numbers of nodes mean nothing in others.

    Red is alike, blue opposed, white neither.
    """
    figure.set_size_inches(6.4 + 3.0 * len(found), 4.1)
    left, *squares = figure.subplots(1, 1 + len(found), width_ratios=[1.7, *(1 for _ in found)])
    curves.draw_lines([[left]], spec, lines)
    for chart, (cell, told) in zip(squares, found.items(), strict=True):
        _heat_map(chart, cell, told)
    colours = next(image for chart in squares for image in chart.images)
    figure.colorbar(colours, ax=squares, label="cosine", shrink=0.7)
    charts.legend(figure)


def _heat_map(chart: Axes, cell: Cell, told: Sequence[Square]) -> None:
    if not told:
        chart.text(0.5, 0.5, "not run", transform=chart.transAxes, ha="center", color="0.5")
        chart.set_title(cell.row.label, fontsize=10)
        chart.set_axis_off()
        return
    chart.imshow(told[0].cosines, vmin=-1, vmax=1, cmap="RdBu_r")
    numbers = range(len(told[0].cosines)) if len(told[0].cosines) <= MOST_NUMBERED else []
    chart.set_xticks(numbers)
    chart.set_yticks(numbers)
    chart.tick_params(length=0, labelsize=7.5)
    chart.set_xlabel("virtual node")
    chart.set_title(f"{cell.row.label}, seed {told[0].seed}", fontsize=10)
