"""Tables: pure functions of records, honest about what is missing."""

from __future__ import annotations

import csv
import io
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fgl_repro.config import digest, key_of, override
from fgl_repro.core.errors import UserError
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.rerun import rerun
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import artifact, compare, needs, printing, results
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.kinds import accuracy
from fgl_repro.tables.load import load, parse
from fgl_repro.tables.spec import TableSpec
from support import helpers
from support.candidates import record_candidates, tuned
from support.commands import call

SMALL = """
title: Small
rows:
  - {name: Local, method: local}
  - {name: FED-PUB, method: fedpub, overrides: {method.variant: paper}}
datasets: [cora, citeseer]
clients: [3]
seeds: [0, 1, 2]
partitioner: published
protocols: [fedlog]
panels:
  "1": {title: Seen, setting: seen_graph, probe: seen_graph, reference: {file: fedlog/table_1.csv, setting: seen_graph}}
"""


def written(folder: Path, text: str) -> Path:
    """A table of FedLoG in a folder of a user's own."""
    path = folder / "fedlog" / "1.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def spec(tmp_path: Path) -> TableSpec:
    return parse(written(tmp_path, SMALL))


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


def cell(spec: TableSpec, method: str, dataset: str = "cora", clients: int = 3) -> Cell:
    return next(c for c in spec.cells() if (c.row.method, c.dataset, c.clients) == (method, dataset, clients))


def put(spec: TableSpec, store: RecordStore, where: Cell, values: list[float | None]) -> None:
    for seed, value in enumerate(values):
        if value is not None:
            store.save(helpers.record(spec.config(where, "fedlog", seed), best=value, last=value / 2))


def test_mean_std_and_seeds(spec: TableSpec, store: RecordStore) -> None:
    where = cell(spec, "local")
    put(spec, store, where, [0.80, 0.82, 0.84])
    table = results.fill(spec, "fedlog", Archive(store, {}))
    found = table.results[where]
    assert found.status == "complete"
    assert found.best == results.Stat(pytest.approx(0.82), pytest.approx(0.02), 3)  # ddof 1, as print
    assert found.last == results.Stat(pytest.approx(0.41), pytest.approx(0.01), 3)
    assert table.selection == "best"
    assert found.keys == tuple(key_of(spec.config(where, "fedlog", s))[:8] for s in range(3))
    assert printing.cell_text(found, "best", "percent") == "82.00 ± 2.00"
    assert printing.cell_text(found, "best", "fraction") == "0.8200 (0.0200)"


def test_ddof_of_one() -> None:
    middle, around = pytest.approx(0.82), pytest.approx(0.02)
    assert results.stat([0.8, 0.82, 0.84], 0).restated(0, 1) == results.Stat(middle, around, 3)
    assert results.Stat(0.8, None, 1).restated(1, 0) == results.Stat(0.8, None, 1)
    assert results.stat([0.8, 0.82, 0.84], 1) == results.Stat(middle, around, 3)
    assert results.stat([0.8], 1) == results.Stat(0.8, None, 1)
    assert results.stat([None, None], 0) is None


def test_missing_runs_and_seeds(spec: TableSpec, store: RecordStore) -> None:
    some, failed, oom, empty = (
        cell(spec, "local"),
        cell(spec, "fedpub"),
        cell(spec, "local", "citeseer"),
        cell(spec, "fedpub", "citeseer"),
    )
    put(spec, store, some, [0.8, None, 0.9])
    for where, status in ((failed, "failed"), (oom, "oom")):
        run = spec.config(where, "fedlog", 1)
        store.save_failed(note_of(run).changed(status=status))
    for seed in range(3):
        store.save(helpers.record(spec.config(empty, "fedlog", seed), probes={"seen_graph": None}, last=None))
    found = results.fill(spec, "fedlog", Archive(store, {})).results
    assert [found[c].status for c in (some, failed, oom, empty)] == ["partial", "failed", "oom", "empty"]
    shown = [printing.cell_text(found[c], "best", "percent") for c in (some, failed, oom, empty)]
    assert shown == ["85.00 ± 7.07 [2 of 3]", "failed", "OOM", "no rows"]


def test_what_is_missing_would_take_as_long_as_runs_on_a_cpu(spec: TableSpec, store: RecordStore) -> None:
    """A GPU's seconds are of another kind."""
    some = cell(spec, "local")
    for seed, device, seconds in ((0, "cpu", 60.0), (1, "cuda:0", 2.0)):
        run = helpers.record(spec.config(some, "fedlog", seed), seconds={"total": seconds})
        store.save(run.changed(device=device))
    assert results.fill(spec, "fedlog", Archive(store, {})).results[some].hours == pytest.approx(1 / 60)


