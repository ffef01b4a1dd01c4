"""The old rule, beside ``verdict``: a number agrees within two points or two pooled stds; ranks of methods by column.

Of an error two percent of the printed number are what two points are of a share.

A printed number whose note has the word ``suspect`` (a misprint, by its reference file) is shown and never counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from fgl_repro.tables import reference
from fgl_repro.tables.entries import Cell, Panel
from fgl_repro.tables.reference import Reference
from fgl_repro.tables.results import Grid, Stat

TOLERANCE = 0.02  # two points agree whatever the stds are
POOLED_STDS = 2.0
COUNTED = ("agrees", "differs")


@dataclass(frozen=True)
class Difference:
    """Ours minus the paper's.

    Attributes:
        points: Percentage points, of an error percent of the printed number; None where one of the two is missing.
        stds: In pooled standard deviations, ``sqrt((paper^2 + ours^2) / 2)``, or in the only one; None where that is 0
            or both are missing.
        old_rule: ``agrees``, ``differs``, ``suspect``, ``not run`` or ``not printed``.
    """

    points: float | None
    stds: float | None
    old_rule: str


@dataclass(frozen=True)
class ColumnAgreement:
    """One data set and client count of a panel, over the methods that both sides have: of each its first row that ran.

    Attributes:
        tau: Kendall's tau-b of the two rankings; None with fewer than two methods or a constant side.
        winner: Whether a method that is best here is best there; None with fewer than two methods.
    """

    panel: Panel
    dataset: str
    clients: int
    methods: int
    tau: float | None
    winner: bool | None


@dataclass(frozen=True)
class Tally:
    """How a method (or all) fares over the cells that count."""

    name: str
    cells: int
    agreeing: int
    mean_absolute: float | None


def difference(theirs: Reference | None, ours: Stat | None) -> Difference:
    """Compare one number; agreement is within two points (percent of an error) or two pooled std, whichever is wider.

    Both stds have the ddof of print, see ``Protocol.ddof``.
    """
    if theirs is None or ours is None:
        return Difference(None, None, "not printed" if theirs is None else "not run")
    gap = (ours.mean - theirs.mean) / theirs.whole
    known = [std for std in (theirs.std, ours.std) if std is not None]
    pooled = float(np.sqrt(np.mean(np.square(known)))) / theirs.whole if known else 0.0
    near = abs(gap) <= max(TOLERANCE, POOLED_STDS * pooled) + 1e-12
    word = "suspect" if theirs.suspect else "agrees" if near else "differs"
    return Difference(100 * gap, gap / pooled if pooled > 0 else None, word)


def resting_on_ddof(table: Grid, cells: Iterable[Cell]) -> int:
    """Count cells that would agree instead of differ, or the other way round, had print the other ddof (0 or 1)."""
    changed = 0
    for cell in cells:
        theirs, ours = reference.of(cell), table.results[cell].at(table.selection)
        other = ours and ours.restated(table.ddof, 0 if table.ddof else 1)
        changed += difference(theirs, ours).old_rule != difference(theirs, other).old_rule
    return changed


def columns(table: Grid, selection: str) -> list[ColumnAgreement]:
    """Measure the rank agreement of each column."""
    out = []
    for panel, (dataset, clients) in product(table.spec.panels, table.spec.places):
        pairs: dict[str, tuple[float, float]] = {}
        merit = table.spec.metric_of(panel).merit
        for row in table.spec.rows:
            cell = Cell(panel, row, dataset, clients)
            theirs, ours = reference.of(cell), table.results[cell].at(selection)
            if theirs and ours and difference(theirs, ours).old_rule in COUNTED:
                pairs.setdefault(row.name, (merit(theirs.mean), merit(ours.mean)))
        both = list(pairs.values())
        out.append(ColumnAgreement(panel, dataset, clients, len(both), tau(both), same_winner(both)))
    return out


def tau(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Compute Kendall's tau-b between first and second numbers, which are tied where six digits are equal."""
    if len(pairs) < 2:
        return None
    from scipy.stats import kendalltau

    value = float(kendalltau(*np.round(pairs, 6).T).statistic)
    return None if math.isnan(value) else value


def same_winner(pairs: Sequence[tuple[float, float]]) -> bool | None:
    """Tell whether the best by the first numbers (one of them, if tied) is also best by the second."""
    if len(pairs) < 2:
        return None
    best = [max(side) for side in zip(*pairs, strict=True)]
    return any(theirs == best[0] and ours == best[1] for theirs, ours in pairs)


def tallies(table: Grid, selection: str) -> list[Tally]:
    """Make one tally a method, and ``all`` last."""
    gaps: dict[str, list[Difference]] = {row.label: [] for row in table.spec.rows}
    for cell, found in table.results.items():
        gap = difference(reference.of(cell), found.at(selection))
        if gap.old_rule in COUNTED:
            gaps[cell.row.label].append(gap)
    out = []
    for name, group in {**gaps, "all": [gap for own in gaps.values() for gap in own]}.items():
        points = [abs(gap.points) for gap in group if gap.points is not None]
        agreeing = sum(gap.old_rule == "agrees" for gap in group)
        out.append(Tally(name, len(group), agreeing, sum(points) / len(points) if points else None))
    return out
