"""Where commands begin: what they import, for half a second, is stopped by Ctrl-C in a sentence, too."""

from __future__ import annotations

from fgl_repro.cli import exit_status


def train() -> None:
    """Run ``fgl-train``, whose own status passes as ``SystemExit``."""

    def act() -> int:
        from fgl_repro.cli.train import main

        main()
        return 0

    if status := exit_status("fgl-train", act):
        raise SystemExit(status)


def table() -> int:
    """Run ``fgl-table``; returns its exit status."""

    def act() -> int:
        from fgl_repro.cli.table import main

        return main()

    return exit_status("fgl-table", act)


def data() -> int:
    """Run ``fgl-data``; returns its exit status."""

    def act() -> int:
        from fgl_repro.cli.data import main

        return main()

    return exit_status("fgl-data", act)
