"""One run, done once: claim it, run it, record it. A single run and every run of a sweep go through here.

Torch is imported only through the function that executes the run.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

from fgl_repro.config import Config
from fgl_repro.core.errors import DivergenceError, UserError, out_of_memory, sentence
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.record import DIVERGED, Record
from fgl_repro.runs.store import RecordStore, is_missing
from fgl_repro.runs.tracking import Live

if TYPE_CHECKING:
    from fgl_repro.fl.phase import Report

EXECUTE = "fgl_repro.runs.execute:execute"
Ending = Literal["done", "recorded", "busy"]
"""How an attempt ended that did not fail, see :func:`attempt`."""


def attempt(
    config: Config,
    store: RecordStore,
    *,
    report: Report | None = None,
    slot: int = 0,
    wandb_mode: str = "disabled",
    execute: str = EXECUTE,
) -> Ending:
    """Compute and record one run, unless it is recorded or somebody else is at it.

    Args:
        slot: Number of this worker, for spreading runs over GPUs.
        wandb_mode: Mode of W&B while the run goes on; a record can be pushed later, too.
        execute: ``module:function`` that computes, from the config, ``report`` and ``slot``, a record and curves.

    Returns:
        ``done``, ``recorded`` (there was a record that will do) or ``busy`` (another living process has the claim).

    Raises:
        UserError: The user can mend it; memory that ran out is such a case.
        Exception: Whatever else the run raised. Both are noted in the store first.
    """
    note = note_of(config)
    claim = store.claim(note.key)
    if claim is None:
        return "busy"
    with claim:
        old = store.recover(note.key)
        if not is_missing(config, store):
            return "recorded"
        if old is not None:
            # W&B never takes an id twice: this run is the next attempt, which no table has logged yet.
            note = note.changed(wandb=old.without_purposes().wandb)
        try:
            how = config.logger
            logged: dict[str, Any] = {"project": how.project, "entity": how.entity, "system": how.system}
            with Live(note, mode=wandb_mode, tags=[config.protocol.name], **logged) as logger:

                def tell(phase: str, number: int, total: int, values: dict[str, float]) -> None:
                    if report is not None:
                        report(phase, number, total, values)
                    if phase == "rounds":
                        logger.log(number, values)

                outcome = _prepared(execute, config.runtime.threads)(config, report=tell, slot=slot)
                record = _validated(outcome.record.changed(wandb=logger.info), note.key)
                store.save(record, outcome.curves)
                logger.finish(record)
        except Exception as error:
            with suppress(OSError):
                noted = store.save_failed(note.changed(**_ended(error)))
                if not isinstance(error, UserError):
                    error.add_note(f"(traceback in {noted})")
            if out_of_memory(error):
                raise UserError(
                    f"run {note.key[:16]} ran out of memory (runtime.device={config.runtime.device}): use fewer runs "
                    "at a time, fewer clients, a smaller model.hidden, a smaller graph that the method makes, or "
                    "another runtime.device."
                ) from error
            raise
    return "done"


def _prepared(execute: str, threads: int) -> Callable[..., Any]:
    """Find the function named ``module:function``, and tell the libraries below it how many threads to use."""
    if "torch" not in sys.modules:  # read once, when the libraries load
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ[name] = str(threads)
    found: Callable[..., Any] = resolve_name(execute)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    return found


def _validated(record: Record, key: str) -> Record:
    """Return a fresh record, if it can be read back; nothing is written that would count as damaged."""
    try:
        Record.from_json(json.loads(json.dumps(record.as_json(), allow_nan=False)))
    except (UserError, ValueError) as error:
        raise RuntimeError(f"the run of {key} returned a record that no reader takes: {error}") from None
    if record.key != key:
        raise RuntimeError(f"the run of {key} returned a record of {record.key}")
    return record


def _ended(error: Exception) -> dict[str, str]:
    """Tell what is noted of a run that did not finish."""
    if isinstance(error, DivergenceError):
        return {"status": DIVERGED, "error": sentence(error)}
    return {"status": "oom" if out_of_memory(error) else "failed", "error": traceback.format_exc()}
