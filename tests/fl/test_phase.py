"""Phases end when nobody goes on, and nobody comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.phase import Phase, Turn
from fgl_repro.fl.rounds import run_phases


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


def test_seconds_of_the_server_are_those_of_its_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is worked out before a phase counts with it."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def takes(seconds: float) -> Turn:
        now[0] += seconds
        return Turn()

    def phases() -> Iterator[Phase]:
        takes(1)
        yield Phase("statistics", 1, lambda *_: takes(2))
        takes(10)
        yield Phase("condensation", 2, lambda *_: takes(20), "server")
        yield Phase("training", 3, lambda *_: takes(100))

    ledger = Ledger()
    run_phases(phases(), 2, ledger, None)
    assert ledger.server_seconds == 50.0
