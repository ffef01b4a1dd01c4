"""The fidelity report of a paper: everything under every protocol, condensed to one page. A function of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fgl_repro.config import science
from fgl_repro.core.files import write_atomic
from fgl_repro.data.catalog import rebuilds
from fgl_repro.runs.progress import Costs
from fgl_repro.runs.record import on_cpus
from fgl_repro.runs.store import RunSource, loaded
from fgl_repro.tables import agreement, compare, needs, reference, verdict
from fgl_repro.tables.added import compares_methods
from fgl_repro.tables.artifact import Artifact
from fgl_repro.tables.entries import Cell, Panel, Row
from fgl_repro.tables.printing import grid_text
from fgl_repro.tables.results import ROUND_NAMES, Grid
from fgl_repro.tables.spec import TableSpec

CORES = 2


def page(paper: str, filled: Sequence[Artifact], source: RunSource | None = None) -> str:
    """Write the page.

    Args:
        filled: Tables and figures of the paper, under each protocol that has runs.
        source: Their records, for what they cost; None leaves that out.
    """
    tables = [item.content.grid for item in filled if item.content.grid is not None]
    others = [item for item in filled if item.content.grid is None]
    blocks = [
        f"# {filled[0].spec.display if filled else paper}: how far the numbers come back",
        (
            f"Written by `fgl-table publish` from run records; do not edit. A cell agrees if it is within "
            f"{100 * agreement.TOLERANCE:.0f} points or {agreement.POOLED_STDS:.0f} pooled std of the printed number; "
            "printed numbers taken for misprints are not counted. Gaps are mean absolute differences in points, tau is "
            "Kendall's rank agreement of the methods, in the median column (data set and client count)."
        ),
    ]
    blocks += filter(None, (_how_errors_are_read(tables), rebuilds(name for t in tables for name in t.spec.datasets)))
    blocks += ["## Verdicts", how_verdicts_are_reached(), verdict_grid(tables), _how_ddof_counts(tables)]
    rounds = {selection: round_of_all(tables, selection) for selection in ROUND_NAMES}
    for selection, name in rounds.items():
        blocks += [f"## Panels, {name}", _panels(tables, selection)]
    blocks += ["## Does the paper's own method win?", _wins(tables)]
    blocks += [f"## Methods, {rounds['best']}", "Cells that agree, and the mean gap in points.", _methods(tables)]
    blocks += [f"## Mean over all columns, {rounds['best']}"]
    unit = "Percent, errors as they are" if _with_errors(tables) else "Percent"
    blocks += [f"{unit}, ours / paper (columns): plain means over the data sets and client counts that both have."]
    blocks += [_means(tables)]
    for table in tables:
        if table.spec.differences:
            what = compare.difference_head(table.spec).lower().replace(",", "")
            head = f"## {table.spec.heading}: {what}, protocol `{table.protocol}`"
            blocks += [head, compare.differences(table)]
    blocks += _others(others)
    blocks += ["## Time", _time(tables, source)] if source is not None else []
    return "\n\n".join([*blocks, "Cell by cell: `compare_*.md` in the folder of each protocol."]) + "\n"


def _with_errors(tables: Sequence[Grid]) -> bool:
    return any(table.spec.has_errors for table in tables)


def _how_errors_are_read(tables: Sequence[Grid]) -> str:
    """Say how errors are to be read; empty where all numbers are shares."""
    return (
        "Of errors less is better: above is below there, the highest mean the lowest, and points are percent of the "
        "printed number."
    ) * _with_errors(tables)


def round_of_all(tables: Sequence[Grid], selection: str) -> str:
    """Tell one of the two rounds in words; where test rows chose it under some protocol, a dagger and its name."""
    names = {table.round_name(selection): table.protocol for table in tables if table.tested}
    usual = [] if tables and all(table.tested for table in tables) else [ROUND_NAMES[selection]]
    chosen = [f"{name} ({protocol})" for name, protocol in names.items() if name != ROUND_NAMES[selection]]
    return ", ".join([*usual, *chosen]) or ROUND_NAMES[selection]


def how_verdicts_are_reached() -> str:
    """Say how the verdicts are reached, and what they can find."""
    power = [f"{verdict.power(runs, std, 10.0):.0%}" for runs in (5, 3) for std in (1.0, 3.0, 5.0)]
    return (
        "At the round that the protocol prints. `reproduced`: the printed mean is not rejected as a draw like ours "
        f"(prediction intervals of our runs, Student's t; false discovery rate {verdict.LEVEL:.0%} over the printed "
        f"numbers of a table), and is at most {verdict.POINTS:.0f} points away. `within the spread`: it is not "
        "rejected either, but further away, most often because our runs scatter widely. `closely`: reproduced cells "
        f"whose printed number lies in their own interval, and that is at most {verdict.POINTS:.0f} points to either "
        "side. `no evidence`: both sides no better than guessing among the classes, a single run, a misprint, or "
        "blank. A printed number counts once, for the first row that the table lists. Cells with evidence are *told*; "
        "*looked at* are those whose printed numbers were seen when the protocol's settings were chosen. Where runs "
        "draw seeds alone, intervals lack what a split is worth. A printed number 10 points "
        f"off lies outside the interval of five runs with std 1, 3 and 5 points in {', '.join(power[:3])} of cases, "
        f"of three runs in {', '.join(power[3:])}; control of the false discovery rate takes some of that."
    )


def verdict_grid(tables: Sequence[Grid]) -> str:
    """Write a line for each panel and protocol."""
    body = []
    for table in tables:
        lines, once = compare.rows(table), compare.speaking(table.results)
        for panel in table.spec.panels:
            found = compare.shares([line for line in lines if line["panel"] == panel.name])
            if found["cells"]:
                resting = agreement.resting_on_ddof(table, (cell for cell in once if cell.panel == panel))
                where = [f"{panel.name} {panel.title}", table.protocol, lines[0]["draws"]]
                body.append([*where, *found.values(), str(resting)])
    heads = ["panel", "protocol", "draws", *compare.HEADS, "by ddof"]
    return grid_text(heads, sorted(body, key=lambda line: str(line[0])), 3)


def _how_ddof_counts(tables: Sequence[Grid]) -> str:
    """Say with which ddof printed stds are read, and how much of the old rule hangs on it."""
    ddof = " and ".join(sorted({str(table.ddof) for table in tables}))
    resting = sum(agreement.resting_on_ddof(table, compare.speaking(table.results)) for table in tables)
    return (
        f"The old rule pools our std with the printed one, which is taken to have ddof {ddof} (`conf/protocol` says "
        f"why), and so has ours. Read with the other one of 0 and 1, `by ddof` cells would change their old verdict, "
        f"{resting} in all; the new verdicts take no std from print."
    )


def write(paper: str, filled: Sequence[Artifact], folder: Path, source: RunSource | None = None) -> Path:
    """Write the page as ``folder/README.md``; what has no numbers yet is left out."""
    path = folder / "README.md"
    write_atomic(path, page(paper, [item for item in filled if item.has_numbers], source))
    return path


def _wins(tables: Sequence[Grid]) -> str:
    """Tell per panel in how many columns the proposed method is above every baseline, at both rounds and in print."""
    body = []
    for table in tables:
        for panel in table.spec.panels:
            above, columns = in_print(table.spec, panel)
            pairs = zip(wins(table, panel, "best"), wins(table, panel, "last"), strict=True)
            for best, last in ((best, last) for best, last in pairs if best.columns):
                share = f"{above} of {columns}"
                here = [f"{found.above} of {found.columns}" for found in (best, last)]
                mean = ["yes" if found.best == best.row.label else f"no: {found.best}" for found in (best, last)]
                where = [f"{panel.name} {panel.title}", table.protocol, best.row.label]
                body.append([*where, share, here[0], mean[0], here[1], mean[1]])
    if not body:
        return "It has not run."
    head = (
        "Columns (data set and client count) in which it is above every baseline that ran, of those where it ran; and "
        "whether it has the highest mean over the columns that all have."
    )
    heads = ["panel", "protocol", "method", "in print", "here, best", "on average, best", "here, last"]
    body.sort(key=lambda row: str(row[0]))
    return f"{head}\n\n{grid_text([*heads, 'on average, last'], body, numbers_from=3)}"


@dataclass(frozen=True)
class Wins:
    """One row of the proposed method (a variant of it) against every baseline that ran.

    Attributes:
        row: The proposed method's.
        columns: Data set and client counts where it and at least one baseline have a number.
        above: How many of them it leads, all baselines strictly below.
        best: Label of the row with the highest mean over the columns that all compared rows have; empty without any.
    """

    row: Row
    columns: int
    above: int
    best: str


def wins(table: Grid, panel: Panel, selection: str) -> list[Wins]:
    """Make a line for each row of the paper's own method; none where the table does not say which that is."""
    spec, means, merit = table.spec, {}, table.spec.metric_of(panel).merit
    for row in spec.rows:
        found = {at: table.results[Cell(panel, row, *at)].at(selection) for at in spec.places}
        means[row] = {at: merit(number.mean) for at, number in found.items() if number is not None}
    rivals = [row for row in spec.rows if row.name != spec.proposed and means[row]]
    out = []
    for own in (row for row in spec.rows if row.name == spec.proposed):
        against = {at: [means[row][at] for row in rivals if at in means[row]] for at in means[own]}
        ahead = [means[own][at] > max(others) for at, others in against.items() if others]
        shared = set.intersection(*(set(means[row]) for row in (own, *rivals)))
        sums = {row.label: sum(means[row][at] for at in shared) for row in (own, *rivals)}
        best = max(sums, key=lambda label: sums[label]) if ahead and shared else ""
        out.append(Wins(own, len(ahead), sum(ahead), best))
    return out