def test_a_number_says_which_of_its_seeds_came_to_nothing(spec: TableSpec, store: RecordStore) -> None:
    """Else a mean over those that survived would look as if the others were still to run."""
    some, gone = cell(spec, "local"), cell(spec, "fedpub")
    for where, seeds in ((some, [0.8, None, 0.9]), (gone, [0.7, None, None])):
        put(spec, store, where, seeds)
    for where, seed, status in ((some, 1, "diverged"), (gone, 1, "diverged"), (gone, 2, "oom")):
        store.save_failed(note_of(spec.config(where, "fedlog", seed)).changed(status=status))
    table = results.fill(spec, "fedlog", Archive(store, {}))
    shown = [printing.cell_text(table.results[c], "best", "percent") for c in (some, gone)]
    assert shown == ["85.00 ± 7.07 [2 of 3, 1 diverged]", "70.00 [1 of 3, 1 OOM, 1 diverged]"]
    assert table.results[some].hours is None, "what diverged would do so again"
    each = helpers.record(spec.config(some, "fedlog", 0)).seconds["total"]
    assert table.results[gone].hours == pytest.approx(each / 3600), "what had no memory may have more"
    assert "85.00 ± 7.07 (2, 1 diverged)" in compare.screen(table)
    assert "[2 of 3, 1 diverged]" in accuracy.markdown(table)
    assert "| 2, 1 diverged" in compare.markdown(table).replace("  ", "")


def test_a_table_of_nothing_is_blank(spec: TableSpec, store: RecordStore) -> None:
    table = results.fill(spec, "fedlog", Archive(store, {}))
    assert {r.status for r in table.results.values()} == {"not run"}
    rows = list(csv.DictReader(io.StringIO(accuracy.wide_text(table))))
    assert all(row["Cora 3"] == "" for row in rows)


def test_what_is_missing_shows_what_it_would_take_and_csvs_do_not(spec: TableSpec, store: RecordStore) -> None:
    """Two seeds of Local took 60 s each; FED-PUB ran under another protocol, as published, for two hours a seed."""
    some, never, other = cell(spec, "local"), cell(spec, "local", "citeseer"), cell(spec, "fedpub", "citeseer")
    for seed in range(2):
        store.save(helpers.record(spec.config(some, "fedlog", seed), seconds={"total": 60.0}))
    run = helpers.record(spec.config(other, "fedlog_matched", 0), seconds={"total": 7200.0})
    table = results.fill(spec, "fedlog", Archive(store, {run.key: run}))
    assert [table.results[c].to_run for c in (some, never, other)] == ["(1 min to run)", "", "(6.0 h to run)"]
    assert printing.cell_text(table.results[some], "best", "percent", costs=True).endswith("[2 of 3] (1 min to run)")
    for page in (accuracy.markdown(table), compare.markdown(table), compare.screen(table)):
        assert "(1 min to run)" in page
        assert "(6.0 h to run)" in page
    for rows in (accuracy.long_rows(table), compare.rows(table)):
        assert not any("to run" in str(value) for row in rows for value in row.values())
    assert "to run" not in accuracy.wide_text(table)
    assert results.tally(table) == (0, 4)


def test_another_variant_or_setting_is_another_run(spec: TableSpec, store: RecordStore) -> None:
    where = cell(spec, "fedpub")
    for other in ({"method.variant": "release"}, {"protocol.rounds": 2}, {"seed": 7}):
        store.save(helpers.record(override(spec.config(where, "fedlog", 0), other)))
    assert results.fill(spec, "fedlog", Archive(store, {})).results[where].status == "not run"


def test_written_files(spec: TableSpec, store: RecordStore, tmp_path: Path) -> None:
    put(spec, store, cell(spec, "fedpub"), [0.80, 0.82, 0.84])
    table = results.fill(spec, "fedlog", Archive(store, {}))
    made = artifact.make(spec, "fedlog", Archive(store, {}))
    assert made.content.grid == table
    paths = {path.name: path for path in artifact.write(made, tmp_path / "out")}
    names = {"table_1.csv", "table_1.md", "table_1_wide.csv", "compare_1.csv", "compare_1.md", "table_1.png"}
    assert set(paths) == names
    long = list(csv.DictReader(paths["table_1.csv"].open()))
    assert len(long) == 2 * 2 * 2
    row = next(r for r in long if r["method"] == "fedpub" and r["dataset"] == "cora" and r["selection"] == "best")
    assert (row["variant"], row["mean"], row["std"], row["n_seeds"], row["printed"]) == (
        "paper",
        "0.820000",
        "0.020000",
        "3",
        "1",
    )
    wide = list(csv.DictReader(paths["table_1_wide.csv"].open()))
    assert [(r["selection"], r["method"]) for r in wide] == [
        (s, m) for s in ("best", "last") for m in ("Local", "FED-PUB (paper)")
    ]
    assert wide[1]["Cora 3"] == "82.00 ± 2.00"
    assert "FED-PUB (paper)" in paths["table_1.md"].read_text()
    before = [p.read_bytes() for p in paths.values()]
    artifact.write(artifact.make(spec, "fedlog", Archive(store, {})), tmp_path / "out")
    assert [p.read_bytes() for p in paths.values()] == before


