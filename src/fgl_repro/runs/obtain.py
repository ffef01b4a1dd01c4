"""Runs that somebody asks for by their configs: what is there of them is found, the rest is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from functools import partial

from fgl_repro.config import AXES, Config, key_of, science
from fgl_repro.core.errors import DivergenceError, UserError, sentence
from fgl_repro.runs import tuning
from fgl_repro.runs.attempt import EXECUTE, attempt
from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.names import brief, label
from fgl_repro.runs.progress import RunProgress
from fgl_repro.runs.record import DIVERGED, Record
from fgl_repro.runs.store import Archive, RecordStore, Source
from fgl_repro.runs.sweep import run_all


def obtain(
    config: Config, store: RecordStore, live: bool = True, slot: int = 0, execute: str = EXECUTE
) -> tuple[Record, bool]:
    """Return the record of ``config``, computed only if it is missing; and whether it had to be computed.

    Args:
        live: Log to W&B while the run goes on; otherwise only the record is written and can be pushed later.
        slot: Number of this job, for spreading jobs over GPUs.
        execute: As in ``attempt``.

    Raises:
        UserError: The run is being computed elsewhere, or it failed.
    """
    key = key_of(config)
    found = None if config.runtime.force else store.whole(key)
    if found is not None and store.enough(found, config.runtime.curves):
        return found, False
    mirror = config.logger.mode if live else "disabled"
    with RunProgress(brief(science(config)), config.runtime.progress) as bar:
        ending = attempt(config, store, report=bar.report, slot=slot, mirror=mirror, execute=execute)
    record = None if ending == "busy" else store.load(key)
    if record is None:
        raise UserError(f"run {key[:16]} is being computed by another process: wait for it, or stop that process.")
    return record, ending == "done"


def try_out(candidate: tuning.Choice, known: Source, compute: Callable[[], object]) -> None:
    """Compute a tuning candidate, unless it is known to diverge. One that does has lost, and others go on."""
    if not _untried(candidate.config, known):
        return
    try:
        compute()
    except DivergenceError as error:
        print(f"candidate {candidate} has lost: {sentence(error)}", file=sys.stderr)


def obtain_tuned(config: Config, folders: RunFolders) -> None:
    """Compute in this process what is missing of a run: tuning candidates, then what validation chooses of them.

    Raises:
        UserError: It is being computed elsewhere, or it failed.
    """
    for candidate in tuning.choices(config):
        try_out(candidate, folders.done, partial(_compute, candidate.config, folders))
    chosen = tuning.choose(config, folders.done)
    assert chosen is not None
    _compute(chosen, folders)


def _compute(config: Config, folders: RunFolders) -> None:
    if _missing(config, folders.done):
        obtain(config, folders.store, live=False)


def _missing(config: Config, known: Archive) -> bool:
    """Tell whether a run is to be done: it is neither recorded nor published, or it is forced."""
    return config.runtime.force or not known.enough(key_of(config), config.runtime.curves)


def settle(configs: Collection[Config], jobs: int, folders: RunFolders) -> list[tuple[str, str]]:
    """Do what is missing of many runs, here or in several worker processes; returns what failed, and why.

    Raises:
        UserError: Worker processes cannot do them, or there would be none.
    """
    if not hasattr(jobs, "__index__") or jobs < 1:
        raise UserError(f"jobs={jobs!r} does nothing: give a whole number, at least 1.")
    failed = []
    if jobs == 1:
        for config in configs:
            try:
                obtain_tuned(config, folders)
            except Exception as error:  # which left its traceback in a .failed.json
                failed.append((label(science(config)), sentence(error)))
        return failed
    _importable(configs)
    known, candidates = folders.done, [each for config in configs for each in tuning.candidates(config)]
    untried = [config for config in candidates if _untried(config, known)]
    failed = _in_processes(untried, jobs, folders)
    if not any(_has_failed(config, folders.store) for config in untried):
        failed = []  # what diverged has lost
    chosen = [tuning.choose(config, folders.done) for config in configs]
    return failed + _in_processes([config for config in chosen if config is not None], jobs, folders)


def _untried(candidate: Config, known: Source) -> bool:
    """Tell whether a candidate may have to be computed: it has not diverged yet, or it is forced."""
    return candidate.runtime.force or not tuning.diverged(key_of(candidate), known)


def _has_failed(candidate: Config, store: RecordStore) -> bool:
    """Tell whether the last attempt at a candidate failed and did not diverge, whatever an older record says."""
    note = store.load_failed(key_of(candidate))
    return note is not None and note.status != DIVERGED


def _in_processes(configs: Collection[Config], jobs: int, folders: RunFolders) -> list[tuple[str, str]]:
    known = folders.done
    missing = [config for config in configs if _missing(config, known)]
    return run_all(missing, jobs, folders.store).failed


def _importable(configs: Collection[Config]) -> None:
    """Refuse options that are defined in a notebook, which no other process can import."""
    if hasattr(sys.modules["__main__"], "__file__"):
        return
    for option in (getattr(config, axis) for config in configs for axis in AXES):
        if type(option).__module__ == "__main__":
            raise UserError(f"no other process can import {type(option).__name__} from a notebook: give jobs=1.")
