"""``fgl-table``: the smoke test that keeps nothing, and what is pushed to W&B."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

import fgl_repro
from fgl_repro.cli import arguments, data, fill, request
from fgl_repro.cli import table as cli
from fgl_repro.config import yamls
from fgl_repro.core.errors import UserError
from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.names import label
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.summary import NONE_STORED
from fgl_repro.tables.load import load
from support import helpers
from support.commands import call


def test_fast_touches_nothing(tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    seen = []
    real = fill.run_all
    monkeypatch.setattr(fill, "run_all", lambda configs, *rest: seen.extend(configs) or real(configs, *rest))
    folder = tmp_path / "throwaway"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert call(tmp_path, "run", "table2", "--fast", "--methods", "local,fedpub", "--clients", "5,10") == 0
    out = capsys.readouterr().out
    assert "2 runs done, 0 found" in out
    assert "Cora, 5 clients" in out
    assert "nothing was kept" in out
    assert "10 clients" not in out
    assert "CiteSeer" not in out
    assert {(c.protocol.rounds, c.seed, c.dataset.name, c.partitioner.clients) for c in seen} == {(2, 0, "cora", 5)}
    assert list(folder.iterdir()) == []
    assert {p.name for p in tmp_path.iterdir()} == {"throwaway", "results"}
    assert not list((tmp_path / "results").iterdir())


def test_a_setting_that_no_yaml_could_say_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "fedlog/1", "--launcher", "slurm", "--slurm", "name=@x"]) == 2
    assert "argument --slurm: name=@x has a value that is no number and no plain word" in capsys.readouterr().err


PART = ("--datasets", "cora", "--clients", "3", "--methods", "fedavg,fedlog-half", "--seeds", "0")


def test_a_whole_paper_is_one_sweep(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ["table3", "table5", "table6", "table7", "table12", "fig4", "fig5"]  # the large ones take long to write
    monkeypatch.setattr(request, "specs", lambda table: {"fedlog": [load(name) for name in few]})
    assert call(tmp_path, "missing", "fedlog", *PART) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2  # FedAvg (Tables 5 and 6, Figure 5), FedLoG with a constant alpha (Table 7, Figure 4)
    assert "runtime.curves=all" in lines[0].split(), "Table 6 and Figure 5 need every round"
    assert "runtime.curves=all" not in lines[1].split()
    assert call(tmp_path, "run", "fedlog", *PART) == 0
    out = capsys.readouterr().out
    assert "2 runs done, 0 found" in out
    told = [line.split(":")[0] for line in out.splitlines() if line.endswith(" numbers.")]
    assert told == ["fedlog/5", "fedlog/6", "fedlog/7", "fedlog/fig4", "fedlog/fig5"]
    files = {path.name for path in (tmp_path / "tables" / "fedlog" / "fedlog").iterdir()}
    assert {"table_6.md", "table_7_wide.csv", "compare_7.md", "figure_4.svg", "figure_5.csv"} <= files
    assert call(tmp_path, "missing", "fedlog", *PART) == 0
    assert capsys.readouterr().out == ""
    assert call(tmp_path, "run", "fedlog", "--fast") == 0
    out = capsys.readouterr().out
    assert "nothing was kept" in out
    assert "fedlog/7: 8 of 8 numbers." in out
    everything = len(list(load("fig5").smoke().cells()))
    assert f"fedlog/fig5: {everything} of {everything} numbers." in out


def test_a_table_without_curves_does_its_runs_again(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str]
) -> None:
    corner = ("--datasets", "cora", "--clients", "3", "--methods", "fedavg")
    assert call(tmp_path, "run", "table5", *corner) == 0
    capsys.readouterr()
    assert call(tmp_path, "show", "table6", "--methods", "fedavg") == 0
    assert "3 runs were recorded without curves" in capsys.readouterr().out
    assert call(tmp_path, "run", "table6", "--methods", "fedavg", "--jobs", "2") == 0
    out = capsys.readouterr().out
    assert "3 runs done, 0 found" in out
    assert "| FedAvg   | 2.0 | 3 of 3 | 58 |" in " ".join(out.split()).replace("FedAvg |", "FedAvg   |")
    assert call(tmp_path, "publish", "table6", "--only-records") == 0
    assert "curves.csv holds the curves of 3 runs" in capsys.readouterr().out
    for path in (tmp_path / "records").iterdir():  # a fresh clone
        path.unlink()
    assert call(tmp_path, "show", "table6", "--methods", "fedavg") == 0
    assert "3 of 3" in capsys.readouterr().out
    assert call(tmp_path, "unpack", "table6") == 0
    capsys.readouterr()
    assert call(tmp_path, "missing", "table6", "--methods", "fedavg") == 0
    assert capsys.readouterr().out == ""


def test_a_published_run_without_curves_is_done_where_one_of_several_tables_needs_them(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corner = ("--datasets", "cora", "--clients", "3", "--methods", "fedavg", "--seeds", "0")
    assert call(tmp_path, "run", "table5", *corner) == 0
    assert call(tmp_path, "publish", "table5", "--only-records") == 0
    for path in (tmp_path / "records").iterdir():  # a fresh clone
        path.unlink()
    monkeypatch.setattr(request, "specs", lambda table: {"fedlog": [load("table5"), load("table6")]})
    capsys.readouterr()
    assert call(tmp_path, "run", "fedlog", *corner) == 0
    out, err = capsys.readouterr()
    assert "1 runs done, 0 found" in out
    assert "are taken from the published" not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "fedlog", "--datasets", "coral"), "no table of fedlog has what you narrow it to"),
        (("run", "fedlg"), "there is no table fedlg: 'fgl-table list' shows those of fedlog,"),
        (("publish", "fedlg"), "there is no table fedlg: 'fgl-table list' shows those of fedlog,"),
        (("show", "fedlog/1", "--datasets", "Cora"), "fedlog/1 has no datasets Cora (did you mean cora?): choose from"),
        (("show", "fedlog/1", "--methods", "fedpubb"), "no methods fedpubb (did you mean fedpub?): choose from"),
        (("show", "fig9", "--methods", "fedavg"), "fedlog/fig9 has no methods fedavg: choose from fedlog"),
        (
            ("run", "fedlog/1", "--launcher", "moon"),
            "there is no launcher moon: choose from local, ray, slurm, submitit",
        ),
        (("run", "fedlog/1", "--address", "auto"), "--address is of a Ray cluster: give --launcher ray with it."),
        (
            ("test", "fedlog/1", "--methods", "fedavg", "--row", "fedavg"),
            "there is no other row to compare fedavg with",
        ),
        (("run", "fedlog/1", "--slurm", "mem_gb=4"), "--slurm is for --launcher slurm: give that with it."),
        (("run", "fedlog/1", "--device", "gpu"), "runtime.device=gpu is no device of runs: choose auto, cpu, cuda or"),
        (("run", "fedlog/1", "--device", "cuda:99"), "runtime.device=cuda:99, but torch sees"),
    ],
)
def test_mistakes(tmp_path: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tmp_path, *words) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_run_that_diverges_is_named_in_its_cell(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DIVERGES", str(helpers.config(clients=3).protocol.lr))
    corner = ("fedlog/1", "--datasets", "cora", "--clients", "3", "--methods", "fedavg", "--seeds", "0")
    assert call(tmp_path, "run", *corner) == 1
    assert "diverged" in capsys.readouterr().out


def test_it_says_how_many_runs_were_made_on_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = RecordStore(tmp_path / "records")
    for seed, device in enumerate(("cpu", "cuda:0", "cuda:1")):
        store.save(helpers.record(helpers.config(clients=3, method="local", seed=seed)).changed(device=device))
    assert call(tmp_path, "show", "fedlog/1", "--datasets", "cora", "--clients", "3", "--methods", "local") == 0
    told = "Numbers rest on 3 runs recorded here and 0 published ones. 2 of them were made on a GPU, which draws"
    assert told in capsys.readouterr().out


def test_one_run_is_told_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = helpers.record(helpers.config(clients=3, method="local"))
    RecordStore(tmp_path / "records").save(made.changed(device="cuda:0"))
    assert call(tmp_path, "show", "fedlog/1", "--datasets", "cora", "--clients", "3", "--methods", "local") == 0
    told = "Numbers rest on 1 run recorded here and 0 published ones. 1 of them was made on a GPU, which draws"
    assert told in capsys.readouterr().out


def test_it_says_how_many_runs_have_parts_that_are_not_the_published_ones(tmp_path: Path, capsys) -> None:
    made = helpers.record(helpers.config(clients=3, method="local"))
    source = f"pymetis 2025.2.2 ({NONE_STORED})"
    RecordStore(tmp_path / "records").save(made.changed(partition=made.partition | {"source": source}))
    assert call(tmp_path, "show", "fedlog/1", "--datasets", "cora", "--clients", "3", "--methods", "local") == 0
    assert "1 of them has parts that were computed, as no published ones are stored" in capsys.readouterr().out


def test_it_counts_the_runs_of_what_it_prints_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = RecordStore(tmp_path / "records")
    for method, clients in (("local", 3), ("local", 5), ("fedavg", 3)):
        store.save(helpers.record(helpers.config(clients=clients, method=method)))
    corner = ("fedlog/1", "--datasets", "cora", "--clients", "3", "--methods", "local")
    for command in ("show", "compare", "test"):
        row = ("--row", "fedavg") if command == "test" else ()
        assert call(tmp_path, command, *corner, *row) == 0
        here = "2 runs" if row else "1 run"
        assert f"Numbers rest on {here} recorded here and 0 pub" in capsys.readouterr().out, command


def test_a_comparison_comes_as_the_csv_that_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RecordStore(tmp_path / "records").save(helpers.record(helpers.config(clients=3, method="local")))
    assert call(tmp_path, "compare", "fedlog/1", "--csv") == 0
    printed = capsys.readouterr().out
    assert not (tmp_path / "tables").exists()
    assert call(tmp_path, "compare", "fedlog/1") == 0
    assert printed == (tmp_path / "tables" / "fedlog" / "fedlog" / "compare_1.csv").read_text()
    capsys.readouterr()
    assert call(tmp_path, "show", "fedlog/fig4", "--csv") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("paper,figure,")
    assert call(tmp_path, "compare", "fedlog/fig4", "--csv") == 0
    assert capsys.readouterr().out == shown, "a figure's own lines have what is printed"
    assert call(tmp_path, "compare", "fedlog", "--csv") == 2
    assert "fedlog is a paper: choose one of" in capsys.readouterr().err


def test_estimates_do_not_learn_from_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = RecordStore(tmp_path / "records")
    corner = ("fedlog/1", "--datasets", "cora", "--clients", "3", "--methods", "local", "--seeds", "0,1")
    record = helpers.record(helpers.config(clients=3, method="local", seed=0), seconds={"total": 7200.0})
    store.save(record.changed(device="cuda:0"))
    assert call(tmp_path, "missing", *corner) == 0
    assert capsys.readouterr().err == "fgl-table: 1 runs, how long they take is not known.\n"
    store.save(record)
    assert call(tmp_path, "missing", *corner) == 0
    assert capsys.readouterr().err == "fgl-table: 1 runs, about 2.0 h on one core.\n"
    store.save(record.changed(seconds=record.seconds | {"total": 90.0}))
    assert call(tmp_path, "missing", *corner) == 0
    assert capsys.readouterr().err == "fgl-table: 1 runs, about 2 min on one core.\n"


def test_published_runs_count_as_done_unless_fresh(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str]
) -> None:
    corner = ("fedlog/1", "--datasets", "cora", "--clients", "3", "--methods", "local")
    assert call(tmp_path, "run", *corner) == 0
    assert "Numbers rest on 3 runs recorded here and 0 published ones." in capsys.readouterr().out
    assert call(tmp_path, "publish", "fedlog/1", "--only-records") == 0
    for path in (tmp_path / "records").iterdir():  # a fresh clone
        path.unlink()
    capsys.readouterr()
    assert call(tmp_path, "missing", *corner) == 0
    assert capsys.readouterr() == ("", "fgl-table: nothing is missing.\n")
    assert call(tmp_path, "run", *corner) == 0
    out, err = capsys.readouterr()
    assert "3 runs are taken from the published" in err
    assert "0 runs done, 0 found" in out
    assert "Numbers rest on 0 runs recorded here and 3 published ones." in out
    published = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.csv")}
    assert call(tmp_path, "run", *corner, "--fresh") == 0
    assert "3 runs done, 0 found" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.csv")} == published


def test_a_run_narrowed_to_seeds_prints_means_over_them(
    tmp_path: Path, fake: None, capsys: pytest.CaptureFixture[str]
) -> None:
    corner = ("fedlog/1", "--datasets", "cora", "--clients", "3", "--methods", "local")
    assert call(tmp_path, "run", *corner) == 0
    assert "(3)" in capsys.readouterr().out
    assert call(tmp_path, "run", *corner, "--seeds", "0,1") == 0
    out = capsys.readouterr().out
    assert "seeds 0, 1" in out
    assert "(2)" in out
    assert "(3)" not in out


def test_records_lie_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FGL_RECORDS", str(tmp_path / "elsewhere"))
    assert cli.main(["check"]) == 2, "whoever names a folder means one that is there"
    assert "elsewhere is no folder of records: nothing to check." in capsys.readouterr().err
    (tmp_path / "elsewhere").mkdir()
    (lost := tmp_path / "elsewhere" / f"{16 * 'a'}.curves.csv").write_text("round,loss\n0,1\n")
    assert cli.main(["check"]) == 0
    out, err = capsys.readouterr()
    assert str(tmp_path / "elsewhere") in out
    assert f"{lost} has curves of no record" in err
    monkeypatch.delenv("FGL_RECORDS")
    assert cli.main(["check"]) == 0, "a fresh clone has no records yet"
    monkeypatch.setenv("FGL_RECORDS", "")
    assert arguments.parser().parse_args(["check"]).records == Path("results/records")


@pytest.mark.parametrize("option", ["--records", "--results", "--config-dir", "--out"])
def test_an_empty_folder_is_no_folder(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", option, ""]) == 2
    assert f"argument {option}: the name is empty: name a folder" in capsys.readouterr().err


def test_nothing_lies_below_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert cli.main(["show", "table1", "--records", str(tmp_path / "file" / "records")]) == 2
    assert f"argument --records: {tmp_path / 'file'} is no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "fedlog/1", "--records", "nowhere"), "argument --records: there is no folder nowhere: name one"),
        (("run", "fedlog/1", "--results", "nowhere"), "argument --results: there is no folder nowhere: name one"),
        (("show", "fedlog/1", "--datasets", ""), "argument --datasets: it is empty: name some, or leave it out"),
        (("show", "fedlog/1", "--clients", "many"), "argument --clients: invalid list of int value: 'many'"),
        (("show",), "the following arguments are required: TABLE (see fgl-table show --help)."),
        (("shw",), "invalid choice: 'shw' (did you mean show?) (choose from"),
        (("fedlog/1",), "invalid choice: 'fedlog/1' (did you mean fgl-table show fedlog/1?) (see"),
        (("fedlog",), "invalid choice: 'fedlog' (did you mean fgl-table list fedlog?) (see"),
        (("push", "fedlog/1", "--mode", "onlin"), "invalid choice: 'onlin' (did you mean online?) (choose from"),
        (
            ("show", "--datasets", "cora", "pubmed", "photo", "fedlog/1"),
            "arguments: photo fedlog/1: several names are one word with commas: --datasets cora,pubmed,photo (see",
        ),
        (("list", "--datasets", "a", "b"), "unrecognized arguments: --datasets b (see"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    err = capsys.readouterr().err
    assert err.startswith("fgl-table: ")
    assert said in err
    assert err.count("\n") == 1
    assert "--help)." in err


@pytest.mark.parametrize("tool", [cli, data])
def test_a_tool_tells_its_version(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tool.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"fgl_repro {fgl_repro.__version__}\n"


def test_rerun_finds_published_runs_too(tmp_path):
    folders = RunFolders(tmp_path / "none", Path(__file__).parents[2] / "results")
    key = next(iter(folders.published("fedvn").runs))
    assert folders.find(key[:12]).key == key
    with pytest.raises(UserError, match="no run, recorded here or published"):
        folders.find("zz")
    with pytest.raises(UserError, match="runs have a key that starts with"):
        folders.find("")


def test_rerun_names_the_runs_that_may_be_meant_here_and_published(tmp_path):
    folders = RunFolders(tmp_path, Path(__file__).parents[2] / "results")
    published = folders.published("fedvn").runs
    keys = sorted(each for runs in folders.everything_published().values() for each in runs)
    digit = keys[0][0]
    same = [key for key in keys if key.startswith(digit)]
    mine = next(key for key in sorted(published) if key in same)
    folders.store.save(published[mine])
    with pytest.raises(UserError) as caught:
        folders.find(digit)
    told = str(caught.value)
    assert told.startswith(
        f"{len(same)} runs have a key that starts with {digit!r}, {mine[:8]} ({label(published[mine].config)}), "
    )
    assert told.endswith(f" and {len(same) - 5} others: give more digits.")
    assert told.count(" K=") == told.count(" seed=") == 5
    assert folders.find(mine[:12]).key == mine
    assert folders.find(mine).key == mine


def test_rerun_names_runs_that_were_recorded_here(tmp_path):
    every = RunFolders(tmp_path, Path(__file__).parents[2] / "results").published("fedvn").runs
    folders = RunFolders(tmp_path / "records", tmp_path / "none")
    first, second = sorted(every)[:2]
    for key in (first, second):
        folders.store.save(every[key])
    with pytest.raises(UserError, match=rf"^2 runs have .* {first[:8]} \(.* {second[:8]} \(.*\): give more digits\.$"):
        folders.find("")


def test_a_table_of_ones_own_rests_on_the_runs_of_all_papers(tmp_path, capsys, request):
    request.addfinalizer(yamls.searched.clear)
    yaml = {"title": "Mine", "datasets": ["cora"], "clients": [3], "seeds": [0, 1, 2], "partitioner": "published"}
    yaml |= {"protocols": ["fedlog_matched"], "rows": [{"name": "FedAvg", "method": "fedavg"}]}
    yaml["panels"] = {"1": {"title": "Seen graph", "setting": "seen_graph", "probe": "seen_graph"}}
    path = tmp_path / "conf" / "table" / "mine" / "1.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(yaml))
    folders = ["--records", str(tmp_path), "--results", str(Path(__file__).parents[2] / "results")]
    assert cli.main(["show", "mine/1", "--config-dir", str(tmp_path / "conf"), *folders]) == 0
    out = capsys.readouterr().out
    assert "Numbers rest on 0 runs recorded here and 3 published ones." in out
    assert "verdict" not in out, "nobody has printed anything"


def test_a_variant_is_narrowed_to_as_it_is_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corner = ("missing", "fedlog/1", "--datasets", "cora", "--clients", "3", "--seeds", "0", "--methods")
    assert call(tmp_path, *corner, "fedlog-paper") == 0
    said = capsys.readouterr().out
    assert call(tmp_path, *corner, "fedlog:paper") == 0
    assert capsys.readouterr().out == said
    assert "method.variant=paper" in said
