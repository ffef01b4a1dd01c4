"""Versions of one method beside the same printed accuracies: which one did the paper run?

No cell has a verdict and none counts anywhere: the printed numbers count where the paper's own tables have them.
``options.printed`` is the method as the panels' references spell it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fgl_repro.runs.store import RunSource
from fgl_repro.tables import compare, printing, reference, results
from fgl_repro.tables.agreement import difference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell, Panel, place
from fgl_repro.tables.printing import cell_text, columns_of, decimal, grid_text
from fgl_repro.tables.results import ROUND_NAMES, Stat
from fgl_repro.tables.spec import TableSpec

TELLS_ERRORS = True


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid a panel: the table's rows across, columns down, below them each row's mean distance from print."""
    table = results.fill(spec, protocol, source)
    gaps: dict[tuple[Panel, str], list[float]] = {}
    rows: list[dict[str, Any]] = []
    texts: dict[Cell, tuple[str, str]] = {}
    for cell, found in table.results.items():
        theirs = reference.of(replace(cell, row=replace(cell.row, name=spec.option("printed"))))
        printed = None if theirs is None or theirs.suspect else Stat(theirs.mean, theirs.std, 0)
        row = compare.head(table, cell) | columns_of(printed, 6, "paper_mean", "paper_std")
        for selection in ROUND_NAMES:
            ours = found.at(selection)
            gap = difference(theirs, ours).points if printed else None
            row |= columns_of(ours, 6, f"{selection}_mean", f"{selection}_std")
            row[f"{selection}_points"] = decimal(gap, 2)
            if gap is not None and selection == table.selection:
                gaps.setdefault((cell.panel, cell.row.id), []).append(abs(gap))
        rows.append(row | {"n_seeds": found.best.n if found.best else 0, "wanted": found.wanted})
        form = spec.format_of(cell.panel)
        texts[cell] = printing.number(printed, form), cell_text(found, table.selection, form, costs=True)
    blocks = [f"At the {table.round_name(table.selection)}; the last line of a grid is the mean distance from print."]
    for panel in spec.panels:
        lines: list[list[object]] = []
        for at in spec.places:
            own = [texts[Cell(panel, row, *at)] for row in spec.rows]
            lines.append([place(*at), own[0][0], *(ours for _, ours in own)])
        every = [gaps.get((panel, row.id), []) for row in spec.rows]
        means = [f"{sum(g) / len(g):.2f}" if g else "" for g in every]
        lines.append([f"distance, {spec.metric_of(panel).unit}", "", *means])
        heads = [panel.title, "paper", *(row.name for row in spec.rows)]
        blocks.append(grid_text(heads, lines))
    return Content(rows, "\n\n".join(blocks), *results.tally(table))
