"""``fgl-table missing``: its commands record where the table then looks for their runs."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from fgl_repro.cli import table as cli
from fgl_repro.config import key_of
from fgl_repro.runs.folders import default_records
from support import helpers

CORNER = ("missing", "fedlog/1", "--datasets", "cora", "--clients", "3", "--methods", "fedavg", "--seeds", "0")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without runs."""
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["a/plain/one", "word", "null", "007", "a b", "ä", 'it\'s "$x"', "a=1,b=[2]", "end\\"])
def test_its_commands_record_where_the_command_line_says(
    shell: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).mkdir(parents=True)
    assert cli.main([*CORNER, "--records", name]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    config = helpers.composed(*shlex.split(line)[3:])
    assert config.paths.records == name
    assert key_of(config) == key_of(helpers.config(clients=3, method="fedavg", seed=0))
    assert ("paths.records=a/plain/one" in line.split()) == (name == "a/plain/one"), "no quotes where none are needed"


@pytest.mark.parametrize("variable", ["", "elsewhere"])
def test_its_commands_do_not_name_the_folder_that_is_taken_anyway(
    shell: Path, variable: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FGL_RECORDS", variable)
    default_records().mkdir(parents=True)
    for more in ((), ("--records", str(default_records()))):
        assert cli.main([*CORNER, *more]) == 0
        assert "paths.records" not in capsys.readouterr().out


@pytest.mark.parametrize(("seed", "has", "lacks"), [(0, "seed=0", "seed=4"), (4, "seed=4", "seed=0")])
def test_of_a_whole_paper_those_tables_are_meant_whose_protocols_have_the_seeds(
    shell: Path, seed: int, has: str, lacks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some of FED-PUB's tables draw a split a seed, from 1 on, by their protocol; their yamls have the paper's."""
    assert cli.main(["missing", "fedpub", "--seeds", str(seed), "--methods", "fedavg", "--datasets", "cora"]) == 0
    commands = capsys.readouterr().out
    assert has in commands
    assert lacks not in commands
