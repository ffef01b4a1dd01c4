"""What tests of sweeps share: the trace of fake runs, patience, and a launcher that starts no process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fgl_repro.runs.launchers.launcher import Launcher
from fgl_repro.runs.launchers.workers import Running, Workers
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.worker import Answer, Job, answer

PLACE = {"records": "records", "results": "published"}
"""Folders of runs from Python."""


def lines(log: Path, word: str) -> list[str]:
    """Keys of the runs that the log of ``fake_run`` says this of, in order."""
    return [line.split()[1] for line in log.read_text().splitlines() if line.startswith(word)]


def wait_for(condition: Callable[[], bool], patience: float = 300.0) -> None:
    """Come back when it holds; only a machine where nothing moves any more runs into the limit."""
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("waited in vain")
        time.sleep(0.02)


@dataclass
class _Here:
    """Does every job in this process, while it is listened to."""

    store: RecordStore
    execute: str
    size: int = 1

    def __post_init__(self) -> None:
        self._jobs: deque[Job] = deque()

    def assign(self, pending: deque[Job]) -> None:
        self._jobs.extend(pending)
        pending.clear()

    def listen(self) -> list[tuple[Job, Answer]]:
        done = [(job, answer(job, self.store, self.execute, 0, lambda _: None)) for job in self._jobs]
        self._jobs.clear()
        return done

    def running(self) -> list[Running]:
        return [Running(job) for job in self._jobs]

    def close(self) -> None:
        self._jobs.clear()


@dataclass(frozen=True)
class Here(Launcher):
    """For tests of what a sweep does, whoever does its runs; on a busy machine a process starts slowly."""

    def start(self, jobs: int | None, most: int, store: RecordStore, execute: str) -> Workers:
        return _Here(store, execute)
