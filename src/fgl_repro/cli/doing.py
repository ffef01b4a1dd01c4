"""Runs that somebody asks for by their configs: what is there of them is found, the rest is done."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from functools import partial

from fgl_repro.cli import request
from fgl_repro.cli.train import obtain, try_out
from fgl_repro.config import AXES, Config, key_of, science
from fgl_repro.core.errors import UserError, sentence
from fgl_repro.runs import tuning
from fgl_repro.runs.store import Archive
from fgl_repro.runs.sweep import label, run_all


def archive(args: argparse.Namespace) -> Archive:
    """What counts as done: runs recorded here, and (unless ``args.fresh``) those published of any paper."""
    return Archive(request.store(args), {}, lenient=True) if args.fresh else request.archive_of_all(args)


def obtain_tuned(config: Config, args: argparse.Namespace) -> None:
    """Compute in this process what is missing of a run: tuning candidates, then what validation chooses of them.

    Raises:
        UserError: It is being computed elsewhere, or it failed.
    """
    for candidate in tuning.choices(config):
        try_out(candidate, archive(args), partial(_compute, candidate.config, args))
    chosen = tuning.choose(config, archive(args))
    assert chosen is not None
    _compute(chosen, args)


def _compute(config: Config, args: argparse.Namespace) -> None:
    if config.runtime.force or not archive(args).enough(key_of(config), config.runtime.curves):
        obtain(config, request.store(args), live=False)


def settle(configs: Collection[Config], jobs: int, args: argparse.Namespace) -> list[tuple[str, str]]:
    """Do what is missing of many runs, here or in several worker processes; returns what failed, and why.

    Raises:
        UserError: Worker processes cannot do them, or there would be none.
    """
    if jobs < 1:
        raise UserError(f"jobs={jobs} does nothing: give at least 1.")
    failed = []
    if jobs == 1:
        for config in configs:
            try:
                obtain_tuned(config, args)
            except Exception as error:  # which left its traceback in a .failed.json
                failed.append((label(science(config)), sentence(error)))
        return failed
    _importable(configs)
    known, candidates = archive(args), [each for config in configs for each in tuning.candidates(config)]
    untried = [config for config in candidates if not tuning.diverged(key_of(config), known)]
    failed = _in_processes(untried, jobs, args)
    chosen = [tuning.choose(config, archive(args)) for config in configs]
    failed = failed if None in chosen else []  # what diverged has lost
    return failed + _in_processes([config for config in chosen if config is not None], jobs, args)


def _in_processes(configs: Collection[Config], jobs: int, args: argparse.Namespace) -> list[tuple[str, str]]:
    known = archive(args)
    missing = [config for config in configs if not known.enough(key_of(config), config.runtime.curves)]
    return run_all(missing, jobs, request.store(args)).failed


def _importable(configs: Collection[Config]) -> None:
    """Refuse options that are defined in a notebook, which no other process can import."""
    if hasattr(sys.modules["__main__"], "__file__"):
        return
    for option in (getattr(config, axis) for config in configs for axis in AXES):
        if type(option).__module__ == "__main__":
            raise UserError(f"no other process can import {type(option).__name__} from a notebook: give jobs=1.")
