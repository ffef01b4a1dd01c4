"""Many runs: skip what is recorded, do the rest in worker processes, survive whatever happens to one of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from fgl_repro.config import Config, key_of, science
from fgl_repro.runs import worker
from fgl_repro.runs.attempt import EXECUTE
from fgl_repro.runs.progress import PRIOR, Costs, Progress, features
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.worker import Answer, Job, Round

POLL = 1.0  # seconds between looks at runs that another shell is doing
SHOWN = 20  # failed runs that are named one by one


@dataclass
class Summary:
    """What became of a sweep. ``failed``: label and sentence of each run without a result."""

    done: int = 0
    skipped: int = 0
    elsewhere: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.failed

    def sentences(self) -> list[str]:
        """One line for each failed run (the first twenty)."""
        lines = [f"failed: {label}: {why}" for label, why in self.failed[:SHOWN]]
        if len(self.failed) > SHOWN:
            lines.append(f"failed: {len(self.failed) - SHOWN} more; every failed run left a .failed.json.")
        return lines


def label(identity: dict[str, Any]) -> str:
    """A run in a few words: ``fedpub-release cora K=3 closed_set seed=0``."""
    dataset, world, method, clients = features(identity)
    variant = identity["method"].get("variant")
    return f"{method}{'-' + variant if variant else ''} {dataset} K={clients} {world} seed={identity['seed']}"


def brief(identity: dict[str, Any]) -> str:
    """A run in fewer words, for a bar: ``fedpub cora 3c s0``."""
    dataset, _, method, clients = features(identity)
    return f"{method} {dataset} {clients}c s{identity['seed']}"


def jobs_of(configs: Iterable[Config]) -> list[Job]:
    """One job a distinct key, cheap data sets first, the runs of one data set together (workers cache it).

    Where two configs have one key, the one that keeps all curves stands.
    """
    jobs: dict[str, Job] = {}
    for config in configs:
        key = key_of(config)
        if key not in jobs or config.runtime.curves == "all":
            jobs[key] = Job(key, science(config), config)

    def order(job: Job) -> tuple[Any, ...]:
        dataset, world, method, clients = features(job.identity)
        return PRIOR.get(dataset, 30.0), dataset, world, clients, method, job.identity["seed"], job.key

    return sorted(jobs.values(), key=order)


def run_all(configs: Sequence[Config], jobs: int, store: RecordStore, *, execute: str = EXECUTE) -> Summary:
    """Do every run of ``configs`` that ``store`` does not hold (with all curves, where a config asks for them).

    Repeats (panels that share a world) are done once, by ``jobs`` worker processes. Several sweeps, in several shells,
    may share the store; a run that another of them does is waited for.

    Raises:
        KeyboardInterrupt: The sweep was stopped; its workers are gone and their claims given up.
        OSError: There is something to do, and the folder of the records cannot be made or written.
    """
    wanted = jobs_of(configs)
    missing = [job for job in wanted if not store.enough(store.whole(job.key), job.config.runtime.curves)]
    if missing:  # said once, and not of every run
        store.prepare()
    sweep = _Sweep(missing, store, execute, store.costs)
    sweep.summary.skipped = len(wanted) - len(missing)
    try:
        sweep.work(max(1, min(jobs, len(missing))))
    finally:
        sweep.close()
        for line in sweep.summary.sentences():
            print(line, file=sys.stderr)
    return sweep.summary


@contextmanager
def _deaf() -> Iterator[None]:
    """A process started here is born ignoring Ctrl-C, which a terminal sends to the whole group."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    slot: int
    job: Job | None = None
    since: float = 0.0
    round: Round | None = None


