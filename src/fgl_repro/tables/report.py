"""The fidelity report of a paper: everything under every protocol, condensed to one page. A function of records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fgl_repro.core.files import write_atomic
from fgl_repro.runs.store import Source
from fgl_repro.tables import compare
from fgl_repro.tables.artifact import Sheet
from fgl_repro.tables.report_time import time_grid
from fgl_repro.tables.results import Table, grid_text
from fgl_repro.tables.spec import Panel
from fgl_repro.tables.wins import in_print, leads

SELECTIONS = {"best": "best validation round", "last": "last round"}


def text(paper: str, filled: Sequence[Table | Sheet], source: Source | None = None) -> str:
    """The page.

    Args:
        filled: Tables and figures of the paper, under each protocol that has runs.
        source: Their records, for what they cost; None leaves that out.
    """
    tables = [item for item in filled if isinstance(item, Table)]
    sheets = [item for item in filled if isinstance(item, Sheet)]
    lines = [
        f"# {filled[0].spec.display if filled else paper}: how far the numbers come back",
        "",
        f"Written by `fgl-table report` from run records; do not edit. A cell agrees if it is within "
        f"{100 * compare.TOLERANCE:.0f} points or {compare.POOLED_STDS:.0f} pooled std of the printed number; printed "
        "numbers taken for misprints are not counted. Gaps are mean absolute differences in points, tau is Kendall's "
        "rank agreement of the methods, averaged over columns (data set and client count).",
    ]
    for selection, said in SELECTIONS.items():
        lines += ["", f"## Panels, {said}", "", _panels(tables, selection)]
    lines += ["", "## Does the paper's own method win?", "", _leads(tables)]
    lines += ["", "## Methods, best validation round", "", "Cells that agree, and the mean gap in points.", ""]
    lines += [_methods(tables)]
    lines += ["", "## Mean over all columns, best validation round", ""]
    lines += ["Percent, plain mean over data sets and client counts that both sides have.", "", _means(tables)]
    for table in tables:
        if table.spec.differences:
            head = f"## {table.spec.heading}: differences of rows in points, protocol `{table.protocol}`"
            lines += ["", head, "", compare.differences(table)]
    lines += _sheets(sheets)
    if source is not None:
        lines += ["", "## Time", "", time_grid(tables, source)]
    lines += ["", "Cell by cell: `compare_*.md` in the folder of each protocol.", ""]
    return "\n".join(lines)


def write(paper: str, filled: Sequence[Table | Sheet], folder: Path, source: Source | None = None) -> Path:
    """Write the page as ``folder/README.md``; what has no numbers yet is left out."""
    path = folder / "README.md"
    write_atomic(path, text(paper, [item for item in filled if _has_numbers(item)], source))
    return path


def _has_numbers(item: Table | Sheet) -> bool:
    if isinstance(item, Table):
        return any(result.best for result in item.results.values())
    return item.content.done > 0


def _leads(tables: Sequence[Table]) -> str:
    """Per panel: in how many columns the proposed method is above every baseline, at both rounds and in print."""
    body = []
    for table in tables:
        for panel in table.spec.panels:
            above, columns = in_print(table.spec, panel)
            pairs = zip(leads(table, panel, "best"), leads(table, panel, "last"), strict=True)
            for best, last in ((best, last) for best, last in pairs if best.columns):
                said = f"{above} of {columns}"
                here = [f"{found.above} of {found.columns}" for found in (best, last)]
                mean = ["yes" if found.best == best.row.label else f"no: {found.best}" for found in (best, last)]
                where = [f"{panel.name} {panel.title}", table.protocol, best.row.label]
                body.append([*where, said, here[0], mean[0], here[1], mean[1]])
    if not body:
        return "It has not run."
    told = (
        "Columns (data set and client count) in which it is above every baseline that ran, of those where it ran; and "
    )
    told += "whether it has the highest mean over the columns that all have."
    heads = ["panel", "protocol", "method", "in print", "here, best", "on average, best", "here, last"]
    body.sort(key=lambda row: str(row[0]))
    return f"{told}\n\n{grid_text([*heads, 'on average, last'], body, numbers_from=3)}"


def _sheets(sheets: Sequence[Sheet]) -> list[str]:
    """Tables of other numbers and figures, each once; protocols that give the same share a heading."""
    lines: list[str] = []
    note = ""
    for name in dict.fromkeys(sheet.spec.name for sheet in sheets):
        shown: dict[str, list[str]] = {}
        for sheet in (sheet for sheet in sheets if sheet.spec.name == name):
            shown.setdefault(_short(sheet), []).append(f"`{sheet.protocol}`")
        spec = next(sheet.spec for sheet in sheets if sheet.spec.name == name)
        lines += ["", f"## {spec.heading}: {spec.title}", *(["", spec.note] if spec.note not in ("", note) else [])]
        note = spec.note
        for said, protocols in shown.items():
            lines += ["", f"Protocol {', '.join(protocols)}:", "", said]
    return lines


def _short(sheet: Sheet) -> str:
    parts = []
    if sheet.content.draw is not None:
        parts.append(f"![{sheet.spec.heading}]({sheet.protocol}/{sheet.spec.stem}.png)")
    if sheet.has_page:
        parts.append((sheet.content.summary or sheet.content.body).replace("### ", "#### "))
    return "\n\n".join(parts)


def _panels(tables: Sequence[Table], selection: str) -> str:
    body = []
    for table in tables:
        for panel in table.spec.panels:
            part = _part(table, panel)
            everything = compare.tallies(part, selection)[-1]
            if not everything.cells:
                continue
            columns = [c for c in compare.columns(part, selection) if c.methods > 1 and _compares_methods(table)]
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
                    f"{sum(winners)} of {len(winners)}" if winners else "",
                ]
            )
    heads = ["panel", "protocol", "cells", "agree", "gap", "tau", "same winner"]
    return grid_text(heads, sorted(body, key=lambda row: str(row[0])), numbers_from=2)


def _methods(tables: Sequence[Table]) -> str:
    tables = [table for table in tables if _compares_methods(table)]
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


def _compares_methods(table: Table) -> bool:
    """Whether rows are methods, not variations of one."""
    return len({row.method for row in table.spec.rows}) > 1


def _part(table: Table, panel: Panel) -> Table:
    """One panel of a table."""
    return table.narrowed(replace(table.spec, panels=(panel,)))
