"""``--add``: a further row of a paper's table, in a folder of its own; committed results stay as they are."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from fgl_repro.cli import table as cli
from fgl_repro.config import conf_dir, yamls
from fgl_repro.tables import load
from fgl_repro.tables.added import with_rows

CORNER = ("--datasets", "cora", "--clients", "3")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without runs, where runs are made up: 0.5 + seed / 100."""
    monkeypatch.setattr("fgl_repro.runs.sweep.run_all.__kwdefaults__", {"execute": "support.fake_run:execute"})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FGL_RECORDS", "records")
    return tmp_path


def test_only_what_is_added_runs_and_the_papers_files_stay(shell: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ("--methods", "local,fedavg")
    assert cli.main(["run", "fedlog/1", *CORNER, *rows, "--seeds", "0"]) == 0
    before = {path: path.read_bytes() for path in (shell / "tables").rglob("*") if path.is_file()}
    capsys.readouterr()
    add = ("fedlog/1", "--add", "fedgta,fedpub:paper", *CORNER, *rows)
    assert cli.main(["missing", *add]) == 0
    assert [line.split()[3] for line in capsys.readouterr().out.splitlines()] == [
        *["method=fedgta"] * 3,
        *["method=fedpub"] * 3,
    ]
    assert cli.main(["run", *add]) == 0
    out = capsys.readouterr().out
    assert "6 runs done, 0 found" in out
    seen = [line.replace(" ", "") for line in out.splitlines()]
    assert "|1.5|**FedGTA**|51.00±1.00(3)|±2.48|||" in seen
    assert "|3.5|Local|50.00(1)||-1.00|73.57±0.30|" in seen
    assert {path: path.read_bytes() for path in before} == before
    own = shell / "tables" / "fedlog+fedgta+fedpub-paper" / "fedlog"
    names = {"leaderboard_1.md", "leaderboard_1.csv", "table_1.md", "table_1.csv", "table_1_wide.csv", "compare_1.csv"}
    assert names | {"table_1.png"} <= {path.name for path in own.iterdir()}
    with open(own / "leaderboard_1.csv") as file:
        lines = list(csv.DictReader(file))
    assert {line["method"]: (line["rank"], line["added"], line["n_seeds"]) for line in lines} == {
        "fedgta": ("1.5", "1", "3"),
        "fedpub": ("1.5", "1", "3"),
        "local": ("3.5", "0", "1"),
        "fedavg": ("3.5", "0", "1"),
    }
    assert {line["paper_mean"] for line in lines if line["method"] in ("fedgta", "local")} == {"", "0.735700"}
    for command in ("show", "compare"):
        assert cli.main([command, *add]) == 0
        assert "**FedGTA**" in capsys.readouterr().out
    assert cli.main(["show", "fedlog/1", *CORNER]) == 0
    assert "FedGTA" not in capsys.readouterr().out


def test_what_is_added_and_never_ran_is_said(shell: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add = ("fedlog/1", "--add", "fedgta,fedpub:paper", *CORNER, "--methods", "local")
    whole = "fedlog/1 --protocol fedlog --add fedgta,fedpub:paper"
    for command in ("show", "test", "latex", "compare"):
        assert cli.main([command, *add]) == 0
        out, err = capsys.readouterr()
        todo = f"'fgl-table run {whole} {' '.join(CORNER)}' does what is missing"
        assert err == f"fgl-table: what is added to fedlog/1 has no runs yet: {todo}.\n"
    assert f"A part of it; fgl-table compare {whole} writes the whole." in out
    assert cli.main(["run", *add, "--seeds", "0"]) == 0
    capsys.readouterr()
    assert cli.main(["show", *add]) == 0
    assert capsys.readouterr().err == ""


def test_runs_of_a_former_text_are_said(
    shell: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corner = (*CORNER, "--methods", "local", "--seeds", "0")
    assert cli.main(["run", "fedlog/1", *corner]) == 0
    assert cli.main(["run", "fedlog/1", "--add", "fedgta", *corner]) == 0
    assert "files of their options" not in capsys.readouterr().err
    monkeypatch.setattr("fgl_repro.runs.provenance.options_digest", lambda config: "edited")
    assert cli.main(["show", "fedlog/1", *corner]) == 0
    assert capsys.readouterr().err == "", "a paper's own rows may rest on files that were edited without any effect"
    with monkeypatch.context() as few:  # a table of one's own, in conf/table of the clone
        few.setattr("fgl_repro.tables.reference.is_printed", lambda paper: False)
        assert cli.main(["show", "fedlog/1", *corner]) == 0
        assert "were made before the files of their options changed" in capsys.readouterr().err
    for command in ("show", "run"):
        assert cli.main([command, "fedlog/1", "--add", "fedgta", *corner]) == 0
        err = capsys.readouterr().err
        assert "1 runs recorded here were made before the files of their options changed: raise revision" in err


def test_tables_of_a_paper_that_cannot_have_the_row_are_left_out(
    shell: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ["fedlog/1", "fedlog/5", "fedlog/fig9"]
    monkeypatch.setattr("fgl_repro.cli.request.specs", lambda table: {"fedlog": [load.load(name) for name in few]})
    assert cli.main(["run", "fedlog", "--add", "fedgta", *CORNER, "--seeds", "0"]) == 0
    out = capsys.readouterr().out
    assert [line.split(":")[0] for line in out.splitlines() if line.endswith(" numbers.")] == few[:2]
    assert "1 runs done" in out
    assert cli.main(["run", "fedlog/1", "--add", "fedgta", "--fast"]) == 0
    out = capsys.readouterr().out
    assert "1 runs done" in out
    assert "Only what is added was run: leave out --fast to see it among the table's other rows." in out
    few = ["opfgl/4", "opfgl/11"]  # of which the second has clients with different architectures
    monkeypatch.setattr("fgl_repro.cli.request.specs", lambda table: {"opfgl": [load.load(name) for name in few]})
    assert cli.main(["missing", "opfgl", "--add", "ditto", "--datasets", "cora", "--seeds", "0"]) == 0
    out, err = capsys.readouterr()
    assert "method=ditto" in out
    assert "opfgl/11 is left out: model=fleet cannot carry method=ditto" in err
    assert cli.main(["missing", "opfgl/11", "--add", "ditto"]) == 2


@pytest.mark.parametrize(
    ("table", "add", "said"),
    [
        ("fedlog/1", "fedmine", "method=fedmine does not exist: choose from coboost,"),
        ("fedlog", "fedmine", "method=fedmine does not exist: choose from coboost,"),
        ("fedlog/1", "fedgta:mine", "method fedgta has no variant mine: choose from"),
        ("fedlog/1", "fedgta-mine", "method fedgta has no variant mine: choose from"),
        ("fedlog/1", "fed-mine", "method=fed-mine does not exist: choose from coboost,"),
        ("fedlog/1", "local", "fedlog/1 has a row local already: add another method or variant."),
        ("fedlog/1", "fedgta,fedgta", "fedlog/1 has a row fedgta already"),
        ("fedlog/fig9", "fedgta", "fedlog/fig9 does not compare methods: add to another table"),
    ],
)
def test_mistakes(shell: Path, table: str, add: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["missing", table, "--add", add]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_variant_is_added_as_tables_call_it() -> None:
    spec = load.load("fedlog/1")
    assert with_rows(spec, ["fedgta-paper"]) == with_rows(spec, ["fedgta:paper"]) != with_rows(spec, ["fedgta"])


def test_a_protocol_that_tunes_wants_candidates_for_the_row(shell: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "fedlog/1", "--add", "fedgta", *CORNER, "--protocol", "fedlog_tuned"]) == 2
    assert "has no tuning candidates for method=fedgta: add as many as others have" in capsys.readouterr().err


def test_a_table_of_ones_own_replaces_nothing_that_is_published(
    shell: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(yamls.searched.clear)
    own = shell / "own" / "table" / "fedlog"
    own.mkdir(parents=True)
    shutil.copy(conf_dir() / "table" / "fedlog" / "1.yaml", own / "mine.yaml")
    for name in ("fedlog/1", "fedlog/mine", "fedlog"):
        assert cli.main(["publish", name, "--config-dir", "own"]) == 2
        err = capsys.readouterr().err
        assert "mine.yaml is a table of your own in the folder of a paper of ours" in err
    (own / "mine.yaml").rename(own / "1.yaml")
    load._paths.cache_clear()
    assert cli.main(["compare", "fedlog/1", "--config-dir", "own"]) == 2
    assert "1.yaml would overwrite the files of" in capsys.readouterr().err
    assert {path.name for path in shell.iterdir()} == {"own"}