@pytest.mark.parametrize(
    ("methods", "datasets", "said"),
    [
        ([], [], "fedlog, mean over 3 seeds"),
        (["fedpub"], ["cora", "citeseer"], "fedlog, some rows' settings fitted to print, mean over 3 seeds"),
        (["fedpub", "local"], ["cora"], "fedlog, some rows' settings fitted to print, mean over 3 seeds"),
        (["fedpub", "local"], ["cora", "citeseer"], "fedlog, settings fitted to print, mean over 3 seeds"),
    ],
)
def test_a_drawing_says_how_much_of_it_is_fitted(
    methods: list[str],
    datasets: list[str],
    said: str,
    spec: TableSpec,
    store: RecordStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(spec, store, cell(spec, "fedpub"), [0.80, 0.82, 0.84])
    made = artifact.make(spec, "fedlog", Archive(store, {}))
    assert made.content.grid is not None
    grid = replace(made.content.grid, fitted=dict.fromkeys(methods, datasets))
    titles: list[str] = []
    monkeypatch.setattr("fgl_repro.tables.figures.charts.save", lambda _, title, *__: titles.append(title) or [])
    artifact.write(replace(made, content=replace(made.content, grid=grid)), tmp_path)
    assert [title.splitlines()[-1] for title in titles] == [f"protocol {said}"]


def test_narrow(spec: TableSpec) -> None:
    part = spec.narrow(["citeseer"], [], ["fedpub-paper"], [1])
    assert [(c.dataset, c.row.method) for c in part.cells()] == [("citeseer", "fedpub")]
    assert part.seeds == (1,)
    for wrong in ({"datasets": ["foo"]}, {"clients": [4]}, {"methods": ["fedprox"]}, {"seeds": [9]}):
        with pytest.raises(UserError, match="choose from"):
            spec.narrow(**wrong)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("title: Small", ""),
        ("title: Small", "title: [Small"),
        ("FED-PUB, method: fedpub", "Local, method"),
        ("[3]", "x"),
    ],
)
def test_wrong_yaml_is_one_sentence(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(written(tmp_path, SMALL.replace(old, new)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["table1", "table2", "table9"])
def test_shipped_tables(name: str) -> None:
    spec = load(name)
    runs = {key_of(c) for c in needs.runs(spec, "fedlog")}
    assert len(runs) == len(spec.rows) * 5 * 3 * 3
    if name == "table2":
        assert runs == {key_of(c) for c in needs.runs(load("table1"), "fedlog")}
    if name == "table9":
        assert {c.setting.world for c in needs.runs(spec, "fedlog")} == {"open_set"}


def test_a_tuned_table_says_what_was_chosen(spec: TableSpec, store: RecordStore, monkeypatch) -> None:
    monkeypatch.setattr(TableSpec, "config", lambda self, where, protocol, seed: tuned(seed=seed))
    assert {r.status for r in results.fill(spec, "x", Archive(store, {})).results.values()} == {"untuned"}
    record_candidates(store, tuned(), [0.7, 0.9, 0.8], [0.5] * 3)
    assert len(needs.chosen_runs(spec, "x", store)[0]) == 12
    result = next(iter(results.fill(spec, "x", Archive(store, {})).results.values()))
    assert (result.status, result.chosen) == ("partial", "protocol.lr=0.01")  # the tuning seed's run serves again


# --- the command ------------------------------------------------------------------------------------------------------


def test_run_show_pack_and_a_narrow_run_on_top(
    tmp_path: Path, store: RecordStore, fake: None, capsys: pytest.CaptureFixture[str]
) -> None:
    corner = ("table1", "--datasets", "cora", "--clients", "3", "--methods", "local,fedpub")
    assert call(tmp_path, "run", *corner, "--jobs", "2") == 0
    out = capsys.readouterr().out
    assert "| Local " in out
    assert "73.57 ± 0.30" in out  # the paper
    assert "51.00 ± 1.00 (3)" in out  # seeds 0, 1, 2 of the fake
    assert "CiteSeer" not in out
    folder = tmp_path / "tables" / "fedlog" / "fedlog"
    names = {"table_1.csv", "table_1_wide.csv", "table_1.md", "table_1.png", "compare_1.csv", "compare_1.md"}
    assert {p.name for p in folder.iterdir()} == names
    assert not any((tmp_path / "results").iterdir()), "what a user runs never touches what is published"
    assert call(tmp_path, "publish", "table1", "--only-records") == 0
    for path in store.files():  # a fresh clone: no records, only what was committed
        path.unlink()
    assert call(tmp_path, "run", "table1", "--datasets", "citeseer", "--clients", "3", "--methods", "local") == 0
    wide = list(csv.DictReader((folder / "table_1_wide.csv").open()))
    assert wide[0]["method"] == "Local"
    assert (wide[0]["Cora 3"], wide[0]["CiteSeer 3"]) == ("51.00 ± 1.00", "51.00 ± 1.00"), "the rest was blanked"
    capsys.readouterr()
    assert call(tmp_path, "unpack", "table1") == 0
    assert "6 new records" in capsys.readouterr().out
    assert call(tmp_path, "show", *corner) == 0
    assert "51.00 ± 1.00 (3)" in capsys.readouterr().out
    assert call(tmp_path, "missing", *corner, "--seeds", "0") == 0
    assert capsys.readouterr().out == ""


def test_missing_prints_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tmp_path, "missing", "table2", "--datasets", "cora", "--clients", "3", "--seeds", "0") == 0
    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert len(lines) == len(load("table2").rows)
    assert told.err == "fgl-table: 9 runs, how long they take is not known.\n"
    assert lines[0].startswith("python -m fgl_repro.train method=local dataset=cora partitioner=published setting=")
    for line in lines:
        words = dict(word.split("=", 1) for word in shlex.split(line)[3:])
        groups = {k: v for k, v in words.items() if "." not in k and k != "seed"}
        dotted = {k: v for k, v in words.items() if "." in k}
        run = helpers.build(dotted, **groups, seed=int(words["seed"]))
        assert key_of(run) in {key_of(c) for c in needs.runs(load("table1"), "fedlog")}


def test_rerun(
    tmp_path: Path, store: RecordStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = helpers.config(seed=3)
    store.save(helpers.record(run, best=0.53))
    for execute, status, said in (
        ("execute", 0, "identical"),
        ("drifting", 1, "metrics.seen_graph.best.accuracy: 0.53"),
    ):
        monkeypatch.setattr("fgl_repro.cli.table.rerun", partial(rerun, execute=f"support.fake_run:{execute}"))
        assert call(tmp_path, "rerun", key_of(run)[:6]) == status
        assert said in capsys.readouterr().out
    changed = helpers.record(run)  # with a default in it that is not hashed
    config = changed.config | {"protocol": changed.config["protocol"] | {"batch": 0}}
    cell = {name: value for name, value in config.items() if name != "seed"}
    store.save(changed.changed(config=config, key=digest(config), cell=digest(cell)))
    assert call(tmp_path, "rerun", digest(config)) == 2
    assert "another key now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "table77"), "there is no table table77: 'fgl-table list' shows those of fedlog,"),
        (("show", "table1", "--datasets", "coral"), "choose from cora"),
        (("show", "table1", "--protocol", "best"), "choose from fedlog"),
        (("run", "table1", "--jobs", "0"), "at least 1"),
        (("rerun", "abc"), "no run, recorded here or published, has a key that starts with"),
        (("unpack", "table1"), "nothing to unpack"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, *words) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_truncated_record_stops_readers_and_not_runs(
    tmp_path: Path, store: RecordStore, fake: None, capsys: pytest.CaptureFixture[str]
) -> None:
    corner = ("table1", "--datasets", "cora", "--clients", "3", "--methods", "local")
    assert call(tmp_path, "run", *corner) == 0
    path = store.files()[0]
    path.write_text(path.read_text()[:50])
    capsys.readouterr()
    for words in (("show", *corner), ("check",), ("compare", "table1")):
        assert call(tmp_path, *words) == 2
        err = capsys.readouterr().err
        assert path.name in err
        assert err.count("\n") == 1
    assert path.read_text(), "nothing lost"
    assert call(tmp_path, "run", *corner) == 0
    assert "1 runs done, 2 found" in capsys.readouterr().out
