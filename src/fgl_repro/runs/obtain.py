"""Runs that somebody asks for by their configs: what is there of them is found, the rest is done."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from fgl_repro.config import AXES, Config, key_of, science
from fgl_repro.core.errors import DivergenceError, UserError, sentence
from fgl_repro.runs import tuning
from fgl_repro.runs.attempt import EXECUTE, attempt
from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.names import brief, label
from fgl_repro.runs.progress import RunProgress
from fgl_repro.runs.record import DIVERGED, Record
from fgl_repro.runs.store import RecordStore, RunSource, is_missing
from fgl_repro.runs.sweep import POLL, run_all

Task = TypeVar("Task")


class BusyError(UserError):
    """A run is being computed by another process.

    Attributes:
        key: That of the run.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


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
    found = None if is_missing(config, store) else store.load_if_whole(key)
    if found is not None:
        return found, False
    wandb_mode = config.logger.mode if live else "disabled"
    with RunProgress(brief(science(config)), config.runtime.progress) as bar:
        ending = attempt(config, store, report=bar.report, slot=slot, wandb_mode=wandb_mode, execute=execute)
    record = None if ending == "busy" else store.load(key)
    if record is None:
        text = f"run {key[:16]} is being computed by another process: wait for it, or stop that process."
        raise BusyError(text, key)
    return record, ending == "done"


def obtain_tuned(config: Config, folders: RunFolders) -> None:
    """Compute in this process what is missing of a run: tuning candidates, then what validation chooses of them.

    Raises:
        BusyError: It is being computed elsewhere.
        UserError: It failed.
    """
    _here_of(folders).tuned(config)


class Computing:
    """Runs that are computed in this process, each once, however often it is asked for or forced.

    Args:
        known: Where runs that are done answer.
        compute: Does one that is missing.
    """

    def __init__(self, known: Callable[[], RunSource], compute: Callable[[Config], object]) -> None:
        self.known = known
        self._compute = compute
        self._ended: dict[tuple[str, str], DivergenceError | None] = {}

    def __call__(self, config: Config) -> None:
        run = key_of(config), config.runtime.curves
        if run not in self._ended:
            if not is_missing(config, self.known()):
                return
            try:
                self._compute(config)
                self._ended[run] = None
            except DivergenceError as error:
                self._ended[run] = error
        if (lost := self._ended[run]) is not None:
            raise lost

    def chosen(self, config: Config) -> tuning.Candidate:
        """Compute the tuning candidates of a run that may be missing, and choose; without tuning it is chosen itself.

        A candidate that diverges has lost, and others go on. One that is known to diverge is not tried again.
        """
        for candidate in tuning.candidates(config):
            if _untried(candidate.config, self.known()):
                try:
                    self(candidate.config)
                except DivergenceError as error:
                    print(f"candidate {candidate} has lost: {sentence(error)}", file=sys.stderr)
        chosen = tuning.best_candidate(config, self.known())
        assert chosen is not None
        return chosen

    def tuned(self, config: Config) -> None:
        """Compute the candidates of a run, then what is chosen of them."""
        self(self.chosen(config).config)


def _here_of(folders: RunFolders) -> Computing:
    """Compute what counts as done in ``folders``, and record it there."""
    return Computing(lambda: folders.done, lambda config: obtain(config, folders.store, live=False))


def obtain_all(configs: Collection[Config], jobs: int, folders: RunFolders) -> list[tuple[str, str]]:
    """Do what is missing of many runs, here or in several worker processes; returns what failed, and why.

    A candidate of many seeds is done once. What another process computes is waited for.

    Raises:
        UserError: Worker processes cannot do them, or there would be none.
    """
    if not hasattr(jobs, "__index__") or jobs < 1:
        raise UserError(f"jobs={jobs!r} does nothing: give a whole number, at least 1.")
    if jobs == 1:
        return _here(configs, folders)
    _importable(configs)
    known, candidates = folders.done, [each for config in configs for each in tuning.candidate_configs(config)]
    untried = {key_of(config): config for config in candidates if _untried(config, known)}
    lost = _in_processes(untried.values(), jobs, folders)
    store = folders.store
    notes = {key: note for key in untried if (note := store.load_failed(key)) is not None}
    done = {key for key in untried if key not in notes and store.path(key).exists()}
    chosen = [each for config in configs if (each := tuning.chosen_config(config, folders.done)) is not None]
    left = [config for config in chosen if not (config.runtime.force and key_of(config) in done)]
    diverged = {key for key, note in notes.items() if note.status == DIVERGED}  # they have lost, and are no failure
    failed = {key: why for key, why in lost.items() if key not in diverged} | _in_processes(left, jobs, folders)
    return list(failed.values())


def _untried(candidate: Config, known: RunSource) -> bool:
    """Tell whether a candidate may have to be computed: it has not diverged yet, or it is forced."""
    return candidate.runtime.force or not tuning.diverged(key_of(candidate), known)


def _in_processes(configs: Collection[Config], jobs: int, folders: RunFolders) -> dict[str, tuple[str, str]]:
    """Do what is missing; returns label and sentence of what failed, by key."""
    known = folders.done
    return run_all([config for config in configs if is_missing(config, known)], jobs, folders.store).failed


def _here(configs: Collection[Config], folders: RunFolders) -> list[tuple[str, str]]:
    """Do runs one by one in this process."""
    compute, failed = _here_of(folders), list[tuple[str, str]]()

    def do(config: Config) -> None:
        try:
            compute.tuned(config)
        except BusyError:
            raise
        except Exception as error:  # which left its traceback in a .failed.json
            failed.append((label(science(config)), sentence(error)))

    in_turn(configs, do)
    return failed


def in_turn(tasks: Iterable[Task], do: Callable[[Task], object]) -> None:
    """Do tasks one by one; those that another process computes (``BusyError``) are tried again when others are done."""
    queue, waited, busy = deque(tasks), set[str](), 0
    while queue:
        task = queue.popleft()
        try:
            do(task)
            busy = 0
        except BusyError as error:
            if (reason := sentence(error)) not in waited:
                print(f"waiting: {reason}", file=sys.stderr, flush=True)
            waited.add(reason)
            queue.append(task)
            busy += 1
            if busy >= len(queue):  # each that is left has been tried in vain
                time.sleep(POLL)
                busy = 0


def _importable(configs: Collection[Config]) -> None:
    """Refuse options that are defined in a notebook, which no other process can import."""
    if hasattr(sys.modules["__main__"], "__file__"):
        return
    for option in (getattr(config, axis) for config in configs for axis in AXES):
        if type(option).__module__ == "__main__":
            raise UserError(f"no other process can import {type(option).__name__} from a notebook: give jobs=1.")
