"""Which method is best, with error bars: average ranks over columns and splits, and which of them can be told apart.

Methods are ranked in every column (data set and client count) on every split that the seeds draw. A rank's spread is
that over splits; whether ranks differ is asked over columns, as Demšar proposes for several data sets (JMLR 7, 2006):
Friedman's test, then Nemenyi's, on means over splits. Columns of one data set are no independent draws, so that the
tests are too sure rather than too timid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

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

NOT_YET = "Ranks need two columns in which at least three methods have every split; there are not as many yet."


@dataclass(frozen=True)
class Ranks:
    """Ranks in a panel; 1 is the best.

    Attributes:
        mean: Over columns and splits, by row's label.
        std: Over splits (each the mean over columns), by row's label.
        columns: Which, as titles.
        splits: Over how many.
        friedman: p-value of all methods being alike.
        nemenyi: p-values of pairs of methods being alike.
    """

    mean: pd.Series[float]
    std: pd.Series[float]
    columns: tuple[str, ...]
    splits: int
    friedman: float
    nemenyi: pd.DataFrame


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
    head += "A column counts where every method that ran has every split."
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
    from scipy.stats import friedmanchisquare

    by_split = whole.rank(axis=1, ascending=False).groupby(level="seed").mean()
    means = whole.groupby(level="column").mean()
    p = float(friedmanchisquare(*(means[name] for name in means)).pvalue)
    pairs = posthoc_nemenyi_friedman(means)
    return Ranks(by_split.mean(), by_split.std(ddof=1), columns, len(by_split), p, pairs)


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
    there = found is not None and row.label in found.mean
    out: dict[str, Any] = {"paper": spec.paper, spec.sort: spec.table, "panel": panel.name, "protocol": protocol}
    out |= {"method": row.method, "name": row.name, "variant": row.variant, "label": row.label}
    out |= {"rank": decimal(float(found.mean[row.label]) if there and found else None, 3)}
    out |= {"std": decimal(float(found.std[row.label]) if there and found else None, 3)}
    out |= {"n_seeds": found.splits if there and found else 0, "wanted": len(spec.seeds)}
    out |= {"columns": len(found.columns) if there and found else 0}
    own = next((r.label for r in spec.rows if r.name == spec.proposed and found and r.label in found.mean), "")
    p = float(found.nemenyi[own][row.label]) if there and found and own not in ("", row.label) else None
    return out | {"p_as_proposed": decimal(p, 4)}


def _sentence(spec: TableSpec, found: Ranks) -> str:
    alike = "cannot be told apart" if found.friedman >= LEVEL else "differ"
    own = next((row.label for row in spec.rows if row.name == spec.proposed and row.label in found.mean), "")
    text = f"{len(found.columns)} columns, {found.splits} splits; methods {alike} (Friedman, p = {found.friedman:.2g})."
    if not own:
        return f"{text} {spec.proposed} has not run."
    ahead = [name for name in found.mean.index if found.mean[name] < found.mean[own]]
    differing = [name for name in found.mean.index if name != own and found.nemenyi[own][name] < LEVEL]
    text += f" {own} has rank {found.mean[own]:.2f} ± {found.std[own]:.2f}, "
    text += f"behind {', '.join(ahead)}; " if ahead else "ahead of all; "
    return f"{text}told apart from {', '.join(differing) or 'none'} (Nemenyi, {100 * LEVEL:.0f} %)."


def _grid(lines: Sequence[dict[str, Any]]) -> str:
    ran = sorted((line for line in lines if line["rank"]), key=lambda line: float(line["rank"]))
    body = [[line["label"], line["rank"], line["std"], line["paper_rank"], line["p_as_proposed"]] for line in ran]
    return grid_text(["method", "rank", "std over splits", "in print", "p, as good as the proposed"], body)


def draw(figure: Figure, panels: Sequence[tuple[Panel, Ranks]]) -> None:
    """Draw a critical-difference diagram a panel: methods that a bar joins cannot be told apart (Nemenyi, 5 %)."""
    from scikit_posthocs import critical_difference_diagram

    figure.set_size_inches(8, 2.4 * len(panels))
    for chart, (panel, found) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        colors = {name: charts.style(number)[0] for number, name in enumerate(found.mean.index)}
        critical_difference_diagram(found.mean, found.nemenyi, ax=chart, color_palette=colors)
        for line in chart.lines:  # the package draws bars through sets of names, in another order in every process
            if len(set(line.get_ydata())) == 1:
                line.set_xdata(sorted(line.get_xdata()))
        chart.set_title(
            f"{panel.title}: average rank, {len(found.columns)} columns, {found.splits} splits", fontsize=10
        )
