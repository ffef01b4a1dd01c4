"""The package from Python: runs are found as the commands find them, tables and records are data frames."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fgl_repro
from fgl_repro.config import key_of
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.runs import frames, obtain, packed
from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.store import RecordStore
from support import helpers
from support.sweeps import PLACE, lines

ROOT = Path(__file__).resolve().parents[1]
PAGE, SRC = ROOT / "docs" / "notebook.md", ROOT / "src"


def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obtain, "obtain", partial(obtain.obtain, execute="nowhere:nothing"))


def test_a_run_is_computed_once_under_the_key_of_the_command_line(
    made_up: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FGL_RECORDS", "records")
    made = fgl_repro.run("fedpub:paper", "cora", 5, 1, results="published")
    config = helpers.config(method="fedpub", clients=5, seed=1, overrides={"method.variant": "paper"})
    assert made.key == key_of(config)
    assert (made.source, made.score) == ("local", 0.51)
    assert made.curves["loss"].tolist() == [2.0, 1.0]
    assert RecordStore("records").load(made.key) == made.record
    nothing_runs(monkeypatch)
    again = fgl_repro.run("fedpub:paper", "cora", 5, 1, **PLACE)
    assert again.record == made.record
    assert str(again) == str(made)
    assert "seen_graph" in str(made)
    with pytest.raises(ModuleNotFoundError):
        fgl_repro.run("fedpub:paper", "cora", 5, 1, **PLACE, overrides={"runtime.force": True})


def test_a_run_without_all_curves_is_done_again_where_they_are_asked_for(made_up: None) -> None:
    assert "seen_graph" not in fgl_repro.run(**PLACE).curves
    assert fgl_repro.run(**PLACE, curves="all").curves["seen_graph"].tolist() == [0.5, 0.9]


def test_published_runs_are_found_unless_fresh(made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fgl_repro.sweep("local", seed=range(3), **PLACE)
    packed.pack([run.record for run in found], Path("published/fedlog/runs.csv"))
    for path in Path("records").iterdir():  # a fresh clone
        path.unlink()
    made = fgl_repro.run("local", fresh=True, **PLACE)
    assert (made.source, len(RecordStore("records").files())) == ("local", 1)
    nothing_runs(monkeypatch)
    found = fgl_repro.sweep("local", seed=range(3), **PLACE)
    assert [(run.source, run.record.config["seed"]) for run in found] == [("local", 0), ("fedlog", 1), ("fedlog", 2)]
    every = fgl_repro.records(**PLACE)
    assert every.groupby("seed")["source"].unique().map(list).tolist() == [["local"], ["fedlog"], ["fedlog"]]
    assert fgl_repro.find(found[1].key[:12], **PLACE).source == "fedlog"


def test_a_run_is_found_by_the_rule_of_the_command_line(made_up: None) -> None:
    rates = [0.01 * number for number in range(1, 18)]  # of 17 keys two begin alike
    there = fgl_repro.sweep("local", overrides={"protocol.lr": rates}, **{**PLACE, "records": "theirs"})
    first = Counter(run.key[0] for run in there).most_common(1)[0][0]
    one, other = [run for run in there if run.key.startswith(first)][:2]
    packed.pack([other.record], Path("published/fedlog/runs.csv"))
    one.save("records")
    folders = RunFolders(Path("records"), Path("published"))
    for find in (partial(fgl_repro.find, **PLACE), folders.find):
        with pytest.raises(UserError, match=f"2 runs have a key that starts with '{first}'"):
            find(first)
    packed.pack([one.record.changed(written="before")], Path("published/fedpub/runs.csv"))
    assert folders.find(one.key[:8]) == one.record, "what was run here stands before what is published"
    Path("records", "0" * 16 + ".json").write_text("damaged")
    assert fgl_repro.find(one.key[:8], **PLACE).record == one.record


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_sweep_does_every_combination_and_says_what_failed(made_up: None, jobs: int) -> None:
    found = fgl_repro.sweep(
        ["local", "fedpub:paper"],
        clients=(3, 5),
        seed=[0, 13, 15],
        overrides={"protocol.split": (0.4, 0.3, 0.3), "protocol.lr": [0.1, 0.2]},
        jobs=jobs,
        **PLACE,
    )
    assert len(found) == 8
    assert repr(found).startswith("8 runs finished, 16 failed\n")
    assert len(repr(found).splitlines()) == 11
    assert len({" ".join(line.split()[1:]) for line in repr(found).splitlines()[2:10]}) == 8, "runs are told apart"
    assert re.search("First failure: (local|fedpub)-paper cora K=3 closed_set seed=13: ValueError: thirt", repr(found))
    assert "First failure: " in found._repr_html_()
    assert "8 runs finished, 16 failed" in found._repr_html_()
    assert "<table" in found._repr_html_()
    assert found.scores.query("probe == 'seen_graph' and selection == 'best'")["accuracy"].tolist() == [0.5] * 8
    assert [run.record.config["protocol"]["lr"] for run in found] == [0.1, 0.2] * 4
    assert found.scores.groupby("protocol.lr")["key"].nunique().to_dict() == {0.1: 4, 0.2: 4}, "a column to plot over"
    assert found[1].scores["protocol.lr"].unique() == [0.2]
    assert [run.record.config["partitioner"]["clients"] for run in found] == [3, 3, 5, 5] * 2
    assert len(found.failed) == 16
    told = dict(found.failed)
    assert told["local-paper cora K=3 closed_set seed=13"].startswith("ValueError: thirteen (traceback in records/")
    assert told["fedpub-paper cora K=5 closed_set seed=15"] == "no data: set FGL_DATA."


def test_numbers_may_be_numpys(made_up: None) -> None:
    lr = {"protocol.lr": np.float64(0.1)}
    runs = [fgl_repro.run("local", seed=seed, clients=np.int64(3), overrides=lr, **PLACE) for seed in np.arange(2)]
    swept = fgl_repro.sweep("local", seed=np.arange(2), clients=3, overrides={"protocol.lr": 0.1}, **PLACE)
    assert [run.key for run in swept] == [run.key for run in runs]
    table = fgl_repro.table("fedlog/1", datasets=["cora"], clients=np.array([3]), seeds=np.arange(2), **PLACE)
    assert set(table["wanted"]) == {2}
    swept = fgl_repro.sweep("local", clients=3, overrides={"protocol.lr": np.array([0.1, 0.2])}, **PLACE)
    assert [run.record.config["protocol"]["lr"] for run in swept] == [0.1, 0.2]


def test_a_row_is_called_as_on_the_command_line(made_up: None) -> None:
    tables = [fgl_repro.table("fedlog/1", methods=[name], **PLACE) for name in ("fedlog:paper", "fedlog-paper")]
    assert tables[0].equals(tables[1])
    assert set(tables[0]["variant"]) == {"paper"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_force_computes_again_what_is_there(made_up: None, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    forced = {"overrides": {"runtime.force": True}, "jobs": jobs, **PLACE}
    recorded = fgl_repro.sweep("local", seed=range(2), **PLACE)
    packed.pack([fgl_repro.run("local", seed=2, **{**PLACE, "records": "theirs"}).record], Path("published/a/runs.csv"))
    monkeypatch.setenv("FAKE_LOG", "log")
    found = fgl_repro.sweep("local", seed=range(3), **forced)
    assert sorted(lines(Path("log"), "end")) == sorted(run.key for run in found)
    assert [run.source for run in found] == ["local"] * 3
    assert [run.key for run in found][:2] == [run.key for run in recorded]


def test_damaged_records_are_not_passed_over_in_silence(made_up: None) -> None:
    found = fgl_repro.sweep("local", seed=[0, 1], **PLACE)
    path = RecordStore(PLACE["records"]).path(found[0].key)
    path.write_text(path.read_text()[:100])
    with pytest.warns(UserWarning, match="1 of 2 records in records could not be read: 'fgl-table check' says why"):
        assert set(fgl_repro.records(**PLACE)["key"]) == {found[1].key}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fgl_repro.run("fedmine"), "method=fedmine does not exist: choose from"),
        (lambda: fgl_repro.run("fedpub:mine"), "method.variant=mine is unknown: choose"),
        (lambda: fgl_repro.run(dataset="coral"), "dataset=coral does not exist (did you mean cora?): choose from"),
        (lambda: fgl_repro.run(overrides={"protocol.rate": 1}), "protocol.rate does not exist: the keys of protocol"),
        (lambda: fgl_repro.run(curves="some"), "runtime.curves=some is unknown"),
        (lambda: fgl_repro.sweep(jobs=0), "jobs=0 does nothing"),
        (lambda: fgl_repro.sweep(["local", "fedmine"]), "method=fedmine does not exist: choose from"),
        (lambda: fgl_repro.table("fedlg"), "there is no table fedlg: 'fgl-table list' shows"),
        (lambda: fgl_repro.table("fedlog/1", protocol="fedpub"), "fedlog/1 has no protocol fedpub: choose from"),
        (lambda: fgl_repro.table("fedlog/1", methods=["fedmine"]), "fedlog/1 has no methods fedmine: choose from"),
        (lambda: fgl_repro.table("fedlog/1", methods=[3]), "fedlog/1 has no methods 3: choose from"),
        (lambda: fgl_repro.find("0123", **PLACE), "no run, recorded here or published, has a key that starts"),
        (lambda: fgl_repro.search("nowhere"), "nowhere is not a folder: name one that holds"),
        (lambda: fgl_repro.search(None), "None is not a folder: name one that holds"),
        (lambda: fgl_repro.run(overrides=["protocol.lr=1"]), "overrides=['protocol.lr=1']: give dotted keys"),
        (
            lambda: fgl_repro.run(overrides={"paths.records": "there"}),
            "overrides cannot move the records: give records=",
        ),
        (lambda: fgl_repro.run(clients="²"), "partitioner.clients=²: give a whole number"),
        (lambda: fgl_repro.sweep(overrides={1: 2}), "overrides={1: 2}: give dotted keys and values, as in {"),
        (lambda: fgl_repro.sweep(jobs="2"), "jobs='2' does nothing: give a whole number, at least 1"),
        (lambda: fgl_repro.run(seed=[0, 1]), "seed=[0, 1] gives several values: fgl_repro.sweep does a run for each"),
        (lambda: fgl_repro.run(["local"]), "method=['local'] gives several values: fgl_repro.sweep does"),
        (lambda: fgl_repro.table("fedlog/1", methods=["ditto"]), "local, or add it as a further row (--add ditto, in"),
        (lambda: fgl_repro.find(None), "None is no key of a run: give the beginning of one"),
        (lambda: fgl_repro.table(None), "None is no name of a table: give one that 'fgl-table list'"),
        (lambda: fgl_repro.announce(lambda x: x), "<lambda> is no class of an axis with a name"),
        (lambda: fgl_repro.announce(3), "3 is no class of an axis with a name"),
        (lambda: fgl_repro.run(records=__file__), f"{__file__} is no folder: name one"),
        (lambda: fgl_repro.sweep(records=f"{__file__}/records"), f"{__file__} is no folder: name one"),
        (lambda: fgl_repro.run(records=3), "3 is no name of a folder: give one in quotes"),
        (lambda: fgl_repro.run(results="nowhere"), "there is no folder nowhere: name one that is there"),
        (lambda: fgl_repro.records(results="nowhere"), "there is no folder nowhere: name one that is there"),
        (lambda: fgl_repro.records(records="nowhere"), "there is no folder nowhere: name one that is there"),
        (lambda: fgl_repro.find("0123", records="nowhere"), "there is no folder nowhere: name one that is there"),
        (lambda: fgl_repro.table("fedlog/1", records="nowhere"), "there is no folder nowhere: name one that is"),
    ],
)
def test_mistakes_are_a_sentence(made_up: None, call: Callable[[], object], said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert list(Path().rglob("*")) == list(map(Path, PLACE.values()))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (None, "None is no name of a folder: give one"),
        ("", "the name is empty: name a folder"),
        (__file__, f"{re.escape(__file__)} is no folder: name one"),
        (f"{__file__}/records", f"{re.escape(__file__)} is no folder: name one"),
    ],
)
def test_a_run_is_saved_in_folders_alone(made_up: None, place: Any, said: str) -> None:
    made = fgl_repro.run(**PLACE)
    with pytest.raises(UserError, match=f"^{said}"):
        made.save(place)


def test_what_the_system_refuses_is_a_sentence(made_up: None) -> None:
    made, nowhere = fgl_repro.run(**PLACE), "/proc/records"  # where not even root can write
    for act in (partial(made.save, nowhere), partial(fgl_repro.run, records=nowhere, results="published")):
        with pytest.raises(
            UserError, match=r"^/proc/records\S*: No such file or directory: start the command where it"
        ):
            act()


def test_a_table_has_the_printed_numbers_beside(made_up: None) -> None:
    fgl_repro.sweep(["local", "fedavg"], seed=range(3), **PLACE)
    found = fgl_repro.table("fedlog/1", datasets=["cora"], clients=[3], methods=["local", "fedavg", "fedpub"], **PLACE)
    assert found["method"].tolist() == ["local", "fedavg", "fedpub"]
    assert found["variant"].tolist() == ["", "", "release"]
    assert found["panel"].tolist() == ["1"] * 3
    local = found.iloc[0]
    assert (local["mean"], local["n_seeds"], local["paper_mean"]) == (0.51, 3, 0.7357)
    assert local["gap"] == pytest.approx(-22.57)
    assert found["verdict"].tolist()[1:] == ["differs", "not run"]
    assert pd.isna(found["mean"].iloc[2])
    more = fgl_repro.table("fedlog/1", datasets=["cora"], clients=[3], methods=["local"], add=["fedgta"], **PLACE)
    assert more["method"].tolist() == ["local", "fedgta"]
    sizes = fgl_repro.table("fedlog/5", datasets=["cora"], clients=[3], methods=["fedavg"], **PLACE)
    assert {"dataset", "method", "n_seeds"} <= set(sizes)


def test_a_run_as_data_frames(made_up: None) -> None:
    run = fgl_repro.run(**PLACE)
    assert list(run.scores) == list(fgl_repro.records(**PLACE)) == list(frames.SCORES)
    pd.testing.assert_frame_equal(run.scores, fgl_repro.records(**PLACE))
    assert len(run.scores) == 2 * len(helpers.PROBES)
    own = run.clients.query("probe == 'new_client' and selection == 'best'")
    assert own["rows"].tolist() == [10, 0]
    assert own["accuracy"].iloc[0] == 0.5
    assert own["accuracy"].isna().tolist() == [False, True]
    assert run.bytes.to_dict("records") == [{"phase": "rounds", "direction": "up", "field": "weights", "bytes": 123}]
    run.save("elsewhere")
    moved = fgl_repro.find(run.key, records="elsewhere", results="published")
    assert moved.record == run.record
    pd.testing.assert_frame_equal(moved.curves, run.curves)


def test_runs_of_one_cell_differ_in_nothing_but_the_seed(made_up: None) -> None:
    fgl_repro.sweep("fedpub", seed=[0, 1], overrides={"protocol.lr": [0.01, 0.02]}, **PLACE)
    runs = fgl_repro.records(**PLACE).query("probe == 'seen_graph' and selection == 'best'")
    assert [sorted(own["seed"]) for _, own in runs.groupby("cell")] == [[0, 1], [0, 1]]
    shown = re.search(r"^seen\.groupby\(\[(.*)\]\)", PAGE.read_text(), re.MULTILINE)
    assert shown is not None
    assert '"cell"' in shown[1], "the guide averages over like runs alone"


def test_a_run_of_a_former_text_is_warned_of(made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fgl_repro.run(**PLACE)
    monkeypatch.setattr("fgl_repro.runs.provenance.options_digest", lambda config: "edited")
    with pytest.warns(
        UserWarning,
        match="code of its options has changed since it was .* computed again: overrides=.*: True} does that",
    ):
        fgl_repro.run(**PLACE)


def test_without_any_run_there_are_columns(made_up: None) -> None:
    assert list(fgl_repro.records(**PLACE)) == list(frames.SCORES)
    assert list(fgl_repro.sweep(seed=[13], **PLACE).scores) == list(frames.SCORES)


def test_importing_the_package_is_cheap() -> None:
    code = (
        "import sys, fgl_repro; few = len(sys.modules); fgl_repro.run; fgl_repro.sweep; assert 'run' in dir(fgl_repro)"
    )
    code += "; assert few < 200, few; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        fgl_repro.runn  # noqa: B018


def test_a_table_is_filled_where_that_is_asked(made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    corner = {"datasets": ["cora"], "clients": [3], "methods": ["local"], **PLACE}
    alone = fgl_repro.table("fedlog/1", add=["fedgta"], fill=True, **corner)
    assert alone["n_seeds"].tolist() == [0, 3], "only added rows run"
    assert fgl_repro.table("fedlog/1", fill=True, **corner)["n_seeds"].tolist() == [3]
    nothing_runs(monkeypatch)
    with pytest.raises(UserError, match=r"3 runs failed; fedavg-\w+ cora K=3 closed_set seed=0: ModuleNotFoundError"):
        fgl_repro.table("fedlog/1", fill=True, **corner | {"methods": ["fedavg"]})


def test_a_table_is_filled_by_what_it_then_reads(made_up: None) -> None:
    """A run that is published with another paper's results is in no table of this one."""
    theirs = fgl_repro.sweep("local", seed=range(3), **{**PLACE, "records": "theirs"})
    packed.pack([run.record for run in theirs], Path("published/fedpub/runs.csv"))
    packed.pack([fgl_repro.run("fedavg", **{**PLACE, "records": "theirs"}).record], Path("published/fedlog/runs.csv"))
    corner = {"datasets": ["cora"], "clients": [3], "methods": ["local"], **PLACE}
    assert fgl_repro.table("fedlog/1", **corner)["n_seeds"].tolist() == [0]
    assert fgl_repro.table("fedlog/1", fill=True, **corner)["n_seeds"].tolist() == [3]
    assert len(RecordStore("records").files()) == 3


def test_no_other_process_imports_from_a_notebook(made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("__main__.__file__", raising=False)
    monkeypatch.setattr("fgl_repro.methods.local.Local.__module__", "__main__")
    with pytest.raises(UserError, match="no other process can import Local from a notebook: give jobs=1"):
        fgl_repro.sweep("local", jobs=2, **PLACE)


def test_the_page_of_examples_runs(tmp_path: Path, real_graph: Callable[..., Graph], cache: Path) -> None:
    real_graph("cora")
    code = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)
    page = tmp_path / "page.py"
    page.write_text("\n".join(code))
    done = subprocess.run(
        [sys.executable, page.name],
        cwd=tmp_path,
        env={**os.environ, "FGL_CACHE": str(cache), "FGL_RECORDS": "", "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    published = "fedpub-release cora K=10 closed_set protocol=fedlog_matched seed=0: published with fedlog, "
    assert done.stdout.startswith(published)
    assert done.stdout.rstrip().splitlines()[-1].startswith("method=fedmine does not exist: choose from")
    assert len(RecordStore(tmp_path / "results/records").files()) == 7
    assert len(RecordStore(tmp_path / "elsewhere").files()) == 1
