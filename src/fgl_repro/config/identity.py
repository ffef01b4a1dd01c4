"""What identifies a run: its science as plain JSON types, and the hash of that."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from fgl_repro.core.schema import AXES, Config


def _science(value: Any) -> Any:
    if is_dataclass(value):
        hashed = [f for f in fields(value) if f.metadata.get("science", True)]
        known = [f.name for f in hashed if not f.metadata.get("added") or getattr(value, f.name) != f.default]
        return {name: _science(getattr(value, name)) for name in known}
    return list(value) if isinstance(value, list | tuple) else value


def science(config: Config) -> dict[str, Any]:
    """The identity of a run as plain JSON types: the six axes and the seed, without what cannot change a number."""
    out = {axis: _science(getattr(config, axis)) for axis in AXES}
    out["method"] = {"name": config.method.name, **out["method"]}
    out["seed"] = config.seed
    return out


def digest(identity: dict[str, Any]) -> str:
    """SHA-256 hex of canonical JSON."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def key_of(config: Config) -> str:
    """Key of a run, 64 hex digits."""
    return digest(science(config))


def cell_of(config: Config) -> str:
    """Key of a run without its seed: what seeds are averaged over."""
    identity = science(config)
    del identity["seed"]
    return digest(identity)


def as_plain(config: Config) -> dict[str, Any]:
    """Whole config as plain containers, for display and W&B."""
    out = asdict(config)
    out["method"] = {"name": config.method.name, **asdict(config.method)}
    return out
