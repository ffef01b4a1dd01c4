"""Runs on Ray: a cluster that is there, or one that is started on this machine for the sweep."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable
from math import ceil
from typing import Any

from fgl_repro.core.errors import UserError, first_line
from fgl_repro.runs.launchers.remote import PATIENCE, Remote, work
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.worker import Answer, Job


class OnRay(Remote[Any]):
    """Tasks of Ray, each with as many CPUs as its run has threads; the GPUs of the cluster are shared out evenly.

    Args:
        jobs: How many at a time; None: one for each GPU of the cluster or, where it has none, for each CPU.
        address: Of a cluster, ``auto`` for the one of this machine; None: one of our own.

    Raises:
        UserError: There is no cluster at the address, or it runs another version.
    """

    def __init__(self, jobs: int | None, address: str | None, store: RecordStore, execute: str) -> None:
        import ray

        self._ray = ray
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        own = {"include_dashboard": False} if address is None else {}
        self._guest = ray.is_initialized()  # of a notebook that uses Ray itself
        try:
            if not self._guest:
                _check_reachable(address or "local")
                ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(f"Ray at {address or 'this machine'} cannot be used: {first_line(error)}.") from error
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        size = jobs or gpus or max(1, int(resources.get("CPU", 1)))
        super().__init__(size, size, store, execute)
        self._gpus = 1 / ceil(size / gpus) if gpus else 0.0
        self._cpus = max(node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"])
        once = {"max_calls": 1} if gpus else {}  # a process keeps the GPU it had first
        self._work = ray.remote(max_retries=0, **once)(work)

    def _submit(self, jobs: list[Job]) -> Iterable[Any]:
        for job in jobs:
            runtime = job.config.runtime
            gpus = 0 if runtime.device == "cpu" else self._gpus
            cpus = min(runtime.threads, self._cpus or 1)  # for more than a machine has Ray would wait for ever
            yield self._work.options(num_cpus=cpus, num_gpus=gpus).remote(job, self._place)

    def _ended(self, tasks: list[Any]) -> list[tuple[Any, Answer]]:
        ready, _ = self._ray.wait(tasks, num_returns=1, timeout=0.5)
        return [(task, self._answer(task)) for task in ready]

    def _answer(self, task: Any) -> Answer:
        try:
            answer: Answer = self._ray.get(task)
            return answer
        except self._ray.exceptions.RayError as error:
            return Answer("died", sentence=f"worker died ({first_line(error)})")

    def _cancel(self, tasks: list[Any]) -> None:
        """Wait for the end of their rounds; only then cancel, for Ray dies where a task ends while it is cancelled."""
        left = self._left(tasks)
        for force in (False, True):  # as Ctrl-C would, and for good
            for task in left:
                self._ray.cancel(task, force=force)
            left = self._left(left)
        if not self._guest:
            self._ray.shutdown()

    def _left(self, tasks: list[Any]) -> list[Any]:
        """Wait a while, and return those that have not ended."""
        return self._ray.wait(tasks, num_returns=len(tasks), timeout=PATIENCE)[1] if tasks else []


def _check_reachable(address: str) -> None:
    """Find out whether anybody listens at HOST:PORT, which Ray would do for many minutes.

    Raises:
        OSError: Nobody does.
        ValueError: The port is no number.
    """
    host, given, port = address.rpartition(":")
    if given and "/" not in address:
        socket.create_connection((host, int(port)), PATIENCE).close()
