"""A grid of accuracies beside the printed ones: methods down, data sets and clients across, a panel a probe."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

from fgl_repro.data.catalog import rebuilds
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import compare, leaderboard, results
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell, Panel, Row, brief_place, place
from fgl_repro.tables.figures import gaps
from fgl_repro.tables.printing import cell_text, columns_of, csv_text, grid_text, signed
from fgl_repro.tables.results import Grid, row_gap
from fgl_repro.tables.spec import TableSpec

TELLS_ERRORS = True


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Make long and paper-shaped CSV, a page at both rounds, the comparison as CSV and page; ranks of added rows."""
    table = results.fill(spec, protocol, source)
    comparison = compare.markdown(table)
    files = {
        f"{spec.stem}_wide.csv": wide_text(table),
        f"compare_{spec.table}.csv": csv_text(compare.rows(table)),
        f"compare_{spec.table}.md": comparison,
    }

    summary, screen = comparison.partition("## By cell")[0].rstrip(), compare.screen(table)
    draw = gaps.draw if any(panel.reference for panel in spec.panels) else None
    if spec.added_rows and any(found.at(table.selection) for found in table.results.values()):
        summary, draw = leaderboard.markdown(table), leaderboard.draw
        files |= {f"leaderboard_{spec.table}.csv": csv_text(leaderboard.rows(table))}
        files |= {f"leaderboard_{spec.table}.md": summary}
        screen = summary.removeprefix("# ").rstrip()
    return Content(
        long_rows(table),
        summary,
        *results.tally(table),
        draw=partial(draw, table=table) if draw else None,
        page=markdown(table),
        screen=screen,
        files=files,
        grid=table,
    )


def long_rows(table: Grid) -> list[dict[str, Any]]:
    """Make one row a cell and selection."""
    rows = []
    for (cell, found), selection in product(table.results.items(), ("best", "last")):
        value = found.at(selection)
        row = compare.head(table, cell)
        row |= {"probe": cell.panel.probe, "metric": table.spec.metric_name(cell.panel), "selection": selection}
        row |= {"printed": int(selection == table.selection), **columns_of(value, 6, "mean", "std")}
        row |= {"ddof": table.ddof, "n_seeds": value.n if value else 0, "wanted": found.wanted}
        rows.append(row | {"status": found.status, "chosen": found.chosen, "runs": " ".join(found.keys)})
    return rows


def lines(table: Grid, across: Sequence[tuple[Panel, str, int]], selection: str, costs: bool = True) -> list[list[str]]:
    """Write a line a row: its name, then its cells ``across`` panels, data sets and client counts."""

    def text(row: Row, panel: Panel, dataset: str, clients: int) -> str:
        found = table.results[Cell(panel, row, dataset, clients)]
        return cell_text(found, selection, table.spec.format_of(panel), costs)

    return [[row.label, *(text(row, *at) for at in across)] for row in table.spec.rows]


def _across_panels(table: Grid, dataset: str, clients: int, selection: str, costs: bool = True) -> list[list[str]]:
    """Write the lines of one column of the grid, a panel each across, differences of rows below."""
    across = [(panel, dataset, clients) for panel in table.spec.panels]
    below = [
        [name, *(signed(row_gap(table, pair, *at, selection)) for at in across)]
        for name, pair in table.spec.differences.items()
    ]
    return lines(table, across, selection, costs) + below


def wide_text(table: Grid) -> str:
    """Write a CSV shaped as the paper prints it: methods down, data sets and clients across.

    It has both selections, the printed first.
    """
    spec, rows = table.spec, []
    columns = [brief_place(*at) for at in spec.places]
    for selection in _both(table):
        if spec.columns == "panels":
            heads = ["column", *(panel.title for panel in spec.panels)]
            parts = [_across_panels(table, *at, selection, costs=False) for at in spec.places]
            names = columns
        else:
            heads = ["panel", *columns]
            parts = [
                lines(table, [(panel, *at) for at in spec.places], selection, costs=False) for panel in spec.panels
            ]
            names = [panel.name for panel in spec.panels]
        heads[1:1] = ["selection", "method"]
        for name, part in zip(names, parts, strict=True):
            rows += [dict(zip(heads, [name, selection, *line], strict=True)) for line in part]
    return csv_text(rows)


def _both(table: Grid) -> tuple[str, str]:
    return ("best", "last") if table.selection == "best" else ("last", "best")


def markdown(table: Grid) -> str:
    """Write the table as a page: one grid a panel and data set group, at both rounds."""
    spec = table.spec
    how_to_read = (
        f"Protocol `{table.protocol}`; {spec.measure}, mean and std (ddof {table.ddof}) over seeds "
        f"{', '.join(map(str, spec.seeds))}; the protocol prints the {table.round_name(table.selection)}. "
        "`[n of m]`: seeds are missing; `(3 h to run)`: what missing seeds would take on one core, by the runs most "
        "like them; blank: not run."
    )
    blocks = [
        f"# {spec.full_title}",
        how_to_read,
        *filter(None, (spec.note, rebuilds(spec.datasets), spec.blank)),
        *compare.fine_tuned(table),
    ]
    for selection in _both(table):
        blocks.append(f"## At the {table.round_name(selection)}")
        if spec.columns == "panels":
            heads = ["method", *(panel.title for panel in spec.panels)]
            for at in spec.places:
                blocks += [f"### {place(*at)}", grid_text(heads, _across_panels(table, *at, selection))]
            continue
        for panel in spec.panels:
            blocks.append(f"### {panel.name}: {panel.title}")
            for dataset in spec.datasets:
                heads = ["method", *(place(dataset, clients) for clients in spec.clients)]
                across = [(panel, dataset, clients) for clients in spec.clients]
                blocks.append(grid_text(heads, lines(table, across, selection)))
    return "\n\n".join(blocks) + "\n"
