"""Runs as job arrays of Slurm, or as processes of this machine that submitit starts as if they were such jobs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fgl_repro.core.errors import UserError, first_line
from fgl_repro.runs.launchers.remote import PATIENCE, Remote, work
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.worker import Answer, Job

ARRAY = 1000  # tasks of an array; Slurm takes 1001 unless it is told otherwise
HOURS = 24  # limit of a run
AT_A_TIME = 256
LAUNCHERS = {"slurm": "slurm", "local": "submitit_local"}


class OnSlurm(Remote[Any]):
    """Jobs of submitit, a run each.

    Slurm goes on with what it was given when the sweep is killed; a sweep that is started again waits for what runs,
    and what is still queued finds its record and ends at once.

    Args:
        cluster: ``slurm`` or ``local``.
        jobs: How many at a time; None: 256 on Slurm, one here.
        options: Of ``submitit.AutoExecutor.update_parameters``, as ``timeout_min`` and ``slurm_partition``.

    Raises:
        UserError: There is no Slurm here, or no such option.
    """

    def __init__(
        self, cluster: str, jobs: int | None, options: Mapping[str, Any], store: RecordStore, execute: str
    ) -> None:
        import submitit

        self._here = cluster == "local"
        size = jobs or (1 if self._here else AT_A_TIME)
        super().__init__(size, size if self._here else sys.maxsize, store, execute)
        self._given = {"timeout_min": HOURS * 60, "name": "fgl-table", "slurm_array_parallelism": size, **options}
        try:
            self._executor = submitit.AutoExecutor(self._scratch / "%j", cluster=cluster)
            self._executor.update_parameters(**self._given)
        except (RuntimeError, NameError, TypeError, ValueError, AssertionError) as error:
            self.close()
            raise UserError(f"--launcher {LAUNCHERS[cluster]} cannot be used: {first_line(error)}.") from error

    def _submit(self, jobs: list[Job]) -> Iterable[Any]:
        threads = max(job.config.runtime.threads for job in jobs)
        self._executor.update_parameters(**{"cpus_per_task": threads, **self._given})
        found: list[Any] = []
        try:
            for first in range(0, len(jobs), ARRAY):
                part = jobs[first : first + ARRAY]
                with _quiet():
                    found += self._executor.map_array(work, part, [self._place] * len(part))
        except RuntimeError as error:  # what sbatch said
            self._cancel(found)
            raise UserError(f"the runs cannot be submitted: {first_line(error)}.") from error
        return found

    def _ended(self, tasks: list[Any]) -> list[tuple[Any, Answer]]:
        ended = [(task, _answer(task)) for task in tasks if task.done()]
        if not ended:
            time.sleep(0.5)
        return ended

    def _cancel(self, tasks: list[Any]) -> None:
        arrays = {task.job_id.partition("_")[0]: task for task in tasks}
        for name, task in arrays.items():
            (task if task.job_id == name else type(task)(task.paths.folder, name)).cancel(check=False)
        end = time.monotonic() + PATIENCE
        while self._here and time.monotonic() < end and not all(task.done() for task in tasks):
            time.sleep(0.1)


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave processes started here no place to complain: submitit's, which watch over runs here, would of Ctrl-C."""
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


def _answer(task: Any) -> Answer:
    try:
        answer: Answer = task.result()
    except Exception as error:  # submitit's own, or the result cannot be read
        return Answer("died", sentence=f"worker died ({first_line(error)})")
    return answer
