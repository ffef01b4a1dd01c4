"""What identifies a run: its science as plain JSON types, and the hash of that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from fgl_repro.config.schema import AXES, Config
from fgl_repro.core.errors import UserError
from fgl_repro.core.registry import option
from fgl_repro.core.schema import Axis
from fgl_repro.fl.protocol import Protocol


def science(config: Config) -> dict[str, Any]:
    """Return the identity of a run as plain JSON types.

    It has the six axes and the seed, without what cannot change a number.
    """
    return {**{axis: getattr(config, axis).identity() for axis in AXES}, "seed": config.seed}


def from_science(identity: Mapping[str, Any]) -> Config:
    """Make the config whose science a record holds, with today's defaults for all that is not science.

    Raises:
        UserError: This version does not know an option of it, or a value of one.
    """
    parts: dict[str, Any] = {axis: _class(axis, identity[axis]).from_identity(identity[axis]) for axis in AXES}
    return Config(**parts, seed=identity["seed"])


def outdated(identity: Mapping[str, Any]) -> bool:
    """Tell whether an option behind a record has another revision now.

    What this version does not know is not outdated.
    """
    for axis in AXES:
        try:
            if _class(axis, identity[axis]).changed(identity[axis]):
                return True
        except UserError:
            continue
    return False


def _class(axis: str, part: Mapping[str, Any]) -> type[Axis]:
    return Protocol if axis == "protocol" else option(axis, part["world" if axis == "setting" else "name"])


def digest(identity: dict[str, Any]) -> str:
    """Return the SHA-256 hex of canonical JSON."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def key_of(config: Config) -> str:
    """Return the key of a run, 64 hex digits."""
    return digest(science(config))


def keys_of(config: Config, seeds: Iterable[int]) -> list[str]:
    """Return the keys of the runs that differ from ``config`` in their seed alone."""
    identity = science(config)
    return [digest(identity | {"seed": seed}) for seed in seeds]


def cell_of(config: Config) -> str:
    """Return the key of a run without its seed: what seeds are averaged over."""
    identity = science(config)
    del identity["seed"]
    return digest(identity)


def as_plain(config: Config) -> dict[str, Any]:
    """Return the whole config as plain containers, with the constants of its options, for display and W&B."""
    out = asdict(config)
    return {group: getattr(config, group).constants() | out[group] if group in AXES else out[group] for group in out}
