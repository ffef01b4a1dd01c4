"""``fgl-data`` as a program; what it does is in the tests of the data."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fgl_repro.cli import data
from fgl_repro.data.graph import Graph
from fgl_repro.data.sources.generated import Generated


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from fgl_repro.cli.data import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'scipy', 'torch')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))


class Terminal(io.StringIO):
    """Takes what a person would see."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_work_that_takes_long_shows_a_clock_on_a_terminal(
    kind: type[io.StringIO], tmp_path: Path, toy_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(self: Generated, cache: Path) -> Graph:
        end = time.monotonic() + 60
        while seen.isatty() and "generated: reading or making the graph, 00:00" not in seen.getvalue():
            assert time.monotonic() < end, "nothing is shown"
            time.sleep(0.01)
        return toy_graph

    monkeypatch.setattr(sys, "stderr", seen := kind())
    monkeypatch.setattr(data, "TICK", 0.02)
    monkeypatch.setattr(Generated, "load", slow)
    assert data.main(["show", "generated", "--cache", str(tmp_path)]) == 0
    assert seen.getvalue().rpartition("\r")[2] == "", "the line is gone at the end"
