"""Ours against the printed numbers at both rounds a record keeps: verdicts of a table's cells, CSV lines, pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from fgl_repro.data.catalog import NAMES, facts, rebuilds
from fgl_repro.tables import reference
from fgl_repro.tables.agreement import COUNTED, POOLED_STDS, TOLERANCE, columns, difference, tallies, tau
from fgl_repro.tables.entries import ACCURACY, Cell, Panel, brief_place, place, spelled
from fgl_repro.tables.printing import columns_of, decimal, grid_text, number, signed
from fgl_repro.tables.reference import Reference
from fgl_repro.tables.results import ROUND_NAMES, Grid, Result, Stat, chosen_on, row_gap
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.verdict import (
    DIFFERS,
    LEVEL,
    NOTHING,
    POINTS,
    REPRODUCED,
    VERDICTS,
    WITHIN,
    Evidence,
    evidence,
    verdicts,
)

HEADS = ("cells", *VERDICTS, "reproduced of told", "closely", "looked at", "not looked at", "old rule", "tau")

RANKED = 5
"""Methods that a column must have for its tau to count on a scoreboard: of two, tau is 1 or -1."""

CellVerdicts = Mapping[Cell, tuple[Evidence, str]]
"""Evidence and verdict of cells."""


def verdicts_of(table: Grid, selection: str) -> CellVerdicts:
    """Find evidence and verdict of every cell.

    Which ones differ is decided for the table as a whole, in which each printed number counts once.
    """
    found: dict[Cell, Evidence] = {}
    whole = table.whole or table.results
    for cell, result in whole.items():
        guessed = cell.dataset in NAMES and table.spec.metric_name(cell.panel) == ACCURACY
        chance = 1 / facts(cell.dataset).classes if guessed else 0.0
        found[cell] = evidence(reference.of(cell), result.at(selection), table.ddof, chance)
    once = speaking(whole)
    said = verdicts(list(found.values()), [cell in once for cell in found])
    decided = dict(zip(found, zip(found.values(), said, strict=True), strict=True))
    return {cell: decided[cell] for cell in table.results}


def speaking(results: Mapping[Cell, Result]) -> set[Cell]:
    """Choose a cell for each printed number: first row that ran, in the table's order, and first client count."""
    first: dict[object, Cell] = {}
    for cell, found in results.items():
        if (printed_at := reference.where(cell)) is not None:
            other = first.setdefault((cell.panel, printed_at), cell)
            if results[other].best is None and found.best is not None:
                first[cell.panel, printed_at] = cell
    return set(first.values())


def shares(lines: Sequence[Mapping[str, Any]], ranked: int = RANKED) -> dict[str, object]:
    """Tell how printed numbers fare, from lines of comparisons (``rows``, or ``compare_*.csv``) at the printed round.

    Of those that count: cells by verdict; the share reproduced of those that can say something; how many of these lie
    in their own interval, and that is no wider than POINTS; the share apart for data sets that were looked at when
    settings were chosen and for others; agreement by the old rule. And median tau of the columns that have at least so
    many methods as are to be ``ranked``, each over the first row that ran of every method, also where its one printed
    number counted elsewhere.
    """
    once = [line for line in lines if int(line["counted"]) and line["paper_mean"]]
    at = {id(line): line[f"{line['printed_selection']}_verdict"] for line in once}
    old = [line[f"{line['printed_selection']}_old_rule"] for line in once]
    out: dict[str, object] = {"cells": len(once)}
    out |= {verdict: sum(found == verdict for found in at.values()) for verdict in VERDICTS}
    close = [line for line in once if at[id(line)] == REPRODUCED]
    numbers = [[float(line[f"{line['printed_selection']}_{name}"]) for name in ("points", "half")] for line in close]
    # "all" keeps the place that HEADS gives it; it is filled below
    out |= {"all": "", "closely": sum(abs(points) <= half <= POINTS for points, half in numbers)}
    for name, own in (("all", once), ("looked at", _looked_at(once, 1)), ("not looked at", _looked_at(once, 0))):
        telling = [at[id(line)] for line in own if at[id(line)] != NOTHING]
        out[name] = f"{telling.count(REPRODUCED)} of {len(telling)}" if telling else ""
    out["old rule"] = f"{old.count('agrees')} of {old.count('agrees') + old.count('differs')}"
    columns: dict[tuple[str, ...], dict[str, tuple[float, float]]] = {}
    for line in (line for line in lines if line[f"{line['printed_selection']}_old_rule"] in COUNTED):
        column = tuple(str(line.get(name)) for name in ("protocol", "table", "figure", "panel", "dataset", "clients"))
        means = float(line["paper_mean"]), float(line[f"{line['printed_selection']}_mean"])
        columns.setdefault(column, {}).setdefault(line["name"], means)
    many = [list(pairs.values()) for pairs in columns.values() if len(pairs) >= ranked]
    taus = [found for pairs in many if (found := tau(pairs)) is not None]
    return out | {"tau": f"{np.median(taus):+.2f}" if taus else ""}


