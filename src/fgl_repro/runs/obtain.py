"""Runs that somebody asks for by their configs: what is there of them is found, the rest is done."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from fgl_repro.config import AXES, Config, key_of, override, science
from fgl_repro.core.errors import DivergenceError, UserError, sentence
from fgl_repro.runs import tuning
from fgl_repro.runs.attempt import EXECUTE, attempt
from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.names import brief, label
from fgl_repro.runs.progress import RunProgress
from fgl_repro.runs.record import DIVERGED, Record
from fgl_repro.runs.store import RecordStore, Source, is_missing
from fgl_repro.runs.sweep import POLL, run_all


class BusyError(UserError):
    """A run is being computed by another process."""


def obtain(
    config: Config, store: RecordStore, live: bool = True, slot: int = 0, execute: str = EXECUTE
) -> tuple[Record, bool]:
    """Return the record of ``config``, computed only if it is missing; and whether it had to be computed.

    Args:
        live: Log to W&B while the run goes on; otherwise only the record is written and can be pushed later.
        slot: Number of this job, for spreading jobs over GPUs.
        execute: As in ``attempt``.

    Raises:
        BusyError: The run is being computed elsewhere.
        UserError: It failed.
    """
    key = key_of(config)
    found = None if is_missing(config, store) else store.whole(key)
    if found is not None:
        return found, False
    mirror = config.logger.mode if live else "disabled"
    with RunProgress(brief(science(config)), config.runtime.progress) as bar:
        ending = attempt(config, store, report=bar.report, slot=slot, mirror=mirror, execute=execute)
    record = None if ending == "busy" else store.load(key)
    if record is None:
        raise BusyError(f"run {key[:16]} is being computed by another process: wait for it, or stop that process.")
    return record, ending == "done"


def tune(config: Config, known: Callable[[], Source], compute: Callable[[Config], object]) -> tuning.Choice:
    """Compute the tuning candidates of a run that may be missing, and choose; without tuning it is chosen itself.

    A candidate that diverges has lost, and others go on. One that is known to diverge is not tried again, and what was
    forced as a candidate is not forced once more where it is chosen.
    """
    candidates = tuning.choices(config)
    for candidate in candidates:
        if _untried(candidate.config, known()):
            try:
                compute(candidate.config)
            except DivergenceError as error:
                print(f"candidate {candidate} has lost: {sentence(error)}", file=sys.stderr)
    chosen = tuning.chosen(config, known())
    assert chosen is not None
    if key_of(chosen.config) in {key_of(candidate.config) for candidate in candidates}:
        return replace(chosen, config=override(chosen.config, {"runtime.force": False}))
    return chosen


def obtain_tuned(config: Config, folders: RunFolders) -> None:
    """Compute in this process what is missing of a run: tuning candidates, then what validation chooses of them.

    Raises:
        UserError: It is being computed elsewhere, or it failed.
    """
    compute = partial(_compute, folders=folders)
    compute(tune(config, lambda: folders.done, compute).config)


def _compute(config: Config, folders: RunFolders) -> None:
    if is_missing(config, folders.done):
        obtain(config, folders.store, live=False)


def obtain_all(configs: Collection[Config], jobs: int, folders: RunFolders) -> list[tuple[str, str]]:
    """Do what is missing of many runs, here or in several worker processes; returns what failed, and why.

    Each is done once, a candidate of many seeds, too. What another process computes is waited for.

    Raises:
        UserError: Worker processes cannot do them, or there would be none.
    """
    if not hasattr(jobs, "__index__") or jobs < 1:
        raise UserError(f"jobs={jobs!r} does nothing: give a whole number, at least 1.")
    if jobs > 1:
        _importable(configs)
    compute = partial(_in_processes, jobs=jobs) if jobs > 1 else _here
    known, candidates = folders.done, [each for config in configs for each in tuning.candidates(config)]
    untried = {key_of(config): config for config in candidates if _untried(config, known)}
    failed = compute(untried.values(), folders=folders)
    if not any(_has_failed(config, folders.store) for config in untried.values()):
        failed = []  # what diverged has lost
    chosen = [each for config in configs if (each := tuning.choose(config, folders.done)) is not None]
    left = {key: config for config in chosen if (key := key_of(config)) not in untried or not config.runtime.force}
    return failed + compute(left.values(), folders=folders)


def _untried(candidate: Config, known: Source) -> bool:
    """Tell whether a candidate may have to be computed: it has not diverged yet, or it is forced."""
    return candidate.runtime.force or not tuning.diverged(key_of(candidate), known)


def _has_failed(candidate: Config, store: RecordStore) -> bool:
    """Tell whether the last attempt at a candidate failed and did not diverge, whatever an older record says."""
    note = store.load_failed(key_of(candidate))
    return note is not None and note.status != DIVERGED


def _in_processes(configs: Collection[Config], jobs: int, folders: RunFolders) -> list[tuple[str, str]]:
    known = folders.done
    return run_all([config for config in configs if is_missing(config, known)], jobs, folders.store).failed


def _here(configs: Collection[Config], folders: RunFolders) -> list[tuple[str, str]]:
    """Do runs one by one in this process; those that another one computes are looked at again when others are done."""
    queue, failed, waited = deque(configs), list[tuple[str, str]](), set[str]()
    while queue:
        config = queue.popleft()
        try:
            _compute(config, folders)
        except BusyError as error:
            if (key := key_of(config)) not in waited:
                print(f"waiting: {sentence(error)}", file=sys.stderr)
            waited.add(key)
            queue.append(config)
            time.sleep(POLL)
        except Exception as error:  # which left its traceback in a .failed.json
            failed.append((label(science(config)), sentence(error)))
    return failed


def _importable(configs: Collection[Config]) -> None:
    """Refuse options that are defined in a notebook, which no other process can import."""
    if hasattr(sys.modules["__main__"], "__file__"):
        return
    for option in (getattr(config, axis) for config in configs for axis in AXES):
        if type(option).__module__ == "__main__":
            raise UserError(f"no other process can import {type(option).__name__} from a notebook: give jobs=1.")
