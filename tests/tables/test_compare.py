"""Comparison with the printed numbers: verdicts, misprints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import agreement, compare, reference, results
from fgl_repro.tables.figures import gaps
from fgl_repro.tables.load import load
from fgl_repro.tables.reference import Reference
from fgl_repro.tables.results import Stat
from support import helpers

RESULTS = Path(__file__).parents[2] / "results"


def test_reference_is_read_as_printed() -> None:
    grid = reference.accuracies("fedlog/table_1.csv", "seen_graph")
    assert len(grid) == 120
    assert grid["cora", 3, "FED-PUB"] == Reference(0.8476, 0.0021, "")
    assert grid["computers", 10, "FedLoG"].std is None
    for name, setting in (("2a", "unseen_node"), ("2b", "missing_class"), ("2c", "new_client")):
        assert len(reference.accuracies(f"fedlog/table_{name}.csv", setting)) == 120
    for name, setting in (("9a", "open_unseen_node"), ("9b", "open_missing_class")):
        assert len(reference.accuracies(f"fedlog/table_{name}.csv", setting)) == 120


def test_every_cell_of_the_tables_has_a_printed_number_and_the_misprints_are_marked() -> None:
    suspects = set()
    for name in ("table1", "table2", "table9"):
        for cell in load(name).cells():
            theirs = reference.of(cell)
            assert theirs is not None, cell
            if theirs.suspect:
                suspects.add((cell.panel.name, cell.row.name, cell.dataset, cell.clients))
    local = {(d, k) for d in ("cora", "citeseer", "pubmed", "photo", "computers") for k in (3, 5, 10)}
    assert suspects == {
        ("2c", "FedNTD", "computers", 3),
        ("2c", "FedED", "computers", 3),
        ("9b", "FedAvg", "cora", 10),
        ("9b", "FedAvg", "computers", 10),
        *(("9a", "Local", d, k) for d, k in local - {("computers", 5)}),
    }


def test_a_misprint_is_one_wherever_its_note_says_so() -> None:
    """FedGTA's rows of Photo are printed in both tables of O-pFGL; their notes begin with something else."""
    for name in ("opfgl/17", "opfgl/18"):
        found = {
            (cell.row.name, cell.dataset) for cell in load(name).cells() if (at := reference.of(cell)) and at.suspect
        }
        assert found == {("FedGTA", "photo")}


@pytest.fixture
def filled(tmp_path: Path) -> results.Grid:
    """New client on Computers, three clients: FedNTD and FedED are misprints there; FedAvg did not run."""
    spec = load("table2").narrow(["computers"], [3], ["local", "fedavg", "fedpub", "fedntd", "feded"])
    store = RecordStore(tmp_path / "records")
    values = {"local": 0.16, "fedpub": 0.60, "fedntd": 0.70, "feded": 0.75}
    for cell in spec.cells():
        if cell.panel.name == "2c" and cell.row.method in values:
            for seed in range(3):
                run = spec.config(cell, "fedlog", seed)
                store.save(helpers.record(run, best=values[cell.row.method], last=0.15))
    return results.fill(spec, "fedlog", Archive(store, {}))


def test_misprints_are_shown_and_never_counted(filled: results.Grid, tmp_path: Path) -> None:
    column = next(c for c in agreement.columns(filled, "best") if c.panel.name == "2c")
    assert (column.methods, column.tau, column.winner) == (2, pytest.approx(1.0), True)
    rows = {r["method"]: r for r in compare.rows(filled) if r["panel"] == "2c"}
    assert rows["local"]["best_old_rule"] == "agrees"
    assert rows["local"]["best_points"] == "0.29"  # 16.00 - 15.71
    assert rows["fedpub"]["best_old_rule"] == "differs"
    assert rows["feded"]["best_old_rule"] == rows["feded"]["last_old_rule"] == "suspect"
    assert rows["feded"]["paper_mean"] == "0.116200"
    assert rows["fedavg"]["best_old_rule"] == "not run"
    assert rows["fedavg"]["best_mean"] == ""
    text = compare.markdown(filled)
    assert "(11.62 ± 7.12)" in text
    # 2a and 2b count all five methods' records too: the same runs hold all probes
    tally = {t.name: t for t in agreement.tallies(filled, "best")}
    assert (tally["FedED (fedlog)"].cells, tally["Local"].cells, tally["FedAvg"].cells) == (2, 3, 0)
    assert tally["all"].cells == 2 + 3 + 3 + 2
    assert tally["all"].agreeing == sum(t.agreeing for t in tally.values()) - tally["all"].agreeing


def test_accuracy_of_guessing_is_one_of_all_classes(tmp_path: Path) -> None:
    """Local never predicts a missing class of Cora in print; below a seventh that is what guessing does as well."""
    spec = load("table2").narrow(["cora"], [3], ["local"])
    cell = next(cell for cell in spec.cells() if cell.panel.name == "2b")
    assert reference.of(cell).mean == 0
    for mean, silent in ((1 / 7 - 0.01, "chance"), (1 / 7 + 0.01, "")):
        store = RecordStore(tmp_path / str(mean))
        for seed in spec.seeds:
            store.save(helpers.record(spec.config(cell, "fedlog", seed), best=mean, last=mean))
        table = results.fill(spec, "fedlog", Archive(store, {}))
        assert compare.verdicts_of(table, "best")[cell][0].silent == silent


