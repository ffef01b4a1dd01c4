"""One worker process of a sweep: claim, run, record, and never take the sweep down with it.

The worker, not the sweep, claims and records: when the sweep is killed between a run's end and its bookkeeping, the
result is on disk all the same. This file imports torch only through the function it is told to execute.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal

from fgl_repro.core.errors import UserError
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RecordStore

HEARTBEAT = 60.0
Verdict = Literal["done", "recorded", "busy", "failed", "oom"]


@dataclass(frozen=True)
class Job:
    """One run to do: its config, and what identifies and describes it."""

    key: str
    identity: dict[str, Any]
    config: Any
    label: str


@dataclass(frozen=True)
class Answer:
    """How a job ended. ``sentence`` says why it failed; ``seconds`` counts the run alone."""

    verdict: Verdict
    seconds: float = 0.0
    sentence: str = ""


def resolve(path: str) -> Callable[..., Any]:
    """The function named ``module:function``."""
    module, _, name = path.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def serve(pipe: Connection, folder: str, execute: str, parent: int, slot: int) -> None:
    """Body of a worker process: answer jobs from ``pipe`` until it says None or closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the sweep decides what to stop
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    store = RecordStore(folder)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        if job is None:
            return
        pipe.send(attempt(job, store, execute, slot))


def attempt(job: Job, store: RecordStore, execute: str, slot: int = 0) -> Answer:
    """Do one job unless it is recorded or somebody else is at it; failures become failed records."""
    claim = store.claim(job.key)
    if claim is None:
        return Answer("busy")
    with claim:
        old = store.recover(job.key)
        if store.enough(old, job.config.runtime.curves):
            return Answer("recorded")
        done = threading.Event()
        threading.Thread(target=_keep_alive, args=(claim.refresh, done), daemon=True).start()
        started = time.perf_counter()
        try:
            record, curves = _execute(job, execute, slot)
            if old is not None:
                record = record.changed(wandb=old.wandb)  # W&B never takes an id twice: a push is the next attempt
            store.save(record, curves)
            return Answer("done", time.perf_counter() - started)
        except Exception as error:
            verdict: Verdict = "oom" if out_of_memory(error) else "failed"
            store.save_failed(note_of(job.config).changed(status=verdict, error=traceback.format_exc()))
            return Answer(verdict, time.perf_counter() - started, sentence(error))
        finally:
            done.set()


def _execute(job: Job, execute: str, slot: int) -> tuple[Record, Any]:
    threads = job.config.runtime.threads
    if "torch" not in sys.modules:  # read once, when the libraries load
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ[name] = str(threads)
    function = resolve(execute)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    outcome = function(job.config, slot=slot)  # auto device: one GPU a worker
    if outcome.record.key != job.key:
        raise RuntimeError(f"the run of {job.key} returned a record of {outcome.record.key}")
    return outcome.record, outcome.curves


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, on the host or on a GPU."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    text = str(error).lower()
    return named or (isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text))


def sentence(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def _keep_alive(refresh: Callable[[], None], done: threading.Event) -> None:
    while not done.wait(HEARTBEAT):
        refresh()


def _leave_with(parent: int) -> None:
    """Stop when the sweep is gone, killed with no chance to tell us; the claim we hold is then visibly stale."""
    while os.getppid() == parent:
        time.sleep(0.3)
    os._exit(1)
