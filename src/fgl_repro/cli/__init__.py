"""Command-line tools. They import the heavy modules only once they know what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable

from fgl_repro.core.errors import UserError


def exit_status(tool: str, action: Callable[[], int]) -> int:
    """Run ``action``; a ``UserError`` becomes one line on stderr and status 2."""
    try:
        return action()
    except UserError as error:
        print(f"{tool}: {error}", file=sys.stderr)
        return 2
