"""Runs in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from fgl_repro.runs import worker
from fgl_repro.runs.launchers.workers import Running
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.worker import Answer, Job, Round

IDLE = 0.25  # seconds between looks when nobody works


@contextmanager
def _deaf() -> Iterator[None]:
    """Let a process started here be born ignoring Ctrl-C, which a terminal sends to the whole group."""
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
    task: Running | None = None


class Processes:
    """The workers of a local sweep; a worker keeps torch and the graphs in memory from run to run."""

    def __init__(self, size: int, store: RecordStore, execute: str) -> None:
        self.size = size
        self._store, self._execute = store, execute
        self._workers: list[_Worker] = []

    def assign(self, pending: deque[Job]) -> None:
        idle = sum(w.task is None for w in self._workers)
        while len(self._workers) < self.size and idle < len(pending):
            self._workers.append(self._start())
            idle += 1
        for member in self._workers:
            if member.task is None and pending:
                member.task = Running(pending.popleft(), time.monotonic())
                try:
                    member.pipe.send(member.task.job)
                except OSError:  # it died while idle: the job was not touched
                    pending.appendleft(member.task.job)
                    member.task = None
        self._workers = [w for w in self._workers if w.task is not None or w.process.is_alive()]

    def _start(self) -> _Worker:
        slot = min(set(range(len(self._workers) + 1)) - {w.slot for w in self._workers})
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        arguments = (theirs, str(self._store.folder), self._execute, os.getpid(), slot)
        process = context.Process(target=worker.serve, args=arguments, daemon=True)
        with _deaf():
            process.start()
        theirs.close()
        return _Worker(process, ours, slot)

    def listen(self) -> list[tuple[Job, Answer]]:
        busy = {member.pipe: member for member in self._workers if member.task is not None}
        if not busy:
            time.sleep(IDLE)
        ended = []
        for pipe in wait(list(busy), timeout=0.5) if busy else []:
            member = busy[pipe]  # type: ignore[index]
            assert member.task is not None
            try:
                answer = member.pipe.recv()
            except (EOFError, OSError):
                answer = self._bury(member, member.task.job)
            if isinstance(answer, Round):
                member.task.round = answer
                continue
            ended.append((member.task.job, answer))
            member.task = None
            if answer.leaving:
                self._release(member)
        return ended

    def _release(self, member: _Worker) -> None:
        """Let go of a worker that takes no further job, or is dead."""
        member.process.join(10)
        self._workers.remove(member)
        member.pipe.close()

    def _bury(self, member: _Worker, job: Job) -> Answer:
        """Let go of a worker that died under a run, and answer in its stead."""
        self._release(member)
        if member.process.pid is not None:
            self._store.forget_claim(job.key, member.process.pid)
        code = member.process.exitcode
        why = f"worker died (exit code {code}{'; most likely killed for its memory' if code == -9 else ''})"
        return Answer("died", sentence=why)

    def running(self) -> list[Running]:
        return [member.task for member in self._workers if member.task is not None]

    def close(self) -> None:
        """Send idle workers home, stop busy ones (only after Ctrl-C are there any), leave no claim behind."""
        for member in self._workers:
            if member.task is not None:
                member.process.terminate()
            member.pipe.close()
        for member in self._workers:
            member.process.join(5)
            if member.process.is_alive():
                member.process.kill()
                member.process.join()
            if member.task is not None and member.process.pid is not None:
                self._store.forget_claim(member.task.job.key, member.process.pid)
        self._workers.clear()
