"""Packages that only a part of the project needs: each comes with an extra, ``pip install -e '.[molecules]'``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fgl_repro.core.errors import UserError


def extra(module: str, name: str, needed_by: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: Its dotted name.
        name: The extra of this package that brings it.
        needed_by: What cannot do without it.

    Raises:
        UserError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        raise missing(module.partition(".")[0], name, needed_by) from None


def missing(package: str, name: str, needed_by: str) -> UserError:
    """Make the sentence that says which extra brings a package; it is to be raised."""
    return UserError(f"{needed_by} needs {package}, which is not installed: {install(name)}.")


def install(name: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install -c constraints.txt -e '.[{name}]'"