def in_print(spec: TableSpec, panel: Panel) -> tuple[int, int]:
    """Count columns in which the paper prints its own method above every other (misprints aside), and all columns."""
    numbers, merit = reference.of_panel(panel), spec.metric_of(panel).merit
    named = {name for dataset in spec.datasets if dataset not in spec.absent for name in reference.names(dataset)}
    above = columns = 0
    for (dataset, clients, name), own in numbers.items():
        if name == spec.proposed and dataset in named and clients in spec.clients:
            columns += 1
            others = (v for (d, k, n), v in numbers.items() if d == dataset and k in (clients, 0) and n != name)
            above += all(merit(own.mean) > merit(other.mean) for other in others if not other.suspect)
    return above, columns


def _others(artifacts: Sequence[Artifact]) -> list[str]:
    """Show tables of other numbers and figures, each once; protocols that give the same share a heading."""
    blocks: list[str] = []
    note = ""
    for spec in dict.fromkeys(item.spec for item in artifacts):
        texts: dict[str, list[str]] = {}
        for item in (item for item in artifacts if item.spec == spec):
            texts.setdefault(_short(item), []).append(f"`{item.protocol}`")
        blocks += [f"## {spec.heading}: {spec.title}", *([spec.note] if spec.note not in ("", note) else [])]
        note = spec.note
        for text, protocols in texts.items():
            blocks += [f"Protocol {', '.join(protocols)}:", text]
    return blocks


