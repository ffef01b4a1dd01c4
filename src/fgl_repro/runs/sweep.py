"""Many runs: skip what is recorded, have the rest done, survive whatever happens to one of them."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from fgl_repro.config import Config, key_of, science
from fgl_repro.runs.attempt import EXECUTE
from fgl_repro.runs.launchers.launcher import LOCAL, Launcher
from fgl_repro.runs.launchers.workers import Workers
from fgl_repro.runs.names import brief, group_of, label
from fgl_repro.runs.progress import SweepProgress, guess
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.store import RecordStore, is_missing
from fgl_repro.runs.worker import Answer, Job

POLL = 1.0  # seconds between looks at runs that another shell is doing
SHOWN = 20  # failed runs that are named one by one


@dataclass
class SweepSummary:
    """What became of a sweep. ``failed``: label and sentence of each run without a result, by its key."""

    done: int = 0
    skipped: int = 0
    elsewhere: int = 0
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.failed

    def sentences(self) -> list[str]:
        """Write one line for each failed run (the first twenty)."""
        lines = [f"failed: {label}: {why}" for label, why in islice(self.failed.values(), SHOWN)]
        if len(self.failed) > SHOWN:
            lines.append(f"failed: {len(self.failed) - SHOWN} more; every failed run left a .failed.json.")
        return lines


def jobs_of(configs: Iterable[Config]) -> list[Job]:
    """Make a job for each distinct key, small data sets first, the runs of one data set together (workers cache it).

    Where two configs have one key, the one that keeps all curves stands.
    """
    jobs: dict[str, Job] = {}
    for config in configs:
        key = key_of(config)
        if key not in jobs or config.runtime.curves == "all":
            jobs[key] = Job(key, science(config), config)

    def order(job: Job) -> tuple[Any, ...]:
        dataset, world, method, clients = group_of(job.identity)
        return guess(dataset), dataset, world, clients, method, job.identity["seed"], job.key

    return sorted(jobs.values(), key=order)


def run_all(
    configs: Sequence[Config],
    jobs: int | None,
    store: RecordStore,
    launcher: Launcher = LOCAL,
    *,
    execute: str = EXECUTE,
) -> SweepSummary:
    """Do every run of ``configs`` that is missing in ``store``, and those that are forced.

    Repeats (panels that share a world) are done once. Several sweeps, in several shells or on several machines, may
    share the store; a run that another of them does is waited for.

    Args:
        jobs: How many runs at a time; None: one, or what the launcher has room for.
        launcher: Where they are done.

    Raises:
        KeyboardInterrupt: The sweep was stopped; its workers are gone and their claims given up.
        UserError: The launcher is not installed, or cannot be reached.
        OSError: There is something to do, and the folder of the records cannot be made or written.
    """
    wanted = jobs_of(configs)
    missing = [job for job in wanted if is_missing(job.config, store)]
    if not missing:
        return SweepSummary(skipped=len(wanted))
    store.prepare()  # what it refuses is said once, and not of every run
    sweep = _Sweep(missing, store, launcher.start(jobs, len(missing), store, execute))
    sweep.summary.skipped = len(wanted) - len(missing)
    try:
        sweep.work()
    finally:
        sweep.close()
        for line in sweep.summary.sentences():
            print(line, file=sys.stderr)
    return sweep.summary


class _Sweep:
    """State of ``run_all``: jobs waiting, jobs that other shells do, those who do ours."""

    def __init__(self, jobs: list[Job], store: RecordStore, workers: Workers) -> None:
        self.pending = deque(jobs)
        self.foreign: list[Job] = []
        self.summary = SweepSummary()
        self._store, self._workers, self._costs = store, workers, store.costs
        self._progress = SweepProgress(len(jobs))
        self._looked = 0.0

    def work(self) -> None:
        while self.pending or self.foreign or self._workers.running():
            self._workers.assign(self.pending)
            for job, answer in self._workers.listen():
                self._settle(job, answer)
            self._look_around()
            self._report()

    def close(self) -> None:
        self._workers.close()
        self._progress.close()

    def _settle(self, job: Job, answer: Answer) -> None:
        if answer.ending == "busy":
            self.foreign.append(job)
            return
        if answer.ending == "done" or (answer.ending == "died" and not is_missing(job.config, self._store)):
            self.summary.done += 1
            if answer.seconds:
                self._costs.learn(job.identity, answer.seconds)
        elif answer.ending == "recorded":
            self.summary.elsewhere += 1
        else:
            if answer.ending == "died":  # and could not say so itself
                with suppress(OSError):
                    self._store.save_failed(note_of(job.config).changed(error=answer.sentence))
            self.summary.failed[job.key] = label(job.identity), answer.sentence
        self._progress.advance()

    def _look_around(self) -> None:
        """See what became of runs that other shells held: recorded by now, free again, or still held."""
        if not self.foreign or time.monotonic() - self._looked < POLL:
            return
        self._looked = time.monotonic()
        held = []
        for job in self.foreign:
            if not is_missing(job.config, self._store) or not self._store.is_claimed(job.key):
                self.pending.append(job)  # a worker looks again, under its own claim
            else:
                held.append(job)
        self.foreign = held

    def _report(self) -> None:
        now = time.monotonic()
        left = sum(self._costs.seconds(job.identity) for job in [*self.pending, *self.foreign])
        names = [f"{label(job.identity)} (another shell)" for job in self.foreign[:1]]
        for task in self._workers.running():
            expected, at = self._costs.seconds(task.job.identity), task.round
            if task.since is None:
                left += expected
                continue
            spent = now - task.since
            left += spent * (at.total - at.done) / at.done if at is not None else max(expected - spent, spent / 2)
            names.insert(0, f"{brief(task.job.identity)}{'' if at is None else f' {at.done}/{at.total}'}")
        self._progress.tick(", ".join(names), left / self._workers.size)
