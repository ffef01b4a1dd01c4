"""Where commands begin: what they import, for half a second, is stopped by Ctrl-C in a sentence, too."""

from __future__ import annotations

from importlib import import_module

from fgl_repro.cli import exit_status


def train() -> None:
    """Run ``fgl-train``, whose own status passes as ``SystemExit``."""
    if status := _begin("train"):
        raise SystemExit(status)


def table() -> int:
    """Run ``fgl-table``; returns its exit status."""
    return _begin("table")


def data() -> int:
    """Run ``fgl-data``; returns its exit status."""
    return _begin("data")


def _begin(name: str) -> int:
    return exit_status(f"fgl-{name}", lambda: import_module(f"fgl_repro.cli.{name}").main() or 0)
