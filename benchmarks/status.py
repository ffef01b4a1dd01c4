"""Seconds of commands that only look, ``python -m benchmarks.status``; run again, each finds facts in the cache.

To compare with another version, run this file with ``PYTHONPATH`` at its sources.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CELL = ("fedlog/1", "--datasets", "cora", "--clients", "3", "--methods", "fedavg")
COMMANDS = (
    ("show", *CELL),
    ("missing", *CELL),
    ("compare", *CELL, "--out"),
    ("list",),
    ("report", "--out"),
)


def seconds(words: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one ``fgl-table``; a last word ``--out`` gets a folder."""
    words = (*words, str(folder / "out")) if words[-1] == "--out" else words
    code = "import sys; from fgl_repro.cli.table import main; sys.exit(main(sys.argv[1:]))"
    before, start = os.times(), time.perf_counter()
    environment = os.environ | {"FGL_RECORDS": str(folder / "records")}
    subprocess.run(
        [sys.executable, "-c", code, *words], check=True, env=environment, stdout=subprocess.DEVNULL, stderr=sys.stderr
    )
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, cpu


def main() -> None:
    """A line a command."""
    print(f"{'fgl-table':60} {'first, s':>10} {'again, s':>10} {'CPU, s':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for words in COMMANDS:
            (first, _), (again, cpu) = (seconds(words, Path(folder)) for _ in range(2))
            print(f"{' '.join(words):60} {first:10.1f} {again:10.1f} {cpu:10.1f}", flush=True)


if __name__ == "__main__":
    main()
