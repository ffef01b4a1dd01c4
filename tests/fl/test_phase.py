"""Phases end when nobody goes on, and nobody comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from fgl_repro.fl.messages import Features, Ledger
from fgl_repro.fl.phase import Phase, Turn
from fgl_repro.fl.rounds import run_phases


def test_a_phase_goes_on_until_nobody_does() -> None:
    """Clients leave one by one and do not come back; bytes and curves are kept by phase."""
    seen: list[list[bool]] = []

    def turn(number: int, going: np.ndarray) -> Turn:
        seen.append(going.tolist())
        still = [[True, False, True], [True, True, False], [False, True, True]][number]
        return Turn({"loss": float(number)}, up=Features(np.array([1, 2, 4])), going=np.array(still))

    told: list[tuple[str, int, int, Mapping[str, float]]] = []
    ledger = Ledger()
    curves = Phase("setup", 9, turn).run(3, ledger, lambda *what: told.append(what))
    assert seen == [[True, True, True], [True, False, True], [True, False, False]]
    assert curves == {"loss": [0.0, 1.0, 2.0]}
    assert [what[:3] for what in told] == [("setup", number, 9) for number in range(3)]
    assert ledger.clients["setup", "up", "features"].tolist() == [3, 6, 12]
    assert ledger.as_dict() == {"setup": {"up": {"features": 7}}}


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
