"""One figure a table: every method's accuracy beside the printed one, a small chart for each panel and data set."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from fgl_repro.tables import compare
from fgl_repro.tables.results import SAID, Table, seeds_said
from fgl_repro.tables.spec import Cell, Panel, spelled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS, OTHER, PAPER = "#0b6fa4", "#9cc6dd", "#d1495b"
GAP = 1.6  # between two client counts, in lines; the second one's heading stands there


def write(table: Table, folder: Path) -> Path:
    """Draw ``table_<n>.png`` into ``folder``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    spec = table.spec
    lines = len(spec.clients) * (len(spec.rows) + GAP)
    size = (max(2.6 * len(spec.datasets) + 2.2, 6.4), len(spec.panels) * (0.2 * lines + 0.9) + 1.0)
    figure = Figure(figsize=size, dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(spec.panels), len(spec.datasets), squeeze=False, sharey=True)
    for panel, line in zip(spec.panels, axes, strict=True):
        for dataset, chart in zip(spec.datasets, line, strict=True):
            _chart(chart, table, panel, dataset)
            chart.set_title(f"{spelled(dataset)}" if len(spec.panels) == 1 else f"{panel.name}  {spelled(dataset)}")
        line[0].set_ylabel(panel.title)
    for chart in axes[-1]:
        chart.set_xlabel("accuracy (%)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    stats = [result.at(table.selection) for result in table.results.values()]
    seeds = seeds_said(stat.n for stat in stats if stat)
    title = f"{spec.full_title} (protocol {table.protocol}, {seeds})"
    figure.suptitle(fill(title, int(9 * figure.get_figwidth())))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{spec.stem}.png"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    figure.savefig(temporary, format="png", metadata={"Software": None})
    os.replace(temporary, path)
    return path


def _chart(chart: Axes, table: Table, panel: Panel, dataset: str) -> None:
    spec, other = table.spec, "last" if table.selection == "best" else "best"
    places, names = [], []
    series: dict[str, list[tuple[float, float, float]]] = {"paper": [], table.selection: [], other: []}
    for group, clients in enumerate(spec.clients):
        places.append(group * (len(spec.rows) + GAP) - 0.9)
        names.append(f"{clients} clients:")
        for line, row in enumerate(spec.rows):
            y = group * (len(spec.rows) + GAP) + line
            places.append(y)
            names.append(row.label)
            cell = Cell(panel, row, dataset, clients)
            theirs = compare.printed(cell)
            if theirs is not None and not theirs.suspect:
                series["paper"].append((100 * theirs.mean, y - 0.2, 100 * (theirs.std or 0.0)))
            for selection in (table.selection, other):
                ours = table.results[cell].at(selection)
                if ours is not None:
                    series[selection].append((100 * ours.mean, y + 0.2, 100 * (ours.std or 0.0)))
        if group:
            chart.axhline(group * (len(spec.rows) + GAP) - 1.45, color="0.85", lw=0.8)
    _points(chart, series["paper"], "paper", PAPER, "D", 4)
    _points(chart, series[other], f"ours, {SAID[other]}", OTHER, "o", 7, bars=False)
    _points(chart, series[table.selection], f"ours, {SAID[table.selection]}", OURS, "o", 4)
    chart.set_yticks(places, names, fontsize=7)
    chart.set_ylim(max(places) + 0.7, -1.5)
    chart.set_xlim(-3, 103)
    chart.tick_params(axis="y", length=0)
    chart.tick_params(axis="x", labelsize=8)
    chart.grid(axis="x", color="0.92", lw=0.8)
    chart.set_axisbelow(True)
    chart.spines[["top", "right", "left"]].set_visible(False)


def _points(
    chart: Axes,
    points: list[tuple[float, float, float]],
    label: str,
    color: str,
    marker: str,
    size: float,
    *,
    bars: bool = True,
) -> None:
    x, y, std = zip(*points, strict=True) if points else ((), (), ())
    error = list(std) if bars else None
    chart.errorbar(
        x,
        y,
        xerr=error,
        fmt=marker,
        ms=size,
        mfc=color if bars else "none",
        color=color,
        elinewidth=1,
        label=label,
        alpha=0.95,
    )
