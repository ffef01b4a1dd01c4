"""Does a printed number come back? Verdicts from prediction intervals, for one cell and for many at once.

Our runs of a cell are draws of whatever their seeds draw: under a protocol that redraws splits, of split and seed, as
the printed number is a draw of the authors' split and seeds. If printed number and runs stem from one normal
distribution, ``(printed - mean) / (s sqrt(1 + 1/n))`` has Student's t distribution with n - 1 degrees of freedom (Hahn
and Meeker, Statistical Intervals, 1991), whence interval and p-value. Which cells differ is decided for all cells of a
question together, so that among those said to differ a twentieth at most is expected to be there by chance (Benjamini
and Hochberg, 1995).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fgl_repro.tables.reference import Reference
from fgl_repro.tables.results import Stat

LEVEL = 0.05
"""Share of cells said to differ that may be there by chance, and one minus the coverage of intervals."""

POINTS = 3.0
"""Largest gap at which a number counts as reproduced: in points, of an error in percent of the printed number.

An error has no natural width as a share has. Three percent of it are about one printed std (2 to 3.5 percent in the
one column of errors that there is, FedVN's on ZINC) and less than the margin claimed there, 3.7 percent.
"""

LEAST = 0.1
"""Least std of a run, in the unit of gaps: seeds may agree to the digit (a client that always answers one class), but
another CPU moves an accuracy by about as much."""

REPRODUCED, WITHIN, DIFFERS, NOTHING = "reproduced", "within the spread", "differs", "no evidence"
VERDICTS = (REPRODUCED, WITHIN, DIFFERS, NOTHING)


@dataclass(frozen=True)
class Evidence:
    """One printed number and the runs beside it, in points; of errors in percent of the printed number.

    Attributes:
        gap: Mean of our runs minus the printed number; None where one of the two is missing.
        half: Half the width of the 95 % prediction interval around our mean; None for fewer than two runs.
        p: Probability of a gap at least as large if printed number and runs have one distribution; None likewise.
        silent: Why the cell can say nothing, if so.
    """

    gap: float | None = None
    half: float | None = None
    p: float | None = None
    silent: str = ""


def evidence(
    theirs: Reference | None, ours: Stat | None, ddof: int, chance: float = 0.0, least: float = LEAST
) -> Evidence:
    """Find what the runs of a cell say about its printed number.

    Args:
        ddof: Delta degrees of freedom of our std.
        chance: Accuracy of guessing, 0 for an error. Where neither side is above it, agreement is free.
        least: Std of a run that is assumed at least, in the unit of gaps.
    """
    if theirs is None or ours is None:
        return Evidence(silent="not printed" if theirs is None else "not run")
    gap, freedom = 100 * (ours.mean - theirs.mean) / theirs.whole, ours.n - 1
    if ours.std is None:
        return Evidence(gap, silent="a single run")
    from scipy.stats import t

    std = max(100 * (ours.restated(ddof, 1).std or 0.0) / theirs.whole, least)
    spread = std * math.sqrt(1 + 1 / ours.n)
    p = 2 * float(t.sf(abs(gap) / spread, freedom))
    silent = "misprint" if theirs.suspect else "chance" if max(ours.mean, theirs.mean) <= chance else ""
    return Evidence(gap, float(t.ppf(1 - LEVEL / 2, freedom)) * spread, p, silent)


def differing(p: Sequence[float]) -> np.ndarray:
    """Mark the hypotheses rejected at a false discovery rate of LEVEL, bool ``[len(p)]`` (Benjamini and Hochberg)."""
    order = np.argsort(p)
    below = np.flatnonzero(np.asarray(p)[order] <= LEVEL * np.arange(1, len(p) + 1) / max(len(p), 1))
    out = np.zeros(len(p), dtype=bool)
    out[order[: below[-1] + 1 if len(below) else 0]] = True
    return out


def verdicts(cells: Sequence[Evidence], counted: Sequence[bool] | None = None) -> list[str]:
    """Give the verdict on each of the cells that answer one question together.

    ``differs`` if its p-value is rejected among theirs, else ``reproduced`` if the gap is at most POINTS, else ``within
    the spread``. ``no evidence`` if it is silent.

    Args:
        counted: Which of them set the limit of p-values, bool ``[len(cells)]``, where several face one printed number;
            all do where nothing is given.
    """
    known = [(cell.p, counted is None or counted[i]) for i, cell in enumerate(cells) if not cell.silent]
    asked = [p for p, counts in known if p is not None and counts]
    limit = max((p for p, rejected in zip(asked, differing(asked), strict=True) if rejected), default=-1.0)
    out = []
    for cell in cells:
        if cell.silent or cell.p is None or cell.gap is None:
            out.append(NOTHING)
        else:
            out.append(DIFFERS if cell.p <= limit else REPRODUCED if abs(cell.gap) <= POINTS else WITHIN)
    return out


def power(runs: int, std: float, points: float) -> float:
    """Compute how probably a printed number ``points`` off the truth is outside the 95 % interval of so many runs.

    Args:
        std: Of a single run, in points; the printed number is one draw, too.
    """
    from scipy.stats import ncf, t

    edge, shift = t.ppf(1 - LEVEL / 2, runs - 1), points / (std * math.sqrt(1 + 1 / runs))
    return float(ncf.sf(edge**2, 1, runs - 1, shift**2))  # the square of a noncentral t
