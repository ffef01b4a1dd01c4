"""Tables whose number is an error: less is better, gaps are percent of the printed number. From made-up records."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from fgl_repro.core.errors import UserError
from fgl_repro.data.catalog import NAMES, printed_as
from fgl_repro.fl.metrics import METRICS
from fgl_repro.runs import tuning
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.runs.summary import summary
from fgl_repro.tables import (
    agreement,
    artifact,
    compare,
    entries,
    findings,
    leaderboard,
    printing,
    reference,
    report,
    results,
    verdict,
)
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import ranks
from fgl_repro.tables.load import load, parse
from fgl_repro.tables.published import PublishedPaper
from fgl_repro.tables.reference import Reference
from fgl_repro.tables.results import Stat
from fgl_repro.tables.spec import TableSpec
from support import helpers

LEVELS = {"fedvn-release": 0.50, "fedbn-release": 0.52, "local": 0.56, "fedavg-release": 0.72}
"""Printed are .4947, .5129, .5442 and .6235."""


def zinc(**changes: object) -> TableSpec:
    """The table of ZINC, its rows those that have a level."""
    return replace(load("fedvn/1_zinc"), **changes).narrow(methods=list(LEVELS))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Five seeds around each level, a hundredth apart, under both protocols and for two numbers of clients."""
    store = RecordStore(tmp_path / "records")
    for cell in zinc(clients=(5, 10)).cells():
        for protocol, seed in ((p, s) for p in ("fedvn", "fedvn_heldout") for s in range(5)):
            level = LEVELS[cell.row.id] + 0.01 * (seed - 2)
            curves = {"round": [0, 1, 2], "seen_graph": [level + 0.2, level, level + 0.02], "validation": [1, 1, 1]}
            run = zinc().config(cell, protocol, seed)
            store.save(helpers.record(run, level, level + 0.02, metric="mae"), curves)
    return Archive(store, {})


@pytest.fixture
def grid(archive: Archive) -> results.Grid:
    return results.fill(zinc(), "fedvn", archive)


