"""What a sweep shows while it runs: one bar, or a plain line every half minute when nobody watches."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Self

from tqdm import tqdm

from fgl_repro.data.catalog import NAMES, facts
from fgl_repro.runs.names import group_of

UNKNOWN = 60.0
"""Seconds that a run of a data set takes of which nothing is known."""

EVERY = 30.0


def guess(dataset: str) -> float:
    """Guess the seconds of a run from the size of its data set: its nodes, edges and features.

    The formula fits the mean of the published runs of each of 13 data sets, from Cora's 19 seconds to 860, within a
    factor of two.
    """
    if dataset not in NAMES:
        return UNKNOWN
    known = facts(dataset)
    size = known.full_edges + known.full_nodes * (50 + known.features / 20)
    return float(size**0.6) / 90


class Costs:
    """Expected seconds of a run: the mean of the recorded runs most like it, else a guess from the data set's size.

    Most like it are those of the same variant, with the same amount of local work; a full batch says little of small
    ones.
    """

    def __init__(self, known: Iterable[tuple[Mapping[str, Any], float]] = ()) -> None:
        """Learn from the runs that are known.

        Args:
            known: Science config and seconds of runs.
        """
        self._seen: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        for identity, seconds in known:
            self.learn(identity, seconds)

    def learn(self, identity: Mapping[str, Any], seconds: float) -> None:
        """Add a run's measured seconds."""
        for key in self._keys(identity):
            self._seen[key].append(seconds)

    def seconds(self, identity: Mapping[str, Any]) -> float:
        """Return the expected seconds of a run with this science config."""
        found = self._mean(self._keys(identity))
        return guess(identity["dataset"]["name"]) if found is None else found

    def of_like(self, identity: Mapping[str, Any]) -> float | None:
        """Return the mean seconds of runs of this data set, world, method, variant and number of clients.

        It is None where none ran.
        """
        return self._mean(self._keys(identity)[:2])

    def _mean(self, keys: Iterable[tuple[Any, ...]]) -> float | None:
        seen = next((self._seen[key] for key in keys if key in self._seen), None)
        return None if seen is None else sum(seen) / len(seen)

    @staticmethod
    def _keys(identity: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        dataset, world, method, clients = group_of(identity)
        protocol = identity["protocol"]
        work = tuple(protocol.get(name) for name in ("batch", "local_epochs", "rounds"))
        like = (dataset, world, method, clients, identity["method"].get("variant"))
        near = [(dataset, world, method, clients), (dataset, method, clients), (dataset, method), (dataset,)]
        return [(*like, *work), like, *near]


class SweepProgress:
    """Runs done, what is running, time left. ``tick`` often; it draws when there is something to say."""

    def __init__(self, total: int) -> None:
        self._last = time.monotonic()
        self._done, self._total = 0, total
        shape = "{n_fmt}/{total_fmt} |{bar:10}| {elapsed}, {desc}"  # what is wider than the terminal is cut at the end
        hidden = None if total else True  # None: unless stderr is a terminal
        self._bar = tqdm(total=total, bar_format=shape, leave=False, dynamic_ncols=True, disable=hidden)

    def advance(self) -> None:
        """Count one run more as done, failed or found finished elsewhere."""
        self._done += 1
        self._bar.update(1)

    def tick(self, current: str, left: float) -> None:
        """Show what runs, and the time left.

        Args:
            current: What runs now.
            left: Expected seconds until the end.
        """
        ahead = str(timedelta(seconds=round(left)))
        if not self._bar.disable:
            self._bar.set_description_str(f"{ahead} left: {current}")
        elif time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            print(f"{self._done}/{self._total} runs, about {ahead} left, now {current}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the terminal clean."""
        self._bar.close()


class RunProgress:
    """One bar for one run: its phase, rounds and first two curves; a line every half minute without a terminal."""

    def __init__(self, name: str, wanted: bool) -> None:
        shape = "{desc} {n_fmt}/{total_fmt} |{bar:10}| {remaining} left{postfix}"  # cut at the end where it is too wide
        hidden = None if wanted else True
        self._bar = tqdm(desc=name, bar_format=shape, disable=hidden, leave=False, dynamic_ncols=True)
        self._name, self._wanted, self._phase = name, wanted, ""
        self._last = time.monotonic()

    def report(self, phase: str, number: int, total: int, values: Mapping[str, float]) -> None:
        """Show how far the run is.

        Args:
            phase: Its name.
            number: Of the round, from 0.
            total: Rounds there may be.
            values: Its curves.
        """
        curves = {curve[:10]: f"{value:.3f}" for curve, value in [*values.items()][:2]}
        if self._bar.disable:
            self._say(f"{phase} {number + 1}/{total}", curves)
            return
        if phase != self._phase:
            self._phase = phase
            self._bar.reset(total)
            self._bar.set_description(self._name if phase == "rounds" else f"{self._name}, {phase}", refresh=False)
        self._bar.set_postfix(curves, refresh=False)
        self._bar.update(number + 1 - self._bar.n)

    def _say(self, place: str, curves: Mapping[str, str]) -> None:
        """Print a line if half a minute is over since the last."""
        if self._wanted and time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            parts = [place, *(f"{curve} {value}" for curve, value in curves.items())]
            print(f"{self._name}: {', '.join(parts)}", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
