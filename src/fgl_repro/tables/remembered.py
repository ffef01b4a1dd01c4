"""What takes long to find out and rests on code and files alone, kept in the cache until they are others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from fgl_repro.config import digest
from fgl_repro.core.files import write_atomic

T = TypeVar("T")

PACKAGE = Path(__file__).parents[1]


def remembered(folder: Path, what: Mapping[str, Any], rests_on: str, compute: Callable[[], T]) -> T:
    """Return what ``compute`` finds, or found when it was last asked for.

    Args:
        folder: The cache; where it cannot be written nothing is kept.
        what: Names the thing, in plain JSON types.
        rests_on: Digest of all that it depends on beyond its name; once that is another one it is computed anew.
        compute: Finds it, in plain JSON types.
    """
    path = folder / "facts" / f"{digest(dict(what))[:32]}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["rests_on"] == rests_on:
            known: T = kept["found"]
            return known
    found = compute()
    with suppress(OSError):
        write_atomic(path, json.dumps({"rests_on": rests_on, "found": found}))
    return found


@cache
def version_of_code() -> str:
    """Digest this package's sources and the versions of what divides graphs."""
    return digest(_texts(PACKAGE, "*.py") | {name: version(name) for name in ("networkx", "numpy", "pymetis", "scipy")})


def version_of_options(folder: Path) -> str:
    """Digest this package's sources and the yaml files in ``folder``: keys of runs rest on nothing else."""
    return digest({"code": version_of_code(), **_texts(folder, "*.yaml")})


def _texts(folder: Path, pattern: str) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted(folder.rglob(pattern))}
