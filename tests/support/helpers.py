"""Made-up records: the shape of real ones, with numbers that a test chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from fgl_repro.config import Config, build, cell_of, conf_dir, key_of, register, science, typed

PROBES = ("seen_graph", "unseen_node", "missing_class", "new_client", "validation")


def config(**choices: Any) -> Config:
    """A run of FedAvg on Cora unless told otherwise."""
    named = {"dataset": "cora", "method": "fedavg", "setting": "seen_graph", "protocol": "fedlog", "clients": 3}
    overrides = choices.pop("overrides", {})
    return build(overrides, **{**named, "seed": 0, **choices})


def point(accuracy: float | None) -> dict[str, Any]:
    """One probe at one round."""
    return {
        "accuracy": accuracy,
        "pooled": accuracy,
        "clients_mean": accuracy,
        "macro": accuracy,
        "clients": [accuracy, None],
        "counts": [10, 0],
    }


def record(
    run: Config,
    best: float | None = 0.8,
    last: float | None = 0.7,
    probes: Mapping[str, float | None] | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """A finished run.

    Args:
        best: Accuracy of every probe at the best validation round.
        last: The same at the last round.
        probes: Accuracy at the best round for single probes.
        extra: Replaces top-level entries.
    """
    names = dict.fromkeys([*PROBES, *(probes or {})])
    metrics = {name: {"best": point((probes or {}).get(name, best)), "last": point(last)} for name in names}
    return {
        "format": 1,
        "key": key_of(run),
        "cell": cell_of(run),
        "status": "ok",
        "config": science(run),
        "data": {"fingerprint": "f"},
        "partition": {"hash": "h", "cut": 368, "sizes": [3, 2]},
        "world": {"missing": [[5], [0, 6]], "train_nodes": [4, 5]},
        "selection": {"best_round": 57, "last_round": 99, "validation_best": best, "validation_last": last},
        "metrics": metrics,
        "bytes": {"rounds": {"up": {"weights": 123}}},
        "seconds": {"total": 2.5},
        "peak_memory_mb": 300.0,
        "device": "cpu",
        "threads": 1,
        "git": {"sha": "0" * 40, "dirty": False},
        "error": None,
    } | extra


def composed(*overrides: str) -> Config:
    """What a command line gives."""
    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return typed(compose("config", overrides=list(overrides)))