def test_seeds_that_are_missing_are_not_published_as_there(tmp_path: Path) -> None:
    spec = load("table1").narrow(["cora"], [3], ["local"])
    (cell,), store = spec.cells(), RecordStore(tmp_path / "records")
    for seed in spec.seeds[:2]:
        store.save(helpers.record(spec.config(cell, "fedlog", seed)))
    (row,) = compare.rows(results.fill(spec, "fedlog", Archive(store, {})))
    assert (row["n_seeds"], row["wanted"]) == (2, 3)


def test_both_rounds_are_compared(filled: results.Grid) -> None:
    best = {t.name: t.mean_absolute for t in agreement.tallies(filled, "best")}
    last = {t.name: t.mean_absolute for t in agreement.tallies(filled, "last")}
    assert best["Local"] != last["Local"]


def test_beside_the_paper(filled: results.Grid) -> None:
    panel = filled.spec.panels[2]
    lines = compare.beside(filled, panel, "computers", 3, compare.verdicts_of(filled, filled.selection)).splitlines()
    assert len(lines) == 2 + 5
    assert [x.strip() for x in lines[2].strip("|").split("|")] == [
        "Local",
        "16.00 ± 0.00 (3)",
        "15.71 ± 0.00",
        "+0.29",
        "± 0.5",
        "reproduced",
        "agrees",
    ]
    assert "not run" in lines[3]


def test_a_misprint_stands_in_brackets_in_the_picture_and_a_blank_stays_blank(filled: results.Grid) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    gaps.draw(figure, filled)
    assert len(figure.axes) == 3
    numbers = {text.get_text() for text in figure.axes[2].texts}
    assert numbers == {"+0.3", "+0.9", "(+58)", "(+63)"} or len(numbers) == 4
    assert sum(text.startswith("(") for text in numbers) == 2
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [r.label for r in filled.spec.rows]


