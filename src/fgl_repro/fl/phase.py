"""A run is a row of phases; what happens before the rounds of a method is a phase, too, with its bytes and curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fgl_repro.core.errors import DivergenceError
from fgl_repro.fl.messages import Ledger, Message

Curves = dict[str, list[float]]
Report = Callable[[str, int, int, Mapping[str, float]], None]
"""Told after each round of a phase: the phase's name, the round's number from 0, how many there may be, its curves."""

ROUNDS = "rounds"
"""The last phase of every method: the rounds that the protocol counts."""


@dataclass(frozen=True)
class Turn:
    """What one round of a phase brought.

    Attributes:
        values: A point of each of the phase's curves, the same names in every round.
        up, down: What every client sent and received.
        going: Clients that go on, bool ``[K]``; None: all that were at work.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    up: Message | None = None
    down: Message | None = None
    going: np.ndarray | None = None


@dataclass(frozen=True)
class Phase:
    """A stretch of a run.

    Attributes:
        name: Under which its bytes and curves are kept.
        rounds: How many there are at most; the phase ends before, once no client goes on.
        turn: What clients and server do in a round, from its number and the clients that still take part ``[K]``.
        place: Whose work it is, ``client`` or ``server``; what is worked out right before the phase counts with it.
    """

    name: str
    rounds: int
    turn: Callable[[int, np.ndarray], Turn]
    place: str = "client"

    @staticmethod
    def once(name: str, turn: Turn, place: str = "client") -> Phase:
        """Make the phase of one round in which messages that are there already go over the wire."""
        return Phase(name, 1, lambda *_: turn, place)

    def run(self, clients: int, ledger: Ledger, report: Report | None = None) -> Curves:
        """Go through the rounds; bytes go to the ledger, curves are returned.

        Raises:
            DivergenceError: A round's loss or its validation is not finite.
        """
        curves: Curves = {}
        going = np.ones(clients, dtype=bool)
        for number in range(self.rounds):
            done = self.turn(number, going)
            ledger.add(self.name, "up", done.up)
            ledger.add(self.name, "down", done.down)
            for name in ("loss", "validation"):
                if not math.isfinite(point := done.values.get(name, 0.0)):
                    raise DivergenceError(
                        f"the {name} is {point} in round {number} of {self.name}: lower the rate that is for it "
                        "(protocol.fine_tuning_lr, or the method's own), or check the features."
                    )
            for name, point in done.values.items():
                curves.setdefault(name, []).append(point)
            if report:
                report(self.name, number, self.rounds, done.values)
            if done.going is not None:
                going = going & done.going
            if not going.any():
                break
        return curves
