"""Verdicts on made-up cells, and on simulated papers whose numbers are draws from our own distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fgl_repro.tables.reference import Reference
from fgl_repro.tables.results import stat
from fgl_repro.tables.verdict import (
    DIFFERS,
    LEVEL,
    NOTHING,
    REPRODUCED,
    WITHIN,
    Evidence,
    differing,
    evidence,
    power,
    verdicts,
)

CLOSE = [0.80, 0.81, 0.82, 0.81, 0.80]
WIDE = [0.40, 0.80, 0.60, 0.75, 0.45]


def of(runs: list[float], printed: float | None, note: str = "", chance: float = 0.0, ddof: int = 0) -> Evidence:
    theirs = None if printed is None else Reference(printed, None, note)
    return evidence(theirs, stat(runs, ddof), ddof, chance)


@pytest.mark.parametrize(
    ("runs", "printed", "said", "verdict"),
    [
        (CLOSE, 0.81, {}, REPRODUCED),
        (CLOSE, 0.90, {}, DIFFERS),
        (WIDE, 0.61, {}, REPRODUCED),
        (WIDE, 0.75, {}, WITHIN),
        (CLOSE, 0.81, {"note": "suspect: copied"}, NOTHING),
        (CLOSE, None, {}, NOTHING),
        ([], 0.81, {}, NOTHING),
        ([0.81], 0.81, {}, NOTHING),
        ([0.0, 0.0, 0.0], 0.004, {"chance": 1 / 7}, NOTHING),
        ([0.0, 0.0, 0.0], 0.4, {"chance": 1 / 7}, DIFFERS),
        ([0.5, 0.5], 0.5, {}, REPRODUCED),
        ([0.5, 0.5, 0.5], 0.503, {}, REPRODUCED),
        ([0.5, 0.5, 0.5], 0.52, {}, DIFFERS),
    ],
)
def test_verdict_on_a_cell(runs: list[float], printed: float | None, said: dict[str, Any], verdict: str) -> None:
    assert verdicts([of(runs, printed, **said)]) == [verdict]


def test_the_interval_is_students() -> None:
    """Five runs with std 1: t(4) at 97.5 % is 2.776, times sqrt(6/5)."""
    runs = 0.5 + 0.01 * np.array([-1, -1, 0, 1, 1])
    found = of(runs.tolist(), 0.5)
    assert found == of(runs.tolist(), 0.5, ddof=1), "whichever std the protocol prints"
    assert found.half == pytest.approx(2.776 * np.sqrt(6 / 5), abs=1e-3)
    edge = 0.5 + found.half / 100
    assert of(runs.tolist(), edge).p == pytest.approx(LEVEL)


def test_seeds_that_nearly_agree_know_a_number_no_better_than_seeds_that_do() -> None:
    """Another CPU moves an accuracy by about as much as the least std."""
    same, near = of([0.5, 0.5, 0.5], 0.501), of([0.5, 0.5, 0.50002], 0.501)
    assert near.half == same.half
    assert near.p == pytest.approx(same.p, rel=0.05)


def test_why_a_cell_is_silent() -> None:
    whys = [of(*cell).silent for cell in (([], 0.5), ([0.5], None), ([0.5], 0.5))]
    assert whys == ["not run", "not printed", "a single run"]


def test_benjamini_and_hochbergs_own_example() -> None:
    """Fifteen p-values of their paper's section 3.2: four are rejected at 0.05."""
    p = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.3240,
        0.4262,
        0.5719,
        0.6528,
        0.7590,
        1,
    ]
    assert differing(p).sum() == 4
    assert differing(p[::-1])[-4:].all()
    assert differing([]).shape == (0,)


def test_a_number_that_several_rows_face_counts_once() -> None:
    """Two cells of which one counts set the limit of one alone, and the other one is compared with it."""
    cells = [Evidence(5.0, 1.0, p) for p in (0.001, 0.035, 0.035, 0.9, 0.9)]
    assert verdicts(cells) == [DIFFERS] + [WITHIN] * 4
    assert verdicts(cells, [True, True, False, False, False]) == [DIFFERS] * 3 + [WITHIN] * 2
    assert verdicts(cells, [False] * 5) == [WITHIN] * 5
    assert verdicts([*cells, Evidence(silent="chance", p=0.0)], [True] * 6)[-1] == NOTHING


def simulated(rng: np.random.Generator, shift: float, cells: int = 1000, runs: int = 5) -> list[list[float]]:
    """Runs of each cell, and last its printed number, which is one draw more, ``shift`` points off."""
    level, std = rng.uniform(0.3, 0.9, (cells, 1)), rng.uniform(0.005, 0.05, (cells, 1))
    draws = level + std * rng.standard_normal((cells, runs + 1))
    draws[:, -1] += shift / 100
    return draws.tolist()


def test_a_paper_drawn_from_our_own_distribution_differs_at_the_stated_rate() -> None:
    papers = [simulated(np.random.default_rng(seed), 0.0) for seed in range(3)]
    found = [[of(cell[:-1], cell[-1]) for cell in paper] for paper in papers]
    rates = [np.mean([(cell.p or 0) < LEVEL for cell in paper]) for paper in found]
    assert rates == pytest.approx([LEVEL] * 3, abs=4 * np.sqrt(LEVEL * (1 - LEVEL) / 1000))
    assert np.mean([verdicts(paper).count(DIFFERS) for paper in found]) < 0.002 * 1000  # corrected


@pytest.mark.parametrize("std", [1.0, 3.0])
def test_ten_points_off_are_found_with_the_stated_power(std: float) -> None:
    draws = 0.5 + std / 100 * np.random.default_rng(1).standard_normal((1000, 6))
    outside = [(of(cell[:-1].tolist(), cell[-1] + 0.1).p or 0) < LEVEL for cell in draws]
    assert np.mean(outside) == pytest.approx(power(5, std, 10.0), abs=0.06)
    assert power(5, 1.0, 10.0) > 0.99 > power(5, 3.0, 10.0) > 0.5
