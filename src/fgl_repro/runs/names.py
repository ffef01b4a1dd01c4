"""What a run is called, by its science: in what is printed, in bars, at W&B."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def group_of(identity: Mapping[str, Any]) -> tuple[str, str, str, int]:
    """Return data set, world, method and number of clients: what a run is named by, and its duration hangs on most."""
    return (
        identity["dataset"]["name"],
        identity["setting"]["world"],
        identity["method"]["name"],
        identity["partitioner"]["clients"],
    )


def row_of(identity: Mapping[str, Any]) -> str:
    """Return the method of a run, with the variant where there are some: ``fedpub-release``."""
    name, variant = identity["method"]["name"], identity["method"].get("variant")
    return f"{name}-{variant}" if variant else str(name)


def label(identity: Mapping[str, Any], options: str = "") -> str:
    """Name a run in a few words: ``fedpub-release cora K=3 closed_set seed=0``.

    ``options`` stand in place of the world.
    """
    dataset, world, _, clients = group_of(identity)
    return f"{row_of(identity)} {dataset} K={clients} {options or world} seed={identity['seed']}"


def brief(identity: Mapping[str, Any]) -> str:
    """Name a run in fewer words, for a bar: ``fedpub-release cora 3c s0``."""
    dataset, _, _, clients = group_of(identity)
    return f"{row_of(identity)} {dataset} {clients}c s{identity['seed']}"


def mirror_name(identity: Mapping[str, Any], key: str) -> str:
    """Name a run at W&B: ``fedpub-cora-3c-closed_set-s0-012345``, as published runs are called there."""
    dataset, world, method, clients = group_of(identity)
    return f"{method}-{dataset}-{clients}c-{world}-s{identity['seed']}-{key[:6]}"
