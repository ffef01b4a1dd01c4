"""Rows that a user has added among the paper's: the rank of each in every column and on average, with error bars.

All ranks are of our own runs at the round that the protocol prints; the printed numbers stand beside them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from fgl_repro.tables import compare, reference
from fgl_repro.tables.entries import Cell, Panel, Row, place, spelled
from fgl_repro.tables.figures import charts
from fgl_repro.tables.paired import ENOUGH, too_few
from fgl_repro.tables.printing import columns_of, decimal, grid_text, number, signed
from fgl_repro.tables.results import DECIMALS, Grid, Stat
from fgl_repro.tables.verdict import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ADDED = "#E0001B"
"""Colour of added rows: no row of the paper has it."""

HOW_TO_READ = (
    "Rank 1 is the best mean of our runs; equal means share a rank. `95 %`: half the interval of the mean over seeds "
    "(Student's t; none for a single run). `behind`: points behind the best of the column, of errors percent. Paper: "
    "the printed number. Rows in bold are added."
)


@dataclass(frozen=True)
class Standing:
    """A row in a column. ``half``: half the 95 % interval of its mean; None for a single run."""

    cell: Cell
    stat: Stat
    rank: float
    half: float | None
    behind: float


def standings(table: Grid, panel: Panel, dataset: str, clients: int) -> list[Standing]:
    """Rank the rows that have a number in a column, the best first."""
    kind, found = table.spec.metric_of(panel), {}
    for cell in (Cell(panel, row, dataset, clients) for row in table.spec.rows):
        if (stat := table.results[cell].at(table.selection)) is not None:
            found[cell] = stat
    if not found:
        return []
    merits = [round(kind.merit(stat.mean), DECIMALS) for stat in found.values()]
    ranks, best = pd.Series(merits).rank(ascending=False), max(merits)
    whole = abs(best) if kind.error and best else 1.0
    out = [
        Standing(cell, stat, rank, _half(stat, table.ddof), 100 * (best - merit) / whole)
        for (cell, stat), rank, merit in zip(found.items(), ranks, merits, strict=True)
    ]
    return sorted(out, key=lambda standing: standing.rank)


def _half(stat: Stat, ddof: int) -> float | None:
    """Compute half the 95 % interval of a mean whose std has ``ddof``."""
    if (std := stat.restated(ddof, 1).std) is None:
        return None
    from scipy.stats import t

    return float(t.ppf(1 - LEVEL / 2, stat.n - 1)) * std / math.sqrt(stat.n)


def averages(table: Grid, panel: Panel) -> pd.DataFrame:
    """Compute mean and std of the ranks, by row's label, over the columns that all added rows have; the best first.

    Only rows that have a number in all of them are ranked. ``firsts``: in how many columns a row is the best.
    """
    places = [found for at in table.spec.places if (found := standings(table, panel, *at))]
    own = set(table.spec.added_rows)
    shared = [found for found in places if own <= {standing.cell.row.id for standing in found}]
    merit = table.spec.metric_of(panel).merit
    columns = [pd.Series({each.cell.row.label: merit(each.stat.mean) for each in found}) for found in shared]
    if not columns:
        return pd.DataFrame(columns=["rank", "std", "firsts", "columns"])
    ranks = pd.concat(columns, axis=1).dropna().round(DECIMALS).rank(ascending=False)
    spread = {"rank": ranks.mean(axis=1), "std": ranks.std(axis=1, ddof=1), "firsts": (ranks == 1).sum(axis=1)}
    return pd.DataFrame(spread).assign(columns=len(columns)).sort_values("rank", kind="stable")


def rows(table: Grid) -> list[dict[str, Any]]:
    """Write a line of the CSV for each row that has a number, by column and rank."""
    out = []
    for panel in table.spec.panels:
        for standing in (each for at in table.spec.places for each in standings(table, panel, *at)):
            line = compare.head(table, standing.cell) | {"rank": f"{standing.rank:g}"}
            line |= columns_of(standing.stat, 6, "mean", "std", "n_seeds") | {"half": decimal(standing.half, 6)}
            line |= {"wanted": table.results[standing.cell].wanted}
            theirs = reference.of(standing.cell)
            line |= {"behind": decimal(standing.behind, 2), "paper_mean": decimal(theirs.mean if theirs else None, 6)}
            out.append(line | {"added": int(standing.cell.row.id in table.spec.added_rows)})
    return out


def markdown(table: Grid) -> str:
    """Write a page: average ranks of each panel, then every column."""
    spec = table.spec
    blocks = [
        f"# {spec.full_title}",
        f"{spec.note} Protocol `{table.protocol}`, {table.round_name(table.selection)}. {HOW_TO_READ}",
    ]
    for panel in spec.panels:
        blocks += [f"## {panel.name}: {panel.title}", _averages(table, panel)]
        blocks += [text for at in spec.places for text in _column(table, panel, *at)]
    own = [
        f"{row.method}:{row.variant}" if row.variant else row.method for row in spec.rows if row.id in spec.added_rows
    ]
    command = f"`fgl-table test {spec.name} --protocol {table.protocol} --add {','.join(own)}`"
    tests = f"{command} asks whether a row is better than each of the others, seed by seed"
    few = too_few(spec, table.protocol)
    wants = f"; it wants {ENOUGH} seeds, and {few}" if few else ""
    blocks += [f"{tests}{wants}.", *compare.fine_tuned(table), *filter(None, [spec.blank])]
    return "\n\n".join(blocks) + "\n"


def _label(table: Grid, label: str) -> str:
    own = {row.label for row in table.spec.rows if row.id in table.spec.added_rows}
    return f"**{label}**" if label in own else label


def _averages(table: Grid, panel: Panel) -> str:
    found = averages(table, panel)
    if found.empty:
        return "There is no column yet that all added rows have."
    body = [
        [_label(table, str(label)), f"{line['rank']:.2f}", decimal(_known(line["std"]), 2), int(line["firsts"])]
        for label, line in found.iterrows()
    ]
    count = int(found["columns"].iloc[0])
    head = f"Over {count} columns, of the rows that have a number in all of them:" if count > 1 else "In one column:"
    return f"{head}\n\n{grid_text(['method', 'mean rank', 'std over columns', 'best in'], body)}"


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _column(table: Grid, panel: Panel, dataset: str, clients: int) -> list[str]:
    form = table.spec.format_of(panel)
    scale, digits = (100, 2) if form == "percent" else (1, 4)
    body = []
    for each in standings(table, panel, dataset, clients):
        half = "" if each.half is None else f"± {scale * each.half:.{digits}f}"
        paper = compare.paper_number(reference.of(each.cell), form)
        ours = f"{number(each.stat, form)} ({each.stat.n})"
        label = _label(table, each.cell.row.label)
        body.append([f"{each.rank:g}", label, ours, half, signed(-each.behind) if each.behind else "", paper])
    heads = ["rank", "method", "ours (seeds)", "95 %", "behind", "paper"]
    return [f"### {place(dataset, clients)}", grid_text(heads, body, numbers_from=2)] if body else []


def draw(figure: Figure, table: Grid) -> None:
    """Draw a chart a panel: numbers by column with one std, and beside it average ranks and their std over columns."""
    spec = table.spec
    width = max(0.8 * len(spec.drawn), 3.0)
    figure.set_size_inches(width + 4.5, max(0.28 * len(spec.rows) + 1.5, 3.0) * len(spec.panels))
    grid = figure.subplots(len(spec.panels), 2, squeeze=False, width_ratios=(width, 3.0))
    for (left, right), panel in zip(grid, spec.panels, strict=True):
        _numbers(left, table, panel)
        _ranks(right, table, panel)
    charts.legend(figure)


def _style(table: Grid, row: Row) -> tuple[str, str]:
    """Choose colour and mark of a row; those of added ones are like no other's."""
    number_of, added = table.spec.rows.index(row), len(table.spec.rows) - len(table.spec.added_rows)
    color, mark, _ = charts.style(number_of if number_of < added else number_of - added)
    return (color, mark) if number_of < added else (ADDED, mark)