def _short(artifact: Artifact) -> str:
    parts = []
    if artifact.content.draw is not None:
        parts.append(f"![{artifact.spec.heading}]({artifact.protocol}/{artifact.spec.stem}.png)")
    if artifact.has_page:
        parts.append((artifact.content.summary or artifact.content.body).replace("### ", "#### "))
    return "\n\n".join(parts)


def _panels(tables: Sequence[Grid], selection: str) -> str:
    body = []
    for table in tables:
        for panel in table.spec.panels:
            part = _part(table, panel)
            everything = agreement.tallies(part, selection)[-1]
            if not everything.cells:
                continue
            columns = [c for c in agreement.columns(part, selection) if c.methods > 1 and compares_methods(table.spec)]
            winners = [c.winner for c in columns if c.winner is not None]
            taus = [c.tau for c in columns if c.tau is not None]
            body.append(
                [
                    f"{panel.name} {panel.title}",
                    table.protocol,
                    everything.cells,
                    f"{everything.agreeing} ({100 * everything.agreeing / everything.cells:.0f}%)",
                    f"{everything.mean_absolute:.1f}",
                    f"{np.median(taus):+.2f}" if taus else "",
                    f"{sum(winners)} of {len(winners)}" if winners else "",
                ]
            )
    heads = ["panel", "protocol", "cells", "agree", "gap", "tau", "same winner"]
    return grid_text(heads, sorted(body, key=lambda row: str(row[0])), numbers_from=2)