class _Sweep:
    """State of ``run_all``: jobs waiting, jobs that other shells do, workers."""

    def __init__(self, jobs: list[Job], store: RecordStore, execute: str, costs: Costs) -> None:
        self.pending = deque(jobs)
        self.foreign: list[Job] = []
        self.workers: list[_Worker] = []
        self.summary = Summary()
        self._store, self._execute, self._costs = store, execute, costs
        self._progress = Progress(len(jobs))
        self._looked = 0.0

    def work(self, count: int) -> None:
        while self.pending or self.foreign or any(w.job for w in self.workers):
            self._hire(count)
            self._assign()
            self._listen()
            self._look_around()
            self._report(count)

    def close(self) -> None:
        """Send idle workers home, stop busy ones (only after Ctrl-C are there any), leave no claim behind."""
        for member in self.workers:
            if member.job is not None:
                member.process.terminate()
            member.pipe.close()
        for member in self.workers:
            member.process.join(5)
            if member.process.is_alive():
                member.process.kill()
                member.process.join()
            if member.job is not None and member.process.pid is not None:
                self._store.forget_claim(member.job.key, member.process.pid)
        self.workers.clear()
        self._progress.close()

    def _hire(self, count: int) -> None:
        idle = sum(w.job is None for w in self.workers)
        while len(self.workers) < count and idle < len(self.pending):
            self.workers.append(self._start())
            idle += 1

    def _start(self) -> _Worker:
        slot = min(set(range(len(self.workers) + 1)) - {w.slot for w in self.workers})
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        arguments = (theirs, str(self._store.folder), self._execute, os.getpid(), slot)
        process = context.Process(target=worker.serve, args=arguments, daemon=True)
        with _deaf():
            process.start()
        theirs.close()
        return _Worker(process, ours, slot)

    def _assign(self) -> None:
        for member in self.workers:
            if member.job is None and self.pending:
                member.job, member.since, member.round = self.pending.popleft(), time.monotonic(), None
                try:
                    member.pipe.send(member.job)
                except OSError:  # it died while idle: the job was not touched
                    self.pending.appendleft(member.job)
                    member.job = None
        self.workers = [w for w in self.workers if w.job is not None or w.process.is_alive()]

    def _listen(self) -> None:
        busy = {member.pipe: member for member in self.workers if member.job is not None}
        if not busy:
            time.sleep(POLL / 4)
            return
        for pipe in wait(list(busy), timeout=0.5):
            member = busy[pipe]  # type: ignore[index]
            try:
                answer = member.pipe.recv()
            except (EOFError, OSError):
                answer = self._bury(member)
            if isinstance(answer, Round):
                member.round = answer
                continue
            job, member.job = member.job, None
            assert job is not None
            self._settle(job, answer)

    def _bury(self, member: _Worker) -> Answer:
        """A worker died under a run: note the run as failed, unless its record was written just before."""
        member.process.join(10)
        self.workers.remove(member)
        member.pipe.close()
        job = member.job
        assert job is not None
        if member.process.pid is not None:
            self._store.forget_claim(job.key, member.process.pid)
        if self._store.enough(self._store.whole(job.key), job.config.runtime.curves):
            return Answer("done")
        code = member.process.exitcode
        why = f"worker died (exit code {code}{'; most likely killed for its memory' if code == -9 else ''})"
        with suppress(OSError):
            self._store.save_failed(note_of(job.config).changed(error=why))
        return Answer("failed", 0.0, why)

    def _settle(self, job: Job, answer: Answer) -> None:
        if answer.verdict == "busy":
            self.foreign.append(job)
            return
        if answer.verdict == "done":
            self.summary.done += 1
            if answer.seconds:
                self._costs.learn(job.identity, answer.seconds)
        elif answer.verdict == "recorded":
            self.summary.elsewhere += 1
        else:
            self.summary.failed.append((label(job.identity), answer.sentence))
        self._progress.advance()

    def _look_around(self) -> None:
        """Runs that other shells held: recorded by now, free again, or still held."""
        if not self.foreign or time.monotonic() - self._looked < POLL:
            return
        self._looked = time.monotonic()
        held = []
        for job in self.foreign:
            if self._store.path(job.key).exists() or not self._store.is_claimed(job.key):
                self.pending.append(job)  # a worker looks again, under its own claim
            else:
                held.append(job)
        self.foreign = held

    def _report(self, count: int) -> None:
        now = time.monotonic()
        left = sum(self._costs.seconds(job.identity) for job in [*self.pending, *self.foreign])
        names = [f"{label(job.identity)} (another shell)" for job in self.foreign[:1]]
        for member in self.workers:
            if member.job is None:
                continue
            spent, at = now - member.since, member.round
            expected = self._costs.seconds(member.job.identity) - spent
            left += spent * (at.total - at.done) / at.done if at is not None else max(expected, spent / 2)
            names.insert(0, f"{brief(member.job.identity)}{'' if at is None else f' {at.done}/{at.total}'}")
        self._progress.tick(", ".join(names), left / count)
