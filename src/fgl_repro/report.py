"""The fidelity report of a paper: every table under every protocol, condensed to one page. A function of records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fgl_repro import compare
from fgl_repro.records import write_atomic
from fgl_repro.tables import Table, grid_text
from fgl_repro.tablespec import Panel

SELECTIONS = {"best": "best validation round", "last": "last round"}


def text(paper: str, tables: Sequence[Table]) -> str:
    """The page, from the paper's tables filled under each protocol that has runs."""
    lines = [
        f"# {paper}: how far the numbers come back",
        "",
        f"Written by `fgl-table report {paper}` from run records; do not edit. A cell agrees if it is within "
        f"{100 * compare.TOLERANCE:.0f} points or {compare.POOLED_STDS:.0f} pooled std of the printed number; printed "
        "numbers taken for misprints are not counted. Gaps are mean absolute differences in points, tau is Kendall's "
        "rank agreement of the methods, averaged over columns (data set and client count).",
    ]
    for selection, said in SELECTIONS.items():
        lines += ["", f"## Panels, {said}", "", _panels(tables, selection)]
    lines += ["", "## Methods, best validation round", "", "Cells that agree, and the mean gap in points.", ""]
    lines += [_methods(tables)]
    lines += ["", "## Mean over all columns, best validation round", ""]
    lines += ["Percent, plain mean over data sets and client counts that both sides have.", "", _means(tables)]
    lines += ["", "Cell by cell: `compare_*.md` in the folder of each protocol.", ""]
    return "\n".join(lines)


def write(paper: str, tables: Sequence[Table], folder: Path) -> Path:
    """Write the page as ``folder/README.md``."""
    path = folder / "README.md"
    write_atomic(path, text(paper, [table for table in tables if any(r.best for r in table.results.values())]))
    return path


def _panels(tables: Sequence[Table], selection: str) -> str:
    body = []
    for table in tables:
        for panel in table.spec.panels:
            part = _part(table, panel)
            everything = compare.tallies(part, selection)[-1]
            if not everything.cells:
                continue
            columns = [c for c in compare.columns(part, selection) if c.methods > 1]
            winners = [c.winner for c in columns if c.winner is not None]
            taus = [c.tau for c in columns if c.tau is not None]
            body.append(
                [
                    f"{panel.name} {panel.title}",
                    table.protocol,
                    everything.cells,
                    f"{everything.agreeing} ({100 * everything.agreeing / everything.cells:.0f}%)",
                    f"{everything.mean_absolute:.1f}",
                    f"{sum(taus) / len(taus):+.2f}" if taus else "",
                    f"{sum(winners)} of {len(winners)}",
                ]
            )
    heads = ["panel", "protocol", "cells", "agree", "gap", "tau", "same winner"]
    return grid_text(heads, sorted(body, key=lambda row: str(row[0])), numbers_from=2)


def _methods(tables: Sequence[Table]) -> str:
    protocols = _protocols(tables)
    names = list(dict.fromkeys(row.label for table in tables for row in table.spec.rows))
    body = []
    for name in names:
        line: list[object] = [name]
        for protocol in protocols:
            found = [t for table in tables if table.protocol == protocol for t in compare.tallies(table, "best")]
            own = [tally for tally in found if tally.name == name and tally.mean_absolute is not None]
            cells = sum(tally.cells for tally in own)
            gap = sum(tally.cells * (tally.mean_absolute or 0.0) for tally in own) / cells if cells else 0.0
            line.append(f"{sum(t.agreeing for t in own)} of {cells}, {gap:.1f}" if cells else "")
        body.append(line)
    return grid_text(["method", *protocols], body)


def _means(tables: Sequence[Table]) -> str:
    protocols = _protocols(tables)
    cells = list(dict.fromkeys((cell.panel, cell.row) for table in tables for cell in table.results))
    body = []
    for panel, row in cells:
        printed: dict[tuple[str, int], float] = {}
        ours: dict[str, dict[tuple[str, int], float]] = {protocol: {} for protocol in protocols}
        for table in tables:
            for cell, found in table.results.items():
                theirs = compare.printed(cell)
                if (cell.panel, cell.row) != (panel, row) or found.best is None or theirs is None or theirs.suspect:
                    continue
                printed[cell.dataset, cell.clients] = theirs.mean
                ours[table.protocol][cell.dataset, cell.clients] = found.best.mean
        shared = set(printed).intersection(*(found for found in ours.values() if found))
        columns = [printed, *(ours[protocol] for protocol in protocols)]
        body.append([f"{panel.name} {panel.title}", row.label, *(_mean(c[k] for k in shared if c) for c in columns)])
    return grid_text(["panel", "method", "paper", *protocols], body, numbers_from=2)


def _mean(values: Iterable[float]) -> str:
    found = list(values)
    return f"{100 * sum(found) / len(found):.1f}" if found else ""


def _protocols(tables: Sequence[Table]) -> list[str]:
    return list(dict.fromkeys(table.protocol for table in tables))


def _part(table: Table, panel: Panel) -> Table:
    """One panel of a table."""
    return table.narrowed(replace(table.spec, panels=(panel,)))
