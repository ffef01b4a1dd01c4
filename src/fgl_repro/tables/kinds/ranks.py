"""Which method is best, with error bars: average ranks over columns and splits, and which of them can be told apart.

Methods are ranked in every column (data set and client count) by their means over the splits that the seeds draw, and
beside that on every split, whence a rank's spread. Whether ranks differ is asked over columns, as Demšar proposes for
several data sets (JMLR 7, 2006): Friedman's test, then Nemenyi's, of the means. Friedman's statistic is compared with
those of permuted columns, since with two or three columns it is not distributed as chi-square. Columns of one data set
are no independent draws, so that the tests are too sure rather than too timid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fgl_repro.data.catalog import rebuilds
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import reference, results
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell, Panel, Row, place
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import common
from fgl_repro.tables.printing import decimal, grid_text
from fgl_repro.tables.results import printed_round, printed_round_name
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.verdict import LEVEL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TELLS_ERRORS = True

PERMUTATIONS = 50_000
"""Of the ranks within columns, among which Friedman's statistic is looked up."""

NOT_YET = "Ranks need two columns in which at least three methods have every split; there are not as many yet."


@dataclass(frozen=True)
class Ranks:
    """Ranks in a panel; 1 is the best.

    Attributes:
        mean: Over columns, of the means over splits, by row's label: what the tests compare.
        std: Of the ranks on single splits (each the mean over columns), by row's label.
        columns: Which, as titles.
        splits: Over how many.
        friedman: p-value of all methods being alike.
        nemenyi: p-values of pairs of methods being alike.
        tells_nobody_apart: Whether Nemenyi's test could not tell even the first from the last over so few columns.
    """

    mean: pd.Series[float]
    std: pd.Series[float]
    columns: tuple[str, ...]
    splits: int
    friedman: float
    nemenyi: pd.DataFrame
    tells_nobody_apart: bool


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid a panel: rank, its spread, and how sure it is that the paper's own method has another one."""
    rows: list[dict[str, Any]] = []
    parts, drawn = [], []
    for panel in spec.panels:
        found = ranked(accuracies(spec, panel, protocol, source), len(spec.seeds))
        paper = {} if found is None else printed_ranks(spec, panel, found)
        lines = [
            _line(spec, protocol, panel, row, found) | {"paper_rank": decimal(paper.get(row.label), 3)}
            for row in spec.rows
        ]
        rows += lines
        text = NOT_YET if found is None else f"{_sentence(spec, found)}\n\n{_grid(lines)}"
        parts.append(f"### {panel.title}\n\n{text}")
        drawn += [] if found is None else [(panel, found)]
    what = "errors, of which the least is best," if spec.has_errors else "accuracies"
    head = f"Rank 1 is the best; {what} at the {printed_round_name(spec, protocol)}. "
    head += "A column counts where every method that ran has every split. Ranks are those of means over splits, which "
    head += "the tests compare; their std is that of the ranks on single splits. Columns of one data set are no "
    head += "independent draws, so that the tests are too sure rather than too timid."
    done = sum(row["rank"] != "" for row in rows)
    body = "\n\n".join([head, *filter(None, [rebuilds(spec.datasets)]), *parts])
    drawing = (lambda figure: draw(figure, drawn)) if drawn else None
    return Content(rows, body, done, len(rows), draw=drawing, shown="ranks (a bar joins what cannot be told apart)")


def accuracies(spec: TableSpec, panel: Panel, protocol: str, source: RunSource) -> pd.DataFrame:
    """Make a line a run: row's label, column, seed (which draws the split), and accuracy or the minus of an error."""
    found = []
    for row, (dataset, clients) in product(spec.rows, spec.places):
        for record in common.recorded(spec, Cell(panel, row, dataset, clients), protocol, source):
            value = results.measured(record, panel.probe, printed_round(spec, protocol), spec.metric_name(panel))
            merit = None if value is None else spec.metric_of(panel).merit(value)
            found.append((row.label, place(dataset, clients), record.config["seed"], merit))
    return pd.DataFrame(found, columns=["row", "column", "seed", "value"]).dropna()


def ranked(values: pd.DataFrame, splits: int) -> Ranks | None:
    """Rank the methods that ran; None with fewer than three of them or fewer than two whole columns."""
    wide = values.pivot_table(index=["column", "seed"], columns="row", values="value", sort=False).dropna()
    whole = wide.groupby(level="column").filter(lambda own: len(own) == splits)
    columns = tuple(dict.fromkeys(whole.index.get_level_values("column")))
    if len(columns) < 2 or whole.shape[1] < 3:
        return None
    from scikit_posthocs import posthoc_nemenyi_friedman

    by_split = whole.rank(axis=1, ascending=False).groupby(level="seed").mean()
    means = whole.groupby(level="column").mean().round(results.DECIMALS)
    ranks = means.rank(axis=1, ascending=False)
    p, pairs, few = friedman(ranks.to_numpy()), posthoc_nemenyi_friedman(means), tells_nobody_apart(*ranks.shape)
    return Ranks(ranks.mean(), by_split.std(ddof=1), columns, len(by_split), p, pairs, few)


def friedman(ranks: np.ndarray) -> float:
    """Compute the p-value of the methods being alike: how often permuted columns have rank sums as far apart.

    Args:
        ranks: Of k methods in n columns, ``[n, k]``.
    """
    each = np.random.default_rng(0).permuted(np.broadcast_to(ranks, (PERMUTATIONS, *ranks.shape)), axis=2)
    apart = np.square(each.sum(1)).sum(1)  # which goes with Friedman's chi-square, ties or none
    return float(1 + np.sum(apart >= np.square(ranks.sum(0)).sum() - 1e-6)) / (1 + PERMUTATIONS)