def _looked_at(lines: Sequence[Mapping[str, Any]], fitted: int) -> list[Mapping[str, Any]]:
    return [line for line in lines if int(line["fitted"]) == fitted]


# --- output -----------------------------------------------------------------------------------------------------------


def head(table: Grid, cell: Cell) -> dict[str, Any]:
    """Fill the first columns of a CSV line about a cell of a grid of accuracies."""
    spec, row = table.spec, cell.row
    where = {"paper": spec.paper, spec.sort: spec.table, "panel": cell.panel.name, "protocol": table.protocol}
    column = {"dataset": cell.dataset, "clients": cell.clients}
    who = {"method": row.method, "name": row.name, "variant": row.variant}
    return {**where, **column, **who, **chosen_on(spec, table.protocol, cell.dataset)}


def rows(table: Grid) -> list[dict[str, Any]]:
    """Make one row a cell, for the CSV."""
    out, once = [], speaking(table.results)
    at_round = {selection: verdicts_of(table, selection) for selection in ROUND_NAMES}
    for cell, found in table.results.items():
        theirs = reference.of(cell)
        row = head(table, cell) | columns_of(_as_stat(theirs), 6, "paper_mean", "paper_std")
        row |= {"suspect": int(bool(theirs and theirs.suspect)), "note": theirs.note if theirs else ""}
        row |= {"n_seeds": found.best.n if found.best else 0, "wanted": found.wanted}
        row |= {"counted": int(cell in once), "fitted": int(cell.dataset in table.fitted.get(cell.row.method, ()))}
        row |= {"metric": table.spec.metric_name(cell.panel)} if table.spec.has_errors else {}
        row |= {"draws": "splits and seeds" if table.redraw else "seeds", "printed_selection": table.selection}
        for selection in ROUND_NAMES:
            ours = found.at(selection)
            gap = difference(theirs, ours)
            row |= columns_of(ours, 6, f"{selection}_mean", f"{selection}_std")
            row |= {f"{selection}_points": decimal(gap.points, 2), f"{selection}_stds": decimal(gap.stds, 2)}
            row[f"{selection}_old_rule"] = gap.old_rule
            shown, verdict = at_round[selection][cell]
            row |= {f"{selection}_half": decimal(shown.half, 2), f"{selection}_p": decimal(shown.p, 4)}
            row |= {f"{selection}_verdict": verdict, f"{selection}_silent": shown.silent}
        out.append(row)
    return out


def paper_number(theirs: Reference | None, form: str = "percent") -> str:
    """Write the printed number in the table's format, a misprint in brackets."""
    text = number(_as_stat(theirs), form)
    return f"({text})" if theirs and theirs.suspect else text


def _as_stat(theirs: Reference | None) -> Stat | None:
    return None if theirs is None else Stat(theirs.mean, theirs.std, 0)


def _beside(table: Grid, cell: Cell, selection: str, found: tuple[Evidence, str]) -> list[str]:
    """Tell ours minus the paper's, how far from our mean a printed number may lie, verdict, what the old rule says."""
    shown, verdict = found
    gap = difference(reference.of(cell), table.results[cell].at(selection))
    half = "" if shown.half is None else f"± {shown.half:.1f}"
    return [signed(gap.points), half, shown.silent or verdict, gap.old_rule]


