"""O-pFGL's tables that are no grid of accuracies: one client's rare classes, costs and how they grow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fgl_repro.runs.store import RecordStore
from fgl_repro.tables import artifact
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.kinds import costs
from fgl_repro.tables.load import load
from fgl_repro.tables.results import Stat
from support import helpers


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


def test_scores_of_a_rare_class(store: RecordStore) -> None:
    """Class 1 of client 1: 10 of 20 found, 16 said; nobody ever says class 2."""
    spec = load("opfgl/21")
    cell = Cell(spec.panels[0], spec.rows[-1], "citeseer", 10)
    own = [[0] * 6 for _ in range(6)]
    own[1][1], own[1][0], own[0][1], own[2][0] = 10, 10, 6, 7
    other = [[3] * 6 for _ in range(6)]
    point = replace(helpers.measured(0.8), confusion=[other, own])
    for seed in (0, 1, 2):
        metrics = {"seen_graph": {"best": point, "last": point}}
        store.save(helpers.record(spec.config(cell, "opfgl", seed), metrics=metrics))
    content = artifact.make(spec, "opfgl", store).content
    found = {(row["class"], row["metric"]): row for row in content.rows if row["name"] == "O-pFGL"}
    assert [float(found[1, metric]["value"]) for metric in ("recall", "precision")] == [50.0, 62.5]
    assert float(found[1, "f1_class"]["value"]) == pytest.approx(100 * 20 / 36, abs=1e-3)
    assert [float(found[2, metric]["value"]) for metric in ("f1_class", "recall", "precision")] == [0, 0, 0]
    assert all(row["printed"] for row in content.rows)
    assert (content.done, content.wanted) == (6, 6 * len(spec.rows))
    assert {key: row["judgement"] for key, row in found.items()} == {
        (1, "f1_class"): "within the spread",
        (1, "recall"): "differs",
        (1, "precision"): "within the spread",
        (2, "f1_class"): "within the spread",
        (2, "recall"): "differs",
        (2, "precision"): "within the spread",
    }, "three seeds that agree know a number to less than a node only"


def test_misprints_of_rare_classes_say_nothing(store: RecordStore) -> None:
    """FedSpray's recall and precision of class 1 look swapped in print."""
    spec = load("opfgl/21")
    cell = next(cell for cell in spec.cells() if cell.row.name == "FedSpray")
    table = [[5] * 6 for _ in range(6)]
    point = replace(helpers.measured(0.5), confusion=[table, table])
    for seed in (0, 1, 2):
        metrics = {"seen_graph": {"best": point, "last": point}}
        store.save(helpers.record(spec.config(cell, "opfgl", seed), metrics=metrics))
    rows = [row for row in artifact.make(spec, "opfgl", store).content.rows if row["name"] == "FedSpray"]
    assert [row["silent"] for row in rows] == ["", "misprint", "misprint", "", "", ""]


def test_costs_are_summed_over_phases_and_their_growth_is_fitted(store: RecordStore) -> None:
    spec = load("opfgl/26").narrow(methods=["opfgl"])
    cell = Cell(spec.panels[0], spec.rows[0], "cora", 10)
    sent = {"statistics": {"up": {"mean": 2_000_000}}, "rounds": {"up": {"x": 500_000}, "down": {"x": 1_000_000}}}
    store.save(helpers.record(spec.config(cell, "opfgl", 0), bytes=sent))
    content = artifact.make(spec, "opfgl", store).content
    (up, down) = (row for row in content.rows if row["value"])
    assert (float(up["value"]), float(down["value"]), up["fitted"]) == (2.5, 1.0, "")
    assert "class-wise statistics" in up["claim"]
    assert (content.done, content.wanted) == (0, 12)


def test_seconds_of_the_server_are_told_apart_where_records_do(store: RecordStore) -> None:
    spec = load("opfgl/27").narrow(methods=["opfgl"])
    cell = Cell(spec.panels[0], spec.rows[0], "cora", 10)
    for seed, seconds in ((0, {"train": 9.0, "total": 9.5, "server": 2.0}), (1, {"train": 8.0, "total": 9.0})):
        store.save(helpers.record(spec.config(cell, "opfgl", seed), seconds=seconds))
    rows = [row for row in artifact.make(spec, "opfgl", store).content.rows if row["value"]]
    found = {row["quantity"]: (float(row["value"]), row["n_seeds"]) for row in rows}
    assert found == {"seconds": (8.5, 2), "clients": (7.0, 1), "server": (2.0, 1)}


def test_exponents_are_those_that_the_numbers_have() -> None:
    spec = load("opfgl/27")
    sizes = {"cora": (2708, 1433), "citeseer": (3327, 3703), "pubmed": (19717, 500)}
    grown = [Stat(3 * sizes[name][0] ** 1.5 * k**-0.5 * sizes[name][1], None, 3) for name, k in spec.places]
    assert costs.exponents(spec, list(grown)) == "n^1.5 K^-0.5 d^1.0"
    assert costs.exponents(spec, [*grown[:4], None, None]) == ""
    assert costs.exponents(spec, [None] * 6) == ""


def test_what_the_second_stage_does_to_a_class(store: RecordStore, tmp_path: Path) -> None:
    """Of 10 nodes of class 3 at client 1, stage 1 finds 5, fine-tuning 10 in one seed; nobody says it of others."""
    spec = load("opfgl/fig5")
    for row, seed, right in ((0, 0, 5), (0, 1, 5), (1, 0, 10), (1, 2, 10)):
        own = [[0] * 6 for _ in range(6)]
        own[3][3], own[3][0] = right, 10 - right
        point = replace(helpers.measured(0.8), confusion=[own, own])
        config = spec.config(Cell(spec.panels[0], spec.rows[row], "citeseer", 10), "opfgl", seed)
        store.save(helpers.record(config, metrics={"seen_graph": {"best": point, "last": point}}))
    made = artifact.make(spec, "opfgl", store)
    (third,) = (row for row in made.content.rows if row["name"] == "ft" and row["class"] == 3)
    assert float(third["points"]) == pytest.approx(100 * (1 - 10 / 15), abs=1e-3)
    assert (third["n_seeds"], third["printed"]) == (1, "+1.57")
    assert "33.33 [1 of 3] (+1.57)" in made.page
    assert (made.content.done, made.content.wanted) == (0, 18)
    assert {path.suffix for path in artifact.write(made, tmp_path)} == {".csv", ".md", ".png", ".svg"}


def test_a_figure_of_costs_is_drawn(store: RecordStore, tmp_path: Path) -> None:
    spec = load("opfgl/fig4")
    cell = Cell(spec.panels[0], spec.rows[-1], "cora", 10)
    store.save(helpers.record(spec.config(cell, "opfgl", 0), bytes={"statistics": {"up": {"mean": 120_000}}}))
    made = artifact.make(spec, "opfgl", store)
    assert {path.name for path in artifact.write(made, tmp_path)} == {"figure_4.csv", "figure_4.png", "figure_4.svg"}
    assert [row["value"] for row in made.content.rows if row["name"] == "O-pFGL"] == ["0.120000", "0.000000"]
    assert all(row["claim"] == "" for row in made.content.rows)