def words(text: str, start: str) -> list[str]:
    """The columns of the first line of a grid that starts so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [word.strip() for word in line.strip("|").split("|")]


def test_an_error_is_told_in_its_own_unit(archive: Archive, grid: results.Grid) -> None:
    made = artifact.make(zinc(), "fedvn", archive)
    assert words(made.page, "FedVN")[1] == "0.5000 ± 0.0141"
    assert "mean absolute error, less is better, mean and std" in made.page
    assert words(made.screen, "FedVN")[1:3] == ["0.5000 ± 0.0141 (5)", "0.4947 ± 0.0174"]
    assert not any(page.count(" points") or "percent, mean" in page for page in (made.page, made.screen))
    assert printing.number(Stat(0.5442, None, 1), "error") == "0.5442"
    assert printing.number(Stat(0.5442, 0.0146, 2), "percent") == "54.42 ± 1.46"


def test_gaps_are_percent_of_the_printed_number(grid: results.Grid) -> None:
    rows = {row["name"]: row for row in compare.rows(grid)}
    assert rows["FedVN"]["best_points"] == f"{100 * (0.5 - 0.4947) / 0.4947:.2f}"
    assert {row["metric"] for row in rows.values()} == {"mae"}
    assert rows["FedVN"]["best_verdict"] == verdict.REPRODUCED  # 1.1 %
    assert rows["FedAvg"]["best_verdict"] == verdict.DIFFERS
    text = compare.markdown(grid)
    assert "within 3 percent of the printed number" in text
    assert "`agrees` within 2 percent of the printed number or 2 pooled std" in text
    assert "Of errors less is better" in text


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_no_verdict_depends_on_the_unit_of_an_error(unit: float) -> None:
    theirs = Reference(0.5 * unit, 0.01 * unit, "", error=True)
    near, far = (Stat(mean * unit, 0.02 * unit, 5) for mean in (0.514, 0.516))
    found = [verdict.evidence(theirs, ours, 0) for ours in (near, far)]
    assert verdict.verdicts(found) == [verdict.REPRODUCED, verdict.WITHIN]
    assert found[0].gap == pytest.approx(2.8)
    assert [agreement.difference(theirs, ours).old_rule for ours in (near, far)] == ["agrees", "agrees"]
    sure = Reference(0.5 * unit, 0.0, "", error=True)
    at = [agreement.difference(sure, Stat(mean * unit, 0.0, 5)).old_rule for mean in (0.509, 0.511)]
    assert at == ["agrees", "differs"]


def test_the_lowest_error_is_the_best(archive: Archive, grid: results.Grid) -> None:
    (column,) = agreement.columns(grid, "best")
    assert (column.tau, column.winner) == (pytest.approx(1.0), True)
    (lead,) = report.wins(grid, grid.spec.panels[0], "best")
    assert (lead.columns, lead.above, lead.best) == (1, 1, "FedVN (release)")
    assert report.in_print(grid.spec, grid.spec.panels[0]) == (1, 1)
    worst = {cell: replace(r, best=Stat(0.9, 0.0, 5)) for cell, r in grid.results.items() if cell.row.name == "FedVN"}
    turned = replace(grid, results=grid.results | worst)
    assert agreement.columns(turned, "best")[0].winner is False
    (lead,) = report.wins(turned, grid.spec.panels[0], "best")
    assert (lead.above, lead.best) == (0, "FedBN (release)")


def test_the_report_keeps_errors_apart(archive: Archive) -> None:
    accuracies = artifact.make(load("fedvn/1"), "fedvn", archive)
    page = report.page("fedvn", [accuracies, artifact.make(zinc(), "fedvn", archive)])
    assert "Of errors less is better" in page
    assert words(page.split("## Methods")[1], "method")[1:] == ["fedvn", "fedvn, errors"]
    assert words(page, "1z Mean absolute error | FedVN (release)")[2] == "0.500 / 0.495 (1)"
    assert "errors" not in report.page("fedvn", [accuracies])


def test_ranks_give_the_first_place_to_the_lowest(archive: Archive) -> None:
    wide = zinc(kind="ranks", clients=(5, 10))
    found = ranks.ranked(ranks.accuracies(wide, wide.panels[0], "fedvn", archive), 5)
    assert found is not None
    labels = {row.id: row.label for row in wide.rows}
    assert found.mean.to_dict() == {labels[name]: number for number, name in enumerate(LEVELS, 1)}
    assert ranks.printed_ranks(wide, wide.panels[0], found)["FedVN (release)"] == 1.0
    page = artifact.make(wide, "fedvn", archive).page
    assert "errors, of which the least is best, at the best test round †" in page


def test_curves_name_the_lowest_round(archive: Archive, tmp_path: Path) -> None:
    made = artifact.make(zinc(kind="curves", curves="all"), "fedvn", archive)
    assert "Mean absolute error, mean and std over seeds." in made.page
    line = words(made.page, "Mean absolute error | ZINC/Scaffold 10 | FedVN")
    assert line[3:] == ["0.7000 ± 0.0141", "0.5000 ± 0.0141", "2", "0.5200 ± 0.0141"]
    artifact.write(made, tmp_path)
    assert "mean absolute error, less is better" in (tmp_path / "table_1_zinc.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("protocol", ["fedvn", "fedvn_heldout"])
def test_the_curve_that_selects_by_test_rows_is_the_probes(protocol: str, tmp_path: Path) -> None:
    drawing, store = load("fedvn/fig2b"), RecordStore(tmp_path)
    drawing = replace(drawing, seeds=(0,), rows=drawing.rows[:2], protocols=(protocol,))
    curves = {"round": [0, 1], "loss": [2.0, 1.0], "validation": [0.6, 0.7]}
    for number, cell in enumerate(drawing.cells()):
        own = {"seen_graph": [0.5, 0.8]} if number else {}  # the second run kept every probe
        run = helpers.record(drawing.config(cell, protocol, 0), 0.7, 0.7)
        alone = {name: run.metrics[name] for name in ("validation", "seen_graph")}
        held = run.partition | {"test_rows": {"seen_graph": run.partition["test_rows"]["seen_graph"]}}
        store.save(run.changed(metrics=alone, partition=held), curves | own)
    page = artifact.make(drawing, protocol, Archive(store, {})).page
    assert ("60.00" in page) == (protocol == "fedvn")
    assert "80.00" in page
    told = "1 runs were recorded without curves: write `curves: all` in conf/table/fedvn/fig2b.yaml, and `fgl-table run"
    assert (told in page) == (protocol == "fedvn_heldout")


def test_a_traced_number_is_told_as_it_is(tmp_path: Path) -> None:
    drawing, store = load("fedvn/fig4"), RecordStore(tmp_path)
    for cell, seed in ((cell, seed) for cell in drawing.cells() for seed in drawing.seeds):
        values = [0.9, 0.1 if cell.row.name == "with the loss" else 0.95]
        run = drawing.config(cell, "fedvn", seed)
        store.save(helpers.record(run, 0.5, 0.5, metric="mae"), {"round": [0, 1], "decoupling": values})
    made = artifact.make(drawing, "fedvn", Archive(store, {}))
    assert "Mean squared correlation, mean and std over seeds." in made.page
    found = words(made.page, "decoupling loss | ZINC/Scaffold 10 | with the loss")
    assert found[3:] == ["0.9000", "0.1000", "2", "0.1000"]
    assert words(made.page, "decoupling loss | ZINC/Scaffold 10 | without")[-1] == "0.9500"
    artifact.write(made, tmp_path / "out")
    drawn = (tmp_path / "out" / "figure_4.svg").read_text(encoding="utf-8")
    assert "mean squared correlation" in drawn
    assert "better" not in drawn  # of what a method traces nobody says which is the better one


def test_drawings_say_of_errors_that_less_is_better(archive: Archive) -> None:
    """The caption of the heat map says so, and the axes of all other charts of accuracies and errors."""
    told = []
    for spec in (zinc(), replace(load("fedvn/1"), note="")):
        figure = Figure()
        made = artifact.make(spec, "fedvn", archive)
        assert made.content.draw is not None
        made.content.draw(figure)
        told.append(" ".join(figure.texts[0].get_text().split()))
    assert "(red: above, of errors less is better)" in told[0]
    assert "(red: above)" in told[1]
    assert charts.axis(METRICS["mae"]) == "mean absolute error, less is better"
    assert [charts.axis(METRICS[name]) for name in ("accuracy", "f1")] == ["accuracy (%)", "macro-F1 (%)"]


@pytest.mark.parametrize("kind", ["bars", "variants"])
def test_other_kinds_tell_errors(kind: str, archive: Archive, tmp_path: Path) -> None:
    made = artifact.make(zinc(kind=kind, options={"printed": "FedVN"}), "fedvn", archive)
    assert "0.5000 ± 0.0141" in made.page
    assert "in percent," not in made.page
    assert ("distance, percent of the printed number" in made.page) == (kind == "variants")
    artifact.write(made, tmp_path)


@pytest.mark.parametrize(("protocol", "marked"), [("fedvn", True), ("fedvn_heldout", False)])
def test_a_dagger_stands_where_test_graphs_chose_the_round(
    protocol: str, marked: bool, archive: Archive, tmp_path: Path
) -> None:
    made = artifact.make(zinc(note=""), protocol, archive)
    assert made.content.draw is not None
    figure = Figure()
    made.content.draw(figure)
    drawn = [text.get_text().replace("\n", " ") for text in figure.texts]
    assert "percent of the printed number" in drawn[0]
    texts = [made.page, made.screen, made.content.files["compare_1_zinc.md"], report.page("fedvn", [made]), *drawn]
    rounds = results.fill(load("fedvn/rounds"), protocol, archive)
    texts.append(compare.differences(rounds))
    assert [("†" in text) for text in texts] == [marked] * len(texts)


def test_a_runs_summary_tells_errors_and_marks_test_rounds() -> None:
    first = next(zinc().cells())
    texts = [
        summary(helpers.record(zinc().config(first, protocol, 0), 0.512, 0.53, metric="mae"), "seen_graph")
        for protocol in ("fedvn", "fedvn_heldout")
    ]
    assert all(text.startswith("probe (mean absolute error)  ") for text in texts), "errors are no percent"
    assert "best test † (round 57)" in texts[0]
    assert "best validation (round 57)" in texts[1]
    assert all("0.5120" in text and "0.5300" in text for text in texts)
    assert ["\nvalidation" in text for text in texts] == [False, True]


def test_tuning_takes_the_lowest() -> None:
    run = zinc().config(next(zinc().cells()), "fedvn_heldout", 0)
    low, high = (tuning.validation_accuracy(helpers.record(run, best, metric="mae")) for best in (0.5, 0.6))
    assert low > high


def test_findings_tell_errors(archive: Archive, tmp_path: Path) -> None:
    artifact.write(artifact.make(zinc(), "fedvn", archive), tmp_path / "fedvn")
    text = "{cell digits=4 spread=1} {paper digits=4} {points} {ahead}".replace("}", " method=fedvn}")
    filled = findings.fill(text, PublishedPaper(tmp_path), "here", {})
    assert filled == "0.5000 ± 0.0141 0.4947 +1.1 1 of 1"


def test_shares_and_errors_are_not_taken_for_each_other(archive: Archive, tmp_path: Path) -> None:
    told = "probe seen_graph of runs on zinc_scaffold measures mae, not accuracy: say metric: mae in"
    with pytest.raises(UserError, match=told):
        results.fill(zinc(metric="accuracy"), "fedvn", archive)
    folder = tmp_path / "table" / "fedvn"
    folder.mkdir(parents=True)
    for changed, told in (
        ("metric: accuracy", "has metric accuracy and its reference mae: give both one"),
        ("metric: mae\nkind: rounds_to", "kind rounds_to tells no errors: choose from accuracy, bars"),
    ):
        text = load("fedvn/1_zinc").path.read_text(encoding="utf-8")
        path = folder / f"z{len(told)}.yaml"
        path.write_text(text.replace("metric: mae", changed), encoding="utf-8")
        with pytest.raises(UserError, match=told):
            parse(path)


@pytest.mark.parametrize(("recorded", "asked"), [(None, "auc"), ("auc", "accuracy"), ("mae", "pooled")])
def test_an_area_an_error_and_an_accuracy_are_not_taken_for_each_other(recorded: str | None, asked: str) -> None:
    """They stand in one place of a record."""
    record = helpers.record(helpers.config(), metric=recorded)
    assert results.measured(record, "seen_graph", "best", recorded or "accuracy") == 0.8
    with pytest.raises(UserError, match=f"measures {recorded or 'accuracy'}, not {asked}: say metric"):
        results.measured(record, "seen_graph", "best", asked)


def test_the_name_of_a_rebuild_says_so_and_still_finds_its_printed_number(archive: Archive) -> None:
    assert [name for name in NAMES if entries.spelled(name) != printed_as(name)] == ["cmnist_color", "sst2_length"]
    assert entries.place("sst2_length", 7) == "SST2/Length (rebuild), 7 clients"
    for name in ("fedvn/1", "fedvn/1_sst2", "fedvn/1_zinc", "fedvn/2"):
        assert all(reference.of(cell) for cell in load(name).cells())
    made = artifact.make(load("fedvn/2"), "fedvn", archive)
    texts = [made.page, made.screen, *made.content.files.values()]
    assert all("CMNIST/Color (rebuild)" in text for text in texts if not text.startswith("paper,"))
    assert all("CMNIST/Color is a rebuild: " in text for text in texts if not text.startswith(("paper,", "panel,")))
    assert "rebuild" not in artifact.make(zinc(), "fedvn", archive).page


def test_what_is_wanted_of_a_metric() -> None:
    assert {name for name, metric in METRICS.items() if metric.error} == {"mae"}
    assert [METRICS[name].merit(0.25) for name in ("accuracy", "mae")] == [0.25, -0.25]
    with open(Path(reference.__file__).parent / "reference/fedvn/table_1.csv", encoding="utf-8") as text:
        printed = [line for line in csv.DictReader(text) if line["metric"] == "MAE"]
    assert len(printed) == len(reference.accuracies("fedvn/table_1.csv", "seen_graph", metric="MAE")) == 10


def test_rows_are_ranked_by_the_least_error_and_are_percent_of_it_behind(grid: results.Grid) -> None:
    found = leaderboard.standings(grid, grid.spec.panels[0], *grid.spec.places[0])
    assert [each.cell.row.id for each in found] == list(LEVELS)
    least = found[0].stat.mean
    assert [each.behind for each in found] == pytest.approx([100 * (each.stat.mean / least - 1) for each in found])
    assert found[-1].behind > 30


def test_a_difference_of_errors_is_percent_of_the_second(grid: results.Grid) -> None:
    (panel,), (place,) = grid.spec.panels, grid.spec.places
    gap = results.row_gap(grid, ["fedvn-release", "fedavg-release"], panel, *place, "best")
    assert gap == pytest.approx(100 * (0.50 - 0.72) / 0.72)