def beside(table: Grid, panel: Panel, dataset: str, clients: int, found: CellVerdicts) -> str:
    """Write one column of the table beside the paper, at the printed round: what ``fgl-table`` prints.

    A panel without printed numbers has ours alone.
    """
    selection, form = table.selection, table.spec.format_of(panel)
    body = []
    for cell in (Cell(panel, row, dataset, clients) for row in table.spec.rows):
        result = table.results[cell]
        ours, status = result.at(selection), result.status
        blank = {"oom": "OOM"}.get(status, "" if panel.reference else status)
        text = f"{number(ours, form)} ({', '.join(filter(None, (str(ours.n), result.lost)))})" if ours else blank
        text = " ".join(filter(None, (text, result.to_run)))
        gap, half, *words = _beside(table, cell, selection, found[cell])
        if status not in ("complete", "partial"):
            words = [status, status]
        body.append([cell.row.label, text, paper_number(reference.of(cell), form), gap, half, *words])
    heads = ["method", "ours (seeds)", "paper", "diff", "interval", "verdict", "old rule"]
    shown = len(heads) if panel.reference else 2
    return grid_text(heads[:shown], [line[:shown] for line in body]) if body else ""


def warning_of_fit(table: Grid) -> list[str]:
    """Give the warning where a protocol's settings were chosen by looking at printed numbers; nothing where not."""
    shown = {row.method: row.name for row in table.spec.rows}
    named = [f"{shown[m]} ({', '.join(map(spelled, names))})" for m, names in table.fitted.items()]
    warning = "Settings of this protocol were chosen by looking at printed numbers: "
    return [f"{warning}{'; '.join(named)}."] if named else []


def fine_tuned(table: Grid) -> list[str]:
    """Say whose numbers are those of models that trained on after the last round; nothing where nobody's."""
    labels = dict.fromkeys(cell.row.label for cell, found in table.results.items() if found.fine_tuned)
    named = f"Models of {', '.join(labels)} were tested after fine-tuning, each client's at its own best check"
    return [f"{named}: for them there is one number, not one a round."] if labels else []


def markdown(table: Grid) -> str:
    """Write the comparison as a page: per method, per column, per cell."""
    spec = table.spec
    blocks = [
        f"# {spec.display}, {spec.heading} beside the paper, protocol `{table.protocol}`",
        _how_to_read(table),
        *filter(None, (errors(table), rebuilds(spec.datasets))),
        *warning_of_fit(table),
        *fine_tuned(table),
    ]
    if has_printed_numbers(table):
        how_to_read = (
            "Kendall's tau-b over the methods that both sides have, of each the first row that ran, and whether the "
        )
        blocks += ["## By method", _method_grid(table)]
        blocks += ["## By column", f"{how_to_read}same method is best.", _column_grid(table)]
    else:
        blocks += ["Nothing is printed of any cell: there is nothing to agree with."]
    blocks += ["## By cell"]
    found = {selection: verdicts_of(table, selection) for selection in ROUND_NAMES}
    for panel in spec.panels:
        blocks += [f"### {panel.name}: {panel.title}", _cell_grid(table, panel, found)]
    if spec.differences:
        blocks += [f"## {difference_head(spec)}", differences(table)]
    return "\n\n".join(blocks) + "\n"


def _how_to_read(table: Grid) -> str:
    """Say what the words and the numbers of a comparison mean."""
    unit = table.spec.unit
    return (
        f"The protocol prints the {table.round_name(table.selection)}; both rounds are compared. Runs of a cell differ "
        f"in {'split and seed' if table.redraw else 'their seed, not in the split'}. `interval`: how far from our mean "
        f"a printed number lies in 95 % of cases if it is a draw like our runs. `{DIFFERS}`: it is rejected as such a "
        f"draw, at a false discovery rate of {LEVEL:.0%} over the printed numbers compared here; `{REPRODUCED}`: it is "
        f"not rejected, and is within {POINTS:.0f} {unit}; `{WITHIN}`: it is not rejected, but farther away; any other "
        "word says why there is no evidence. The table is tested as a whole: what is not rejected may still lie "
        "outside of its own interval. "
        f"Old rule: `agrees` within {100 * TOLERANCE:.0f} {unit} or {POOLED_STDS:.0f} pooled std. Printed numbers in "
        "brackets are taken for misprints: shown, never counted. Behind a number of seeds that lacks some stands how "
        "long these would take to run. Runs: `table_*.csv`."
    )


