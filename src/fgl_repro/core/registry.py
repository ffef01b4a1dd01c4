"""Finding things by the module they live in: a new partitioner or world is one new file, and no edit elsewhere."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from fgl_repro.core.errors import UserError


def find(package: str, name: str, attribute: str, option: str) -> Any:
    """``attribute`` of the module ``name`` in ``package``.

    Args:
        package: Dotted name of the package that is scanned.
        name: Module asked for, as the user wrote it.
        attribute: What such a module must expose; modules without it are helpers and cannot be asked for.
        option: The config option the name came from, for the message.

    Raises:
        UserError: No module of that name exposes ``attribute``.
    """
    modules = [module.name for module in iter_modules(import_module(package).__path__)]
    if name in modules:
        found = getattr(import_module(f"{package}.{name}"), attribute, None)
        if found is not None:
            return found
    choices = sorted(m for m in modules if hasattr(import_module(f"{package}.{m}"), attribute))
    raise UserError(f"There is no {option}={name}; choose one of {', '.join(choices)}.")
