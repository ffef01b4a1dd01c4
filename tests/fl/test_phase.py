"""Phases end when nobody goes on, and nobody comes back."""

from __future__ import annotations

import numpy as np

from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.phase import Phase, Turn


def test_who_has_left_stays_away_and_an_empty_phase_ends() -> None:
    answers = [[True, False, True], [True, True, False], [False, True, True], [True, True, True]]
    seen: list[list[bool]] = []

    def turn(number: int, going: np.ndarray) -> Turn:
        seen.append(going.tolist())
        return Turn({"number": float(number)}, going=np.array(answers[number]))

    reports: list[tuple[str, int, int]] = []
    curves = Phase("warm-up", 4, turn).run(3, Ledger(), lambda *said: reports.append(said[:3]))
    assert seen == [[True, True, True], [True, False, True], [True, False, False]]
    assert curves == {"number": [0.0, 1.0, 2.0]}
    assert reports == [("warm-up", 0, 4), ("warm-up", 1, 4), ("warm-up", 2, 4)]