def has_printed_numbers(table: Grid) -> bool:
    """Tell whether there is a printed number of any cell."""
    return any(reference.of(cell) is not None for cell in table.results)


def screen(table: Grid) -> str:
    """Write the table beside the paper, a column at a time, for a terminal."""
    spec = table.spec
    seeds = ", ".join(map(str, spec.seeds))
    what = f"protocol {table.protocol}, {table.round_name(table.selection)}, {spec.measure}, seeds {seeds}"
    blocks = [f"{spec.full_title}\n{what}"]
    found = verdicts_of(table, table.selection)
    for panel, at in product(spec.panels, spec.places):
        if text := beside(table, panel, *at, found):
            blocks += [f"{panel.title}, {place(*at)}", text]
    if spec.differences:
        blocks += [difference_head(spec), differences(table)]
    notes = errors(table), rebuilds(spec.datasets), spec.blank
    return "\n\n".join([*blocks, *filter(None, notes), *warning_of_fit(table), *fine_tuned(table)])


def errors(table: Grid) -> str:
    """Say how gaps of errors are to be read; empty where all numbers are shares."""
    return "Of errors less is better; `diff` and `interval` are percent of the printed number." * table.spec.has_errors


def difference_head(spec: TableSpec) -> str:
    """Write what stands above differences of rows."""
    return f"Differences of rows, in {'percent of the second' if spec.has_errors else 'points'}"


def differences(table: Grid) -> str:
    """Write the lines a table prints below its rows, beside the same differences of the printed numbers."""
    spec, body = table.spec, []
    for (name, pair), at, panel in product(spec.differences.items(), spec.places, spec.panels):
        gaps = [signed(row_gap(table, pair, panel, *at, which)) for which in ("paper", "best", "last")]
        body.append([name, brief_place(*at), panel.title, *gaps])
    ours = [f"ours, {selection}{table.dagger(selection)}" for selection in ROUND_NAMES]
    return grid_text(["difference", "column", "panel", "paper", *ours], body, numbers_from=3)


def _method_grid(table: Grid) -> str:
    heads = ["method", "cells", "agree, best", "mean gap, best", "agree, last", "mean gap, last"]
    body = []
    for both in zip(tallies(table, "best"), tallies(table, "last"), strict=True):
        line: list[object] = [both[0].name, both[0].cells]
        for tally in both:
            agree = "" if tally.mean_absolute is None else f"{tally.agreeing} of {tally.cells}"
            line += [agree, decimal(tally.mean_absolute, 2)]
        body.append(line)
    return grid_text(heads, body)


def _column_grid(table: Grid) -> str:
    words = {True: "same", False: "other", None: ""}
    body = []
    for best, last in zip(columns(table, "best"), columns(table, "last"), strict=True):
        if best.methods < 2:
            continue
        where = [best.panel.name, place(best.dataset, best.clients), str(best.methods)]
        body.append([*where, signed(best.tau), words[best.winner], signed(last.tau), words[last.winner]])
    heads = ["panel", "column", "methods", "tau, best", "winner, best", "tau, last", "winner, last"]
    return grid_text(heads, body, numbers_from=2) if body else "No column has two methods yet."


def _cell_grid(table: Grid, panel: Panel, found: Mapping[str, CellVerdicts]) -> str:
    form = table.spec.format_of(panel)
    body = []
    for cell in (cell for cell in table.results if cell.panel == panel):
        result = table.results[cell]
        line = [brief_place(cell.dataset, cell.clients), cell.row.label, paper_number(reference.of(cell), form)]
        for selection in ROUND_NAMES:
            line += [number(result.at(selection), form), *_beside(table, cell, selection, found[selection][cell])]
        seeds = ", ".join(filter(None, (str(result.best.n if result.best else 0), result.lost)))
        body.append([*line, " ".join(filter(None, (seeds, result.to_run)))])
    rest = ["diff", "interval", "verdict", "old rule"]
    both = [[f"ours, {selection}{table.dagger(selection)}", *rest] for selection in ROUND_NAMES]
    return grid_text(["column", "method", "paper", *both[0], *both[1], "seeds"], body, numbers_from=2)
