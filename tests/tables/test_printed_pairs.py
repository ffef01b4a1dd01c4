"""Verdicts on printed numbers that are no cells of a grid."""

from __future__ import annotations

from typing import Any

import pytest

from fgl_repro.tables.artifact import Content
from fgl_repro.tables.printed_pairs import PrintedPair, evidence_of, with_verdicts
from fgl_repro.tables.results import Stat
from fgl_repro.tables.verdict import DIFFERS, LEVEL, NOTHING, REPRODUCED, WITHIN

SAME = Stat(28.6, 0.0, 3)
"""Three seeds that found 2 of 7 nodes each."""


@pytest.mark.parametrize(
    ("ours", "printed", "more", "verdict"),
    [
        (Stat(50.0, 1.0, 3), 51.0, {}, REPRODUCED),
        (Stat(50.0, 1.0, 3), 54.0, {}, WITHIN),
        (Stat(50.0, 1.0, 3), 60.0, {}, DIFFERS),
        (Stat(0.50, 0.01, 3), 0.51, {"whole": 1}, REPRODUCED),
        (Stat(0.50, 0.01, 3), 0.60, {"whole": 1}, DIFFERS),
        (Stat(50.0, 1.0, 3), 60.0, {"whole": 0}, DIFFERS),
        (Stat(50.0, 1.0, 3), 51.0, {"whole": 0}, REPRODUCED),
        (Stat(500.0, 10.0, 3), 510.0, {"whole": 0}, REPRODUCED),
        (Stat(500.0, 10.0, 3), 540.0, {"whole": 0}, WITHIN),
        (SAME, 42.9, {}, DIFFERS),
        (SAME, 42.9, {"step": 100 / 7}, WITHIN),
        (SAME, 57.1, {"step": 100 / 7}, DIFFERS),
        (Stat(10.0, 0.0, 3), 11.0, {"whole": 0, "step": 1}, WITHIN),
        (Stat(0.0, 0.0, 3), 0.0, {"step": 100 / 7}, REPRODUCED),
        (Stat(-3.0, 1.0, 3), -2.0, {}, REPRODUCED),
        (Stat(50.0, 1.0, 3), 60.0, {"suspect": True}, NOTHING),
        (Stat(50.0, None, 1), 50.0, {}, NOTHING),
        (Stat(50.0, 1.0, 3), None, {}, NOTHING),
        (None, 50.0, {}, NOTHING),
    ],
)
def test_verdict_on_one_number(ours: Stat | None, printed: float | None, more: dict[str, Any], verdict: str) -> None:
    pair = PrintedPair("it", ours, printed, **more)
    assert with_verdicts(Content([{}], "", 0, 0), [pair]).rows[0]["verdict"] == verdict


def test_gaps_are_points_of_shares_and_percent_of_what_has_no_whole() -> None:
    assert evidence_of(PrintedPair("", Stat(52.0, 1.0, 3), 50.0)).gap == pytest.approx(2.0)
    assert evidence_of(PrintedPair("", Stat(0.52, 0.01, 3), 0.50, whole=1)).gap == pytest.approx(2.0)
    assert evidence_of(PrintedPair("", Stat(52.0, 1.0, 3), 50.0, whole=0)).gap == pytest.approx(4.0)


def test_an_interval_is_as_wide_whatever_the_unit() -> None:
    """Population std 1 of three seeds is sqrt(1.5) of a sample; t(2) at 97.5 % is 4.303, times sqrt(4/3)."""
    wide = 4.3027 * 1.5**0.5 * (4 / 3) ** 0.5
    assert evidence_of(PrintedPair("", Stat(52.0, 1.0, 3), 50.0)).half == pytest.approx(wide, abs=1e-3)
    assert evidence_of(PrintedPair("", Stat(0.52, 0.01, 3), 0.50, whole=1)).half == pytest.approx(wide, abs=1e-3)
    assert evidence_of(PrintedPair("", Stat(52.0, 0.5, 3), 50.0, whole=0)).half == pytest.approx(wide, abs=1e-3)


def test_seeds_that_agree_know_a_number_to_a_step_of_it() -> None:
    """A uniform distribution a step wide has a std of 1 / sqrt(12) steps, in hundredths of the whole or in percent."""
    wide = 4.3027 * (4 / 3) ** 0.5 / 12**0.5
    for whole, printed, step, told in ((100, 20.0, 14.0, 14.0), (1, 0.2, 0.14, 14.0), (0, 20.0, 1.0, 100 / 20)):
        pair = PrintedPair("", Stat(printed, 0.0, 3), printed, whole=whole, step=step)
        assert evidence_of(pair).half == pytest.approx(wide * told, rel=1e-4)


def test_the_page_counts_what_is_printed_and_names_what_differs() -> None:
    pairs = [
        PrintedPair("far", Stat(50.0, 1.0, 3), 70.0),
        PrintedPair("near", Stat(50.0, 1.0, 3), 50.0),
        PrintedPair("alone", Stat(50.0, None, 1), 50.0),
        PrintedPair("ours alone", Stat(50.0, 1.0, 3), None),
    ]
    content = with_verdicts(Content([{"row": n} for n in range(4)], "grid", 3, 4), pairs)
    told = "Verdicts on 3 comparisons with print: 1 reproduced, 0 within the spread, 1 differs, 1 no evidence."
    assert content.body == f"grid\n\n{told} Differs: far."
    assert [(row["row"], row["silent"]) for row in content.rows] == [
        (0, ""),
        (1, ""),
        (2, "a single run"),
        (3, "not printed"),
    ]
    assert (content.done, content.wanted) == (3, 4)


def test_the_page_need_not_name_all_of_them() -> None:
    far = [PrintedPair(name, Stat(50.0, 1.0, 3), 70.0) for name in "ab"]
    pairs = [*far, PrintedPair("alone", Stat(50.0, None, 1), 50.0)]
    assert with_verdicts(Content([{} for _ in pairs], "", 0, 0), pairs).body.endswith("Differs: all that can be told.")


def test_nothing_is_said_where_nothing_ran() -> None:
    content = with_verdicts(Content([{}], "grid", 0, 1), [PrintedPair("", None, 50.0)])
    assert content.body == "grid"
    assert content.rows == [{"gap": "", "half": "", "p": "", "verdict": NOTHING, "silent": "not run"}]


def test_numbers_that_differ_are_decided_for_the_page_as_a_whole() -> None:
    """A gap that is rare for one number is to be expected among forty."""
    lone = PrintedPair("a", Stat(50.0, 1.0, 5), 54.2)
    others = [PrintedPair("b", Stat(50.0, 1.0, 5), 50.1) for _ in range(39)]
    alone = with_verdicts(Content([{}], "", 0, 0), [lone]).rows[0]
    among = with_verdicts(Content([{} for _ in range(40)], "", 0, 0), [lone, *others]).rows[0]
    assert LEVEL / 40 < float(alone["p"]) < LEVEL
    assert alone["p"] == among["p"]
    assert (alone["verdict"], among["verdict"]) == (DIFFERS, WITHIN)
