"""Stands in for a training run in tests of sweeps: quick, and leaves a trace of every start and end.

``FAKE_LOG`` names a file to which ``start KEY`` and ``end KEY`` are appended (one write, so lines do not mix);
``FAKE_SECONDS`` is how long a run takes, ``FAKE_DIVERGES`` a learning rate at which it diverges, ``FAKE_BREAKS`` one at
which it breaks.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fgl_repro.config import Config, key_of
from fgl_repro.core.errors import DivergenceError, UserError
from fgl_repro.runs.record import Record
from support import helpers

if TYPE_CHECKING:  # every worker of a sweep imports this file, and needs no torch for it
    from fgl_repro.fl.phase import Report


@dataclass
class Outcome:
    record: Record
    curves: dict[str, list[float]]


def _log(word: str, config: Config) -> None:
    path = os.environ.get("FAKE_LOG")
    if path:
        handle = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        os.write(handle, f"{word} {key_of(config)} {os.getpid()}\n".encode())
        os.close(handle)


def execute(config: Config, report: Report | None = None, slot: int = 0) -> Outcome:
    """Seed 13 breaks, 14 runs out of memory, 15 is a user's mistake, 16 kills its process, 41 breaks its GPU."""
    _log("start", config)
    for number in range(2):
        time.sleep(float(os.environ.get("FAKE_SECONDS", "0.01")) / 2)
        if report is not None:
            report("rounds", number, 2, {"loss": 2.0 - number, "validation": 0.5})
    if str(config.protocol.lr) == os.environ.get("FAKE_DIVERGES"):
        raise DivergenceError("the training loss is nan in round 0: lower protocol.lr.")
    if config.seed == 13 or str(config.protocol.lr) == os.environ.get("FAKE_BREAKS"):
        raise ValueError("thirteen")
    if config.seed == 14:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
    if config.seed == 15:
        raise UserError("no data: set FGL_DATA.")
    if config.seed == 41:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if config.seed == 16:
        os.kill(os.getpid(), 9)
    curves: dict[str, list[float]] = {"round": [0, 1], "loss": [2.0, 1.0]}
    if config.runtime.curves == "all":
        curves |= {name: [0.5, 0.9] for name in helpers.PROBES}
    outcome = Outcome(helpers.record(config, best=0.5 + config.seed % 50 / 100), curves)
    _log("end", config)
    return outcome


def drifting(config: Config, report: Report | None = None, slot: int = 0) -> Outcome:
    """Gives another accuracy than ``execute``."""
    return Outcome(helpers.record(config, best=0.123), {})


def real(config: Config, report: Report | None = None, slot: int = 0) -> Any:
    """A run that leaves its traces, takes its time, and computes what it should."""
    from fgl_repro.runs.execute import execute as compute

    _log("start", config)
    time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
    outcome = compute(config, report, slot)
    _log("end", config)
    return outcome


def gpus(config: Config, report: Report | None = None, slot: int = 0) -> Outcome:
    """Notes the GPUs that it may see."""
    with open(os.environ["FAKE_LOG"], "a") as file:
        file.write(f"gpus {os.environ.get('CUDA_VISIBLE_DEVICES', '-')}\n")
    return execute(config, report, slot)
