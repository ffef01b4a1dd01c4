"""Doing a recorded run again: is the number a function of its record?"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from fgl_repro.core.errors import UserError
from fgl_repro.runs.attempt import EXECUTE
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.sweep import run_all

if TYPE_CHECKING:
    from fgl_repro.config import Config

RESULT = ("metrics", "selection", "bytes", "partition", "world", "data")


def config_of(record: Record) -> Config:
    """The config of a recorded run, with the threads and the device it had.

    Raises:
        UserError: Today's code has another identity for it, so that it would be another run.
    """
    from fgl_repro import config as module

    config = module.from_science(record.config)
    config.protocol.name = "rerun"
    config.runtime.threads = record.threads
    config.runtime.device = record.device
    config.paths.cache = os.environ.get("FGL_CACHE") or config.paths.cache
    if module.key_of(config) != record.key:
        raise UserError(
            f"record {record.key[:8]} cannot be repeated by this version: its settings have another key now "
            f"(a revision or a default has changed since git {str(record.git.get('sha'))[:8]})."
        )
    return config


def rerun(record: Record, *, execute: str = EXECUTE) -> list[str]:
    """Run a record's config again, beside the store; returns the differences, empty when the results are identical.

    Raises:
        UserError: The run failed this time.
    """
    config = config_of(record)
    with tempfile.TemporaryDirectory() as folder:
        store = RecordStore(folder)
        summary = run_all([config], 1, store, execute=execute)
        again = store.load(record.key)
    if again is None or not summary.ok:
        raise UserError(f"record {record.key[:8]} ran once but not again: see the line above.")
    before, now = record.as_json(), again.as_json()
    return [line for part in RESULT for line in differences(before[part], now[part], part)]


def differences(old: Any, new: Any, path: str) -> list[str]:
    """Where two JSON values differ, one line each."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(k for k in new if k not in old)]
        return [line for k in keys for line in differences(old.get(k), new.get(k), f"{path}.{k}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            line for i, (a, b) in enumerate(zip(old, new, strict=True)) for line in differences(a, b, f"{path}[{i}]")
        ]
    return [] if old == new else [f"{path}: {old} -> {new}"]
