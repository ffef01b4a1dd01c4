"""What every worker of a sweep does, and the body of one that is a process of this machine.

The worker, not the sweep, claims and records: when the sweep is killed between a run's end and its bookkeeping, the
result is on disk all the same.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal

from fgl_repro.config import Config
from fgl_repro.core.errors import sentence
from fgl_repro.runs.attempt import Ending, attempt
from fgl_repro.runs.store import RecordStore

REPORT_EVERY = 0.5  # seconds between two rounds that the sweep hears of


@dataclass(frozen=True)
class Job:
    """One run to do: its key, what that is made of, its config."""

    key: str
    identity: dict[str, Any]
    config: Config


@dataclass(frozen=True)
class Answer:
    """How a job ended.

    Attributes:
        seconds: Of the run alone.
        sentence: Why it failed, or what its worker died of.
        leaving: Whether the worker takes no further job.
    """

    ending: Ending | Literal["failed", "died"]
    seconds: float = 0.0
    sentence: str = ""
    leaving: bool = False


@dataclass(frozen=True)
class Round:
    """How far a job is: rounds done of a phase, and how many there may be."""

    done: int
    total: int


def serve(pipe: Connection, folder: str, execute: str, parent: int, slot: int) -> None:
    """Answer jobs from ``pipe`` until it closes, or this process's GPU fails."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the sweep decides what to stop
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    store = RecordStore(folder)
    try:
        leaving = False
        while not leaving:
            found = answer(pipe.recv(), store, execute, slot, pipe.send)
            pipe.send(found)
            leaving = found.leaving
    except (EOFError, OSError):  # the sweep has closed it, or is gone
        return


def answer(job: Job, store: RecordStore, execute: str, slot: int, tell: Callable[[Round], None]) -> Answer:
    """Do one job; whatever happens to it is an answer. ``tell`` hears now and then how far it is, and may fail."""
    started = last_report = time.perf_counter()

    def report(_: str, number: int, total: int, __: Mapping[str, float]) -> None:
        nonlocal last_report
        if time.perf_counter() - last_report > REPORT_EVERY:
            last_report = time.perf_counter()
            with suppress(OSError):  # the sweep is gone, and we shall be in a moment
                tell(Round(number + 1, total))

    try:
        ending = attempt(job.config, store, report=report, slot=slot, execute=execute)
        return Answer(ending, time.perf_counter() - started if ending == "done" else 0.0)
    except Exception as error:
        # After an error of CUDA this process can do nothing more on the GPU; another one can.
        leaving = "CUDA error" in f"{error} {error.__cause__}"
        return Answer("failed", time.perf_counter() - started, sentence(error), leaving)


def _leave_with(parent: int) -> None:
    """Stop when the sweep is gone, killed with no chance to tell us; the claim we hold is then visibly stale."""
    while os.getppid() == parent:
        time.sleep(0.3)
    os._exit(1)