def test_the_picture_says_what_a_column_is_and_no_gap_is_minus_nothing(
    filled: results.Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    made = agreement.difference
    monkeypatch.setattr(agreement, "difference", lambda *both: replace(made(*both), points=-0.04))
    figure = Figure()
    gaps.draw(figure, filled)
    assert {text.get_text() for chart in figure.axes for text in chart.texts} <= {"+0.0", "(+0)"}
    assert "columns: data set, number of clients" in " ".join(figure.get_supxlabel().split())


def test_a_printed_number_counts_once_and_for_the_first_row_that_ran() -> None:
    spec = load("fedsage/2")
    table = results.fill(spec, "fedsage", Archive(RecordStore("none"), {}))
    once = compare.speaking(table.results)
    places = [(cell.panel, reference.where(cell)) for cell in once]
    assert len(places) == len(set(places)) < len(table.results)
    twice = [row for row in spec.rows if row.name == "FedSage+"]
    assert {cell.row for cell in once if cell.row.name == "FedSage+"} == {twice[0]}
    ran = {
        cell: replace(found, best=Stat(0.8, 0.0, 3)) for cell, found in table.results.items() if cell.row == twice[1]
    }
    again = compare.speaking({**table.results, **ran})
    assert {cell.row for cell in again if cell.row.name == "FedSage+"} == {twice[1]}
    both = {c: replace(found, best=Stat(0.8, 0.0, 3)) for c, found in table.results.items() if c.row in twice}
    once_more = compare.speaking({**table.results, **both})
    assert {cell.row for cell in once_more if cell.row.name == "FedSage+"} == {twice[0]}, "of two that ran the first"


@pytest.mark.parametrize(("table", "names"), [("fedpub/4", ["citeseer", "pubmed"]), ("fedpub/7a", [])])
def test_a_table_is_said_to_be_fitted_where_it_has_a_data_set_that_is(table: str, names: list[str]) -> None:
    spec = load(table).under("fedpub")
    grid = results.fill(spec, "fedpub", Archive(RecordStore("none"), {}))
    assert grid.fitted.get("fedavg", []) == names
    assert grid.fitted.get("oracle", []) == []
    assert ("FedAvg (CiteSeer, PubMed)" in compare.markdown(grid)) == bool(names)
    assert ("looking at printed numbers" in compare.markdown(grid)) == bool(names)
    lines = compare.rows(grid)
    assert {line["dataset"] for line in lines if line["fitted"]} == set(names)
    part = grid.narrowed(spec.narrow(datasets=["cora"], methods=["fedavg"]))
    assert not part.fitted


def test_shares_are_given_apart_for_what_was_looked_at() -> None:
    line = {
        "table": "1",
        "panel": "1",
        "clients": 3,
        "name": "Local",
        "counted": 1,
        "printed_selection": "best",
        "best_old_rule": "agrees",
    }
    lines = [
        line | {"dataset": "cora", "fitted": 1, "best_verdict": "reproduced", "paper_mean": ".8", "best_mean": ".8"},
        line | {"dataset": "cora", "fitted": 1, "best_verdict": "no evidence", "paper_mean": ".1", "best_mean": ".0"},
        line | {"dataset": "cora", "fitted": 0, "best_verdict": "differs", "paper_mean": ".7", "best_mean": ".9"},
        line | {"dataset": "cora", "fitted": 0, "best_verdict": "differs", "paper_mean": ".7", "best_mean": ".6"},
    ]
    lines[1]["name"], lines[2]["name"] = "FedAvg", "Pooled"
    lines[3] |= {"name": "Pooled", "counted": 0}  # another variant
    elsewhere = [line | {"clients": 5, "counted": 0} for line in lines[:3]]  # what is printed once for all clients
    lines[0] |= {"best_half": "2.9", "best_points": "-2.8"}
    found = compare.shares(lines, ranked=2)
    assert list(found.values())[:5] == [3, 1, 0, 1, 1]
    assert found["closely"] == 1
    for half, points in (("3.1", "-2.8"), ("2.7", "-2.8"), ("2.7", "2.8")):  # too wide, or the number is outside
        lines[0] |= {"best_half": half, "best_points": points}
        assert compare.shares(lines)["closely"] == 0
    assert (found["all"], found["looked at"], found["not looked at"]) == ("1 of 2", "1 of 1", "0 of 1")
    assert found["tau"] == "+0.33"
    elsewhere[0]["best_mean"] = "0.95"
    again = compare.shares(lines + elsewhere, ranked=2)
    assert again["cells"] == 3
    assert again["tau"] == "+0.67"  # the median of a third and one
    assert (found["old rule"], found["tau"]) == ("3 of 3", "+0.33")
    assert len(found) == len(compare.HEADS)


def test_tau_is_the_median_over_columns_each_of_one_number_of_clients() -> None:
    """Both columns of Cora are in the printed order, though not together; that of CiteSeer is not."""
    line = {"table": "1", "panel": "1", "counted": 1, "fitted": 0, "printed_selection": "best"}
    line |= {"best_old_rule": "differs", "best_verdict": "differs"}
    columns = {("cora", 3): [(0.1, 0.5), (0.2, 0.6)], ("cora", 5): [(0.3, 0.1), (0.4, 0.2)]}
    columns |= {("citeseer", 3): [(0.1, 0.2), (0.2, 0.1)]}
    lines = [
        line | {"dataset": dataset, "clients": clients, "name": name, "paper_mean": str(theirs), "best_mean": str(ours)}
        for (dataset, clients), pairs in columns.items()
        for name, (theirs, ours) in zip(("Local", "FedAvg"), pairs, strict=True)
    ]
    assert compare.shares(lines)["tau"] == "", "of two methods it is one or minus one"
    assert compare.shares(lines, ranked=2)["tau"] == "+1.00"


@pytest.mark.parametrize(
    "kept", [{"datasets": ["pubmed"]}, {"methods": ["fedavg", "fedlog"]}, {"clients": [10]}], ids=str
)
def test_a_verdict_is_the_same_in_a_part_as_in_the_whole_table(kept: dict[str, list[Any]], tmp_path: Path) -> None:
    """Which cells differ is decided among all of them; PubMed by itself would be called otherwise."""
    spec = load("fedlog/2").under("fedlog_matched")
    archive = RunFolders(tmp_path / "records", RESULTS).archive("fedlog")
    whole = compare.verdicts_of(results.fill(spec, "fedlog_matched", archive), "best")
    part = results.fill(spec.narrow(**kept), "fedlog_matched", archive)
    assert 0 < len(part.results) < len(whole)
    assert compare.verdicts_of(part, "best") == {cell: whole[cell] for cell in part.results}
    again = compare.verdicts_of(part.narrowed(part.spec.narrow(clients=[10])), "best")
    assert again == {cell: whole[cell] for cell in again}
    alone = compare.verdicts_of(replace(part, whole={}), "best")
    assert (alone != compare.verdicts_of(part, "best")) == ("datasets" in kept), "PubMed's cells among themselves"


def test_verdicts_of_some_seeds_are_decided_among_all_cells_with_these_seeds(tmp_path: Path) -> None:
    spec = load("fedlog/1").under("fedlog_matched")
    archive = RunFolders(tmp_path / "records", RESULTS).archive("fedlog")
    few = compare.verdicts_of(results.fill(spec.narrow(seeds=[0, 1]), "fedlog_matched", archive), "best")
    part = results.fill(spec.narrow(seeds=[0, 1], datasets=["cora"]), "fedlog_matched", archive)
    assert {found.wanted for found in part.results.values()} == {2}
    assert compare.verdicts_of(part, "best") == {cell: few[cell] for cell in part.results}