def tells_nobody_apart(columns: int, methods: int) -> bool:
    """Tell whether Nemenyi's test could not tell a method that is always first from one that is always last."""
    from scikit_posthocs import posthoc_nemenyi_friedman

    alike = pd.DataFrame([np.arange(methods)] * columns)
    return bool(posthoc_nemenyi_friedman(alike).iloc[0, -1] >= LEVEL)


def printed_ranks(spec: TableSpec, panel: Panel, found: Ranks) -> dict[str, float]:
    """Rank the printed numbers over the same columns (without blanks and misprints), by row's label."""
    labels, merit = [row.label for row in spec.rows if row.label in found.mean], spec.metric_of(panel).merit
    ranks = []
    for at in (at for at in spec.places if place(*at) in found.columns):
        cells = [Cell(panel, row, *at) for row in spec.rows if row.label in labels]
        theirs = [reference.of(cell) for cell in cells]
        if not any(number is None or number.suspect for number in theirs):
            ranks.append(pd.Series([-merit(number.mean) for number in theirs if number]).rank())
    return dict(zip(labels, pd.concat(ranks, axis=1).mean(axis=1), strict=True)) if ranks else {}


def _line(spec: TableSpec, protocol: str, panel: Panel, row: Row, found: Ranks | None) -> dict[str, Any]:
    """Write a row's line of the CSV; its p-value is that of being as good as the paper's own method."""
    label, ranks = row.label, found if found is not None and row.label in found.mean else None
    out: dict[str, Any] = {"paper": spec.paper, spec.sort: spec.table, "panel": panel.name, "protocol": protocol}
    out |= {"method": row.method, "name": row.name, "variant": row.variant, "label": label}
    blank = {"rank": "", "std": "", "n_seeds": 0, "wanted": len(spec.seeds), "columns": 0, "p_as_proposed": ""}
    if ranks is None:
        return out | blank
    own = _proposed(spec, ranks)
    p = float(ranks.nemenyi[own][label]) if own not in ("", label) else None
    out |= blank | {"rank": f"{ranks.mean[label]:.3f}", "std": f"{ranks.std[label]:.3f}", "n_seeds": ranks.splits}
    return out | {"columns": len(ranks.columns), "p_as_proposed": decimal(p, 4)}


def _proposed(spec: TableSpec, found: Ranks) -> str:
    """Name the row of the paper's own method, the first of several; empty where it is not ranked."""
    return next((row.label for row in spec.rows if row.name == spec.proposed and row.label in found.mean), "")


def _sentence(spec: TableSpec, found: Ranks) -> str:
    alike = "cannot be told apart" if found.friedman >= LEVEL else "differ"
    own = _proposed(spec, found)
    p = f"p = {found.friedman:.2g}" if found.friedman >= 1e-4 else "p < 0.0001"
    text = f"{len(found.columns)} columns, {found.splits} splits; methods {alike} (Friedman, {p})."
    if not own:
        return f"{text} {spec.proposed} has not run."
    ahead = [name for name in found.mean.index if found.mean[name] < found.mean[own]]
    differing = [name for name in found.mean.index if name != own and found.nemenyi[own][name] < LEVEL]
    text += f" {own} has rank {found.mean[own]:.2f} ± {found.std[own]:.2f}, "
    text += f"behind {', '.join(ahead)}; " if ahead else "ahead of all; "
    if found.tells_nobody_apart:
        return f"{text}so few columns can tell nobody apart (Nemenyi)."
    return f"{text}told apart from {', '.join(differing) or 'none'} (Nemenyi, {100 * LEVEL:.0f} %)."


def _grid(lines: Sequence[dict[str, Any]]) -> str:
    ran = sorted((line for line in lines if line["rank"]), key=lambda line: float(line["rank"]))
    p = {line["label"]: "< 0.0001" if line["p_as_proposed"] == "0.0000" else line["p_as_proposed"] for line in ran}
    body = [[line["label"], line["rank"], line["std"], line["paper_rank"], p[line["label"]]] for line in ran]
    return grid_text(["method", "rank", "std over splits", "in print", "p, alike the paper's own method"], body)


def draw(figure: Figure, panels: Sequence[tuple[Panel, Ranks]]) -> None:
    """Draw a critical-difference diagram a panel: methods that a bar joins cannot be told apart (Nemenyi, 5 %)."""
    from scikit_posthocs import critical_difference_diagram

    figure.set_size_inches(8, 2.4 * len(panels))
    for chart, (panel, found) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        colors = {name: charts.style(number)[0] for number, name in enumerate(found.mean.index)}
        shown = {"label_fmt_left": "{label} ({rank:.1f})", "label_fmt_right": "({rank:.1f}) {label}"}
        critical_difference_diagram(found.mean, found.nemenyi, ax=chart, color_palette=colors, **shown)
        for line in chart.lines:  # the package draws bars through sets of names, in another order in every process
            if len(set(line.get_ydata())) == 1:
                line.set_xdata(sorted(line.get_xdata()))
        few = ": too few to tell any apart" if found.tells_nobody_apart else ""
        title = f"{panel.title}: average rank, {len(found.columns)} columns, {found.splits} splits{few}"
        chart.set_title(title, fontsize=10)
