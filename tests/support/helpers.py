"""Made-up records: the shape of real ones, with numbers that a test chooses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from fgl_repro.config import Config, build, conf_dir, register, typed
from fgl_repro.fl.metrics import Measured
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.record import Record, Selection

if TYPE_CHECKING:
    from fgl_repro.tables.artifact import Artifact
    from fgl_repro.tables.results import Grid

PROBES = ("seen_graph", "unseen_node", "missing_class", "new_client", "validation")


def config(**choices: Any) -> Config:
    """A run of FedAvg on Cora unless told otherwise."""
    named = {"dataset": "cora", "method": "fedavg", "setting": "seen_graph", "protocol": "fedlog", "clients": 3}
    overrides = choices.pop("overrides", {})
    return build(overrides, **{**named, "seed": 0, **choices})


def measured(accuracy: float | None, metric: str | None = None) -> Measured:
    """One probe at one round, as two clients would give it of whom one has no rows; ``mae``: an error."""
    return Measured(
        accuracy=accuracy,
        pooled=accuracy,
        clients_mean=accuracy,
        macro=accuracy,
        clients=[accuracy, None],
        counts=[0 if accuracy is None else 10, 0],
        metric=metric,
    )


def record(
    run: Config,
    best: float | None = 0.8,
    last: float | None = 0.7,
    probes: Mapping[str, float | None] | None = None,
    *,
    metrics: Mapping[str, Mapping[str, Measured]] | None = None,
    seconds: Mapping[str, float] | None = None,
    metric: str | None = None,
    **extra: Any,
) -> Record:
    """A finished run.

    Args:
        best: Accuracy of every probe at the best validation round.
        last: The same at the last round.
        probes: Accuracy at the best round for single probes.
        metrics: Further probes, or other measurements of those there are.
        seconds: Replaces some of the seconds.
        metric: ``mae`` where all these are errors.
        extra: Replaces other parts.
    """
    names = dict.fromkeys([*PROBES, *(probes or {})])
    at_best = {name: (probes or {}).get(name, best) for name in names}
    found = {name: {"best": measured(at_best[name], metric), "last": measured(last, metric)} for name in names}
    found |= {name: dict(at) for name, at in (metrics or {}).items()}
    parts: dict[str, Any] = {
        "data": {"fingerprint": "f"},
        "partition": {"hash": "h", "cut": 368, "sizes": [3, 2], "test_rows": {name: [10, 0] for name in found}},
        "world": {"missing": [[5], [0, 6]], "train_nodes": [4, 5]},
        "selection": Selection(57, 99, best or 0.0, last or 0.0),
        "metrics": found,
        "bytes": {"rounds": {"up": {"weights": 123}}},
        "seconds": {"setup": 0.5, "train": 1.5, "probes": 0.5, "total": 2.5} | dict(seconds or {}),
        "peak_memory_mb": 300.0,
        "device": "cpu",
        "threads": 1,
    }
    return Record(**vars(note_of(run).changed(status="ok")) | parts | extra)


def some(count: int = 3) -> list[Record]:
    """A few finished runs."""
    return [record(config(seed=seed), best=0.8 + seed / 1000) for seed in range(count)]


def dead_pid() -> int:
    """The number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def artifact_of(grid: Grid) -> Artifact:
    """A table that is nothing but its accuracies; workers of sweeps, which import this file, need no pandas for it."""
    from fgl_repro.tables.artifact import Artifact, Content
    from fgl_repro.tables.kinds.accuracy import long_rows
    from fgl_repro.tables.results import tally

    return Artifact(grid.spec, grid.protocol, Content(long_rows(grid), "", *tally(grid), grid=grid))


def composed(*overrides: str) -> Config:
    """What a command line gives."""
    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return typed(compose("config", overrides=list(overrides)))
