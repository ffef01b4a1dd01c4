"""``fgl-data`` as a program; what it does is in the tests of the data."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from fgl_repro.cli import data as cli
from fgl_repro.data.download import source_of
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
    """Takes what a person would see, and tells when a clock is among it."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "generated: reading or making the graph, 00:00" in text:
            self.clock.set()
        return super().write(text)


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_work_that_takes_long_shows_a_clock_on_a_terminal(
    kind: type[io.StringIO], tmp_path: Path, toy_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(self: Generated, cache: Path) -> Graph:
        assert not isinstance(seen, Terminal) or seen.clock.wait(60), "nothing is shown"
        return toy_graph

    monkeypatch.setattr(sys, "stderr", seen := kind())
    monkeypatch.setattr(cli, "TICK", 0.02)
    monkeypatch.setattr(Generated, "load", slow)
    assert cli.main(["show", "generated", "--cache", str(tmp_path)]) == 0
    assert seen.getvalue().rpartition("\r")[2] == "", "the line is gone at the end"


def test_list_tells_raw_files_at_hand_from_those_to_be_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FGL_DATA", str(tmp_path / "data"))
    for name, root in (("cora", tmp_path / "data"), ("actor", tmp_path / "cache" / "raw")):
        source = source_of(name)
        (root / source.folder).mkdir(parents=True)
        for file in source.urls:
            (root / source.folder / file).touch()
    photo = source_of("photo")
    (tmp_path / "data" / photo.folder).mkdir(parents=True)
    assert cli.main(["list", "--cache", str(tmp_path / "cache")]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    start = head.index("raw files")
    told = {line.split()[0]: line[start : start + len("raw files")].strip() for line in lines}
    assert {name for name, files in told.items() if files == "at hand"} == {"cora", "actor"}
    assert told["photo"] == "absent"
    assert told["motif_basis"] == "-"


def test_whoever_stops_it_stops_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []

    def interrupted(name: str, _: object) -> int:
        seen.append(name)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_fetch", interrupted)
    assert cli.main(["fetch", "cora", "citeseer", "--cache", str(tmp_path)]) == 130
    assert seen == ["cora"]
    assert capsys.readouterr().err == "fgl-data: stopped: what is complete is kept; start again to do the rest.\n"
