"""Runs on machines that share a disk with the sweep: what their workers do, and what the engines have in common."""

from __future__ import annotations

import os
import shutil
import socket
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Generic, TypeVar

from fgl_repro.runs.launchers.workers import Running
from fgl_repro.runs.store import PREFIX, RecordStore
from fgl_repro.runs.worker import Answer, Job, Round, answer

Task = TypeVar("Task", bound=Hashable)

FORGOTTEN = 30 * 86400.0  # seconds after which what a killed sweep left is deleted
PATIENCE = 10.0  # seconds that a stopped run has to give up its claim

_number = count()


@dataclass(frozen=True)
class Place:
    """Where a sweep was started, which is where its workers on other machines work, too.

    Attributes:
        progress_files: A folder with a file for each run that is under way, which says how far it is. Runs stop
            once it is gone.
        environment: Variables of ours, such as ``FGL_DATA``.
    """

    records: Path
    execute: str
    progress_files: Path
    folder: Path = field(default_factory=Path.cwd)
    environment: dict[str, str] = field(
        default_factory=lambda: {name: value for name, value in os.environ.items() if name.startswith("FGL_")}
    )

    def progress_file(self, job: Job) -> Path:
        return self.progress_files / job.key[:PREFIX]


def work(job: Job, place: Place) -> Answer:
    """Do one job on whatever machine this is.

    Raises:
        KeyboardInterrupt: Its sweep has been stopped.
    """
    os.environ.update(place.environment)
    os.chdir(place.folder)
    file = place.progress_file(job)

    def tell(at: Round) -> None:
        try:
            file.write_text(f"{at.done} {at.total}")
        except FileNotFoundError:  # the folder is gone
            raise KeyboardInterrupt from None
        except OSError:
            pass

    tell(Round(0, 0))
    try:
        return answer(job, RecordStore(place.records), place.execute, 0, tell)
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)


class Remote(ABC, Generic[Task]):
    """Workers that an engine starts.

    Attributes:
        room: How many jobs the engine is given at a time; one with a queue of its own takes all.
    """

    def __init__(self, size: int, room: int, store: RecordStore, execute: str) -> None:
        self.size, self.room = size, room
        records = store.folder.absolute()
        self._scratch = records / ".sweeps" / f"{socket.gethostname()}-{os.getpid()}-{next(_number)}"
        self._place = Place(records, execute, self._scratch / "progress")
        self._place.progress_files.mkdir(parents=True)
        for left in self._scratch.parent.iterdir():  # by sweeps that were killed; engines may need it for a while
            with suppress(FileNotFoundError):  # another sweep has just ended
                if time.time() - left.stat().st_mtime > FORGOTTEN:
                    shutil.rmtree(left, ignore_errors=True)
        self._tasks: dict[Task, Running] = {}

    @abstractmethod
    def _submit(self, jobs: list[Job]) -> Iterable[Task]:
        """Hand jobs to the engine, which calls ``work`` for each."""

    @abstractmethod
    def _ended(self, tasks: list[Task]) -> list[tuple[Task, Answer]]:
        """Return the tasks that ended; half a second may be spent on waiting for one."""

    @abstractmethod
    def _cancel(self, tasks: list[Task]) -> None:
        """Stop what is under way, gently if that is possible, and leave the engine."""

    def assign(self, pending: deque[Job]) -> None:
        jobs = [pending.popleft() for _ in range(min(len(pending), self.room - len(self._tasks)))]
        if jobs:
            self._tasks.update(zip(self._submit(jobs), map(Running, jobs), strict=True))

    def listen(self) -> list[tuple[Job, Answer]]:
        if not self._tasks:
            time.sleep(0.5)
        ended = self._ended(list(self._tasks)) if self._tasks else []
        return [(self._tasks.pop(task).job, answer) for task, answer in ended]

    def running(self) -> list[Running]:
        under_way = {path.name: path for path in self._place.progress_files.iterdir()}
        for task in self._tasks.values():
            file = under_way.get(task.job.key[:PREFIX])
            if file is None:
                continue
            task.since = task.since or time.monotonic()
            with suppress(OSError, ValueError):  # gone, or being written
                at = Round(*map(int, file.read_text().split()))
                task.round = at if at.done else None
        return list(self._tasks.values())

    def close(self) -> None:
        with suppress(OSError):
            self._place.progress_files.rename(self._scratch / "stopped")
        self._cancel(list(self._tasks))
        shutil.rmtree(self._scratch, ignore_errors=True)  # its parent stays: another sweep may be about to use it