def _numbers(chart: Axes, table: Grid, panel: Panel) -> None:
    spec, kind = table.spec, table.spec.metric_of(panel)
    for number_of, row in enumerate(spec.rows):
        shift = charts.aside(number_of, len(spec.rows), 0.7)
        found = [table.results[Cell(panel, row, *at)].at(table.selection) for at in spec.drawn]
        points = [(x + shift, kind.scale * s.mean, kind.scale * charts.bar(s.std)) for x, s in enumerate(found) if s]
        if points:
            color, mark = _style(table, row)
            x, mean, std = (list(values) for values in zip(*points, strict=True))
            chart.errorbar(x, mean, yerr=std, fmt=mark, color=color, capsize=2.5, elinewidth=1.2, label=row.label)
    chart.set_xticks(range(len(spec.drawn)), [f"{spelled(d)}\n{k}" for d, k in spec.drawn], fontsize=7.5)
    ylabel = charts.axis(kind) + table.dagger(table.selection)
    charts.tidy(chart, "", ylabel, f"{panel.name}  {panel.title}", whole=False)


def _ranks(chart: Axes, table: Grid, panel: Panel) -> None:
    found, by_label = averages(table, panel), {row.label: row for row in table.spec.rows}
    for y, (label, line) in enumerate(found.iterrows()):
        color, mark = _style(table, by_label[str(label)])
        chart.errorbar(line["rank"], y, xerr=line["std"], fmt=mark, color=color, capsize=2.5)
    chart.set_yticks(range(len(found)), [str(label) for label in found.index], fontsize=7.5)
    chart.invert_yaxis()
    charts.tidy(chart, "rank, mean and std over columns", "", whole=False)