def _methods(tables: Sequence[Grid]) -> str:
    tables = [table for table in tables if compares_methods(table.spec)]
    tables = [table for table in tables if any(panel.reference for panel in table.spec.panels)] or tables
    columns = list(dict.fromkeys((table.protocol, table.spec.has_errors) for table in tables))
    names = list(dict.fromkeys(row.label for table in tables for row in table.spec.rows))
    body = []
    for name in names:
        line: list[object] = [name]
        for column in columns:
            same = [table for table in tables if (table.protocol, table.spec.has_errors) == column]
            found = [t for table in same for t in agreement.tallies(table, "best")]
            own = [tally for tally in found if tally.name == name and tally.mean_absolute is not None]
            cells = sum(tally.cells for tally in own)
            gap = sum(tally.cells * (tally.mean_absolute or 0.0) for tally in own) / cells if cells else 0.0
            line.append(f"{sum(t.agreeing for t in own)} of {cells}, {gap:.1f}" if cells else "")
        body.append(line)
    return grid_text(["method", *(f"{protocol}, errors" if of else protocol for protocol, of in columns)], body)


def _means(tables: Sequence[Grid]) -> str:
    """Write per protocol ours over print, each over the columns that this protocol and print share."""
    protocols = _protocols(tables)
    pairs: dict[tuple[Panel, Row], dict[str, list[tuple[float, float]]]] = {}
    for table in tables:
        for cell, found in table.results.items():
            here = pairs.setdefault((cell.panel, cell.row), {})
            theirs = reference.of(cell)
            if found.best is not None and theirs is not None and not theirs.suspect:
                here.setdefault(table.protocol, []).append((found.best.mean, theirs.mean))
    of_errors = {panel for t in tables for panel in t.spec.panels if t.spec.metric_of(panel).error}
    body = []
    for (panel, row), here in pairs.items():
        if here:
            error = panel in of_errors
            texts = [_beside(here[protocol], error) if protocol in here else "" for protocol in protocols]
            body.append([f"{panel.name} {panel.title}", row.label, *texts])
    return grid_text(["panel", "method", *protocols], body, numbers_from=2)


def _beside(pairs: Sequence[tuple[float, float]], error: bool) -> str:
    """Write ``81.2 / 83.0 (15)``: mean of ours, mean of print, columns; of errors ``0.544 / 0.523 (1)``."""
    scale, digits = (1, 3) if error else (100, 1)
    ours, theirs = (scale * sum(side) / len(pairs) for side in zip(*pairs, strict=True))
    return f"{ours:.{digits}f} / {theirs:.{digits}f} ({len(pairs)})"


def _protocols(tables: Sequence[Grid]) -> list[str]:
    return list(dict.fromkeys(table.protocol for table in tables))


def _part(table: Grid, panel: Panel) -> Grid:
    """Keep one panel of a table."""
    return table.narrowed(replace(table.spec, panels=(panel,)))


def _time(filled: Sequence[Grid], source: RunSource) -> str:
    """Sum hours of computing by the seconds in records: a line for each set of tables on the same runs and protocol."""
    groups: dict[tuple[str, frozenset[str]], list[str]] = {}
    configs: dict[str, dict[str, Any]] = {}
    for table in filled:
        needed = needs.needed(table.spec, table.protocol, source)
        configs |= {key: science(config) for key, config in needed.items()}
        groups.setdefault((table.protocol, frozenset(needed)), []).append(table.spec.table)
    body = []
    for (protocol, keys), names in groups.items():
        done = loaded(source, sorted(keys))
        timed = {run.key: run.seconds["total"] for run in on_cpus(done.values())}
        costs = Costs((configs[key], seconds) for key, seconds in timed.items())
        hours = sum(timed[key] if key in timed else costs.seconds(configs[key]) for key in sorted(keys)) / 3600
        about = "" if len(timed) == len(keys) else "about "
        line = [" and ".join(dict.fromkeys(names)), protocol, f"{len(done)} of {len(keys)}"]
        body.append([*line, f"{about}{hours:.1f}", f"{about}{hours / CORES:.1f}"])
    heads = ["table", "protocol", "runs recorded", "hours, one core", f"hours, {CORES} cores"]
    head = (
        "Sum of the seconds in the records, a run on one core; runs still to do, or done by a GPU (`about`), as long "
        "as those most alike. Tuning candidates are counted."
    )
    return f"{head}\n\n{grid_text(heads, body, numbers_from=2)}"
