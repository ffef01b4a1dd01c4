"""Doing a recorded run again: is the number a function of its record?"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from itertools import product
from typing import Any

from fgl_repro.config import Config, from_science, key_of
from fgl_repro.core.errors import UserError
from fgl_repro.core.files import cache_folder
from fgl_repro.core.lazy import torch
from fgl_repro.runs.attempt import EXECUTE
from fgl_repro.runs.formats import with_present_names
from fgl_repro.runs.provenance import edited
from fgl_repro.runs.record import SELECTIONS, Record
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.sweep import run_all

OTHER_CPU = 0.05
"""By how much an accuracy over all clients may differ on another CPU, at either round; an error by such a share of it.

On Cora with three clients and three seeds FedNTD was up to .040 apart, FedLoG .034, FedAvg .008, Local and FED-PUB
equal; one client with few nodes was .14 apart. On one machine runs repeat to the bit.
"""

RESULT = ("metrics", "selection", "bytes", "partition", "world", "data")


def config_of(record: Record) -> Config:
    """Make the config of a recorded run, with the threads it had and on the kind of device.

    Raises:
        UserError: Today's code has another identity for it, so that it would be another run; or it was made on a GPU,
            and there is none here.
    """
    config = from_science(record.config)
    config.protocol.name = "rerun"
    config.runtime.threads = record.threads
    config.runtime.device = "cuda" if record.on_gpu else "cpu"  # which of several is no matter
    config.runtime.deterministic = record.versions.get("deterministic") == "true"  # of a GPU, where it matters
    config.paths.cache = str(cache_folder())
    if key_of(config) != record.key:
        raise UserError(
            f"record {record.key[:8]} cannot be repeated by this version: its settings have another key now "
            f"(a revision or a default has changed since git {str(record.git.get('sha'))[:8]})."
        )
    if record.on_gpu and not torch.cuda.is_available():
        raise UserError(
            f"record {record.key[:8]} was made on a GPU ({record.versions.get('gpu', record.device)}), which draws "
            "other random numbers than a CPU: repeat it where torch sees one."
        )
    return config


@dataclass(frozen=True)
class RerunComparison:
    """A recorded run beside its repetition.

    Attributes:
        lines: One for each value that differs; none if the results are identical.
        largest: Largest difference between two accuracies over all clients, or two errors, as a share of the recorded.
        bound: What ``largest`` may be: 0 on the CPU that made the record, more on another, an unknown one, or a GPU.
        edited: Whether the code of the run's options has changed since it was recorded, as far as the record tells.
    """

    lines: list[str]
    largest: float
    bound: float
    edited: bool = False

    @property
    def ok(self) -> bool:
        """Whether the repetition is what this CPU had to give."""
        rounding = self.bound > 0 and all(line.startswith(("metrics.", "selection")) for line in self.lines)
        return not self.lines or (rounding and self.largest <= self.bound)

    def __str__(self) -> str:
        if not self.lines:
            return "identical."
        elsewhere = f"on a GPU, or another CPU than the record's, up to {self.bound} is to be expected"
        where = elsewhere if self.bound else "same CPU"
        why = ", and the code of its options has changed since" if self.edited else ""
        gap = f"accuracies (errors: as a share) by up to {self.largest:.4f}"
        return f"{len(self.lines)} values differ, {gap} ({where}{why})."


def rerun(record: Record, *, execute: str = EXECUTE) -> RerunComparison:
    """Run a record's config again, beside the store, and compare.

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
    before, now = with_present_names(record.as_json()), again.as_json()
    lines = [line for part in RESULT for line in differences(before[part], now[part], part)]
    alike = not record.on_gpu and same_cpu(record.versions.get("cpu", ""), again.versions["cpu"])
    bound = 0.0 if alike else OTHER_CPU
    return RerunComparison(lines, largest_gap(record, again), bound, edited(record, config))


def same_cpu(recorded: str, here: str) -> bool:
    """Tell whether two processors are the same as far as their names tell; older records lack family and model."""
    return bool(recorded) and (here == recorded or here.startswith(f"{recorded} (family "))


def largest_gap(record: Record, again: Record) -> float:
    """Measure the largest gap of what both runs measured; infinite where only one of them has a number."""
    gaps = [0.0]
    for probe, at in product({**record.metrics, **again.metrics}, SELECTIONS):
        old, new = (run.metrics.get(probe, {}).get(at) for run in (record, again))
        a, b = (None if found is None else found.accuracy for found in (old, new))
        if old is None or a is None or b is None:
            gaps.append(0.0 if a is b else math.inf)
        else:
            gaps.append(abs(a - b) / (a if old.kind.error and a else 1))
    return max(gaps)


def differences(old: Any, new: Any, path: str) -> list[str]:
    """Tell where two JSON values differ, one line each."""
    if isinstance(old, dict) and isinstance(new, dict):
        parts = [(f"{path}.{name}", old.get(name), new.get(name)) for name in {**old, **new}]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        parts = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(old, new, strict=True))]
    else:
        return [] if old == new else [f"{path}: {old} -> {new}"]
    return [line for where, a, b in parts for line in differences(a, b, where)]
