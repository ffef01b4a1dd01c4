"""FedVN's tables that are no grid of accuracies: data sets of graphs, and how alike embeddings are."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from fgl_repro.runs.store import RecordStore
from fgl_repro.tables import artifact, columns
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.load import load
from support import helpers


def test_data_sets_of_graphs() -> None:
    content = artifact.make(load("fedvn/3"), "fedvn", RecordStore("does-not-exist")).content
    found = {(row["dataset"], row["quantity"]): row for row in content.rows}
    assert found["zinc_scaffold", "n_clients"]["printed"] == "10"
    assert {row["equal"] for row in content.rows if row["printed"]} == {1}
    assert (found["zinc_scaffold", "metric"]["value"], found["motif_basis", "classes"]["value"]) == ("MAE", "3")


def test_similarities_are_means_over_seeds_beside_the_printed_one(tmp_path: Path) -> None:
    """Client 0 has no graph of class 1; one run is from before embeddings were compared."""
    store, spec = RecordStore(tmp_path / "records"), load("fedvn/fig6")
    cell = Cell(spec.panels[0], spec.rows[0], "motif_basis", 5)
    for seed in (0, 1):
        square = [[1.0 if i == j else (i + j) / 10 + seed / 10 for j in range(5)] for i in range(5)]
        holed = [[None if 0 in (i, j) else value for j, value in enumerate(line)] for i, line in enumerate(square)]
        store.save(helpers.record(spec.config(cell, "fedvn", seed), facts={"alike": [square, holed]}))
    store.save(helpers.record(spec.config(cell, "fedvn", 2)))
    made = artifact.make(spec, "fedvn", store)
    found = {(row["class"], row["client"], row["other"]): row for row in made.content.rows if row["class"] != ""}
    assert len(found) == 10 + 6
    one = found[0, 1, 4]
    assert (float(one["mean"]), float(one["std"]), one["n_seeds"]) == (pytest.approx(0.55), pytest.approx(0.05), 2)
    assert (one["printed"], found[0, 1, 3]["printed"]) == ("0.20", "")
    assert "Printed of class 0, clients 1 and 4: 0.20; here 0.55 ± 0.05 [2 of 5] (FedAvg" in made.page
    assert "1 runs do not tell of embeddings" in made.page
    assert (made.content.done, made.content.wanted) == (0, len(made.content.rows))


def test_a_class_that_no_two_clients_have_is_left_blank(tmp_path: Path) -> None:
    store, spec = RecordStore(tmp_path / "records"), load("fedvn/fig6")
    cell = Cell(spec.panels[0], spec.rows[0], "motif_basis", 5)
    alone = [[1.0 if i == j == 2 else None for j in range(5)] for i in range(5)]
    store.save(helpers.record(spec.config(cell, "fedvn", 0), facts={"alike": [alone]}))
    made = artifact.make(spec, "fedvn", store)
    line = next(line for line in made.page.splitlines() if line.startswith("| Motif/Basis") and "| FedAvg" in line)
    assert [word.strip() for word in line.strip("|").split("|")][2:] == ["0", "", "", ""]


def test_cosines_of_virtual_nodes_stand_beside_the_curve_where_runs_tell_of_them(tmp_path: Path) -> None:
    """Two runs do, of one row; the third is from before, and the figure is then drawn as it was."""
    store, spec = RecordStore(tmp_path / "records"), load("fedvn/fig5")
    square = [[1.0 if i == j else (i - j) ** 2 / 100 for j in range(10)] for i in range(10)]
    opposed = [[value if i == j else -value for j, value in enumerate(line)] for i, line in enumerate(square)]
    cell = Cell(spec.panels[0], spec.rows[0], "sst2_length", 7)
    curves = {"round": [0, 1], "decoupling": [0.5, 0.2]}
    store.save(helpers.record(spec.config(cell, "fedvn", 2)), curves)
    before = artifact.make(spec, "fedvn", store)
    assert "1 runs do not tell of every two virtual nodes: `fgl-table run fedvn/fig5` does them again" in before.page
    assert "Cosines" not in before.page
    assert before.content.files == {}
    artifact.write(before, tmp_path / "before")
    assert "cosine" not in (tmp_path / "before" / "figure_5.svg").read_text()

    for seed, told in ((1, square), (3, opposed)):
        store.save(helpers.record(spec.config(cell, "fedvn", seed), facts={"cosines": told}), curves)
    made = artifact.make(spec, "fedvn", store)
    mean = sum((i - j) ** 2 / 100 for i in range(10) for j in range(i)) / 45
    line = next(line for line in made.page.splitlines() if line.startswith("| with the loss") and "-0.400" in line)
    words = [word.strip() for word in line.strip("|").split("|")]
    assert words[1:] == [f"0.000 ± {mean:.3f} [2 of 5]", f"{mean:.3f} [2 of 5]"] + [
        f"{middle:.3f} ± 0.410 [2 of 5]" for middle in (-0.4, 0.4)
    ]
    assert "1 runs do not tell of every two virtual nodes" in made.page
    rows = list(csv.DictReader(made.content.files["figure_5_pairs.csv"].splitlines()))
    assert len(rows) == 2 * 45
    assert {row["seed"] for row in rows} == {"1", "3"}
    pair = next(row for row in rows if (row["seed"], row["virtual_node"], row["other_virtual_node"]) == ("3", "2", "7"))
    assert (pair["cosine"], pair["name"]) == ("-0.250000", "with the loss")
    assert all(columns.meaning(name) for name in rows[0])
    artifact.write(made, tmp_path / "after")
    drawn = (tmp_path / "after" / "figure_5.svg").read_text()
    assert all(word in drawn for word in ("with the loss (release), seed 1", "cosine", "not run", "mean squared"))


def test_losses_of_the_released_codes_logs_stand_beside_ours_as_they_are(tmp_path: Path) -> None:
    store, spec = RecordStore(tmp_path / "records"), load("fedvn/logs_loss")
    cell = Cell(spec.panels[0], spec.rows[0], "motif_basis", 5)
    for seed in range(5):
        losses = [1.1 - 0.001 * n + 0.01 * seed for n in range(100)]
        run = helpers.record(spec.config(cell, "fedvn", seed))
        store.save(run, {"validation": [0.5] * 100, "loss/seen_graph": losses})
    made = artifact.make(spec, "fedvn", store)
    found = {row["round"]: row for row in made.content.rows}
    assert [row["printed"] for row in made.content.rows] == ["1.102", "1.085", "1.072", "1.037", "1.006", "0.981"]
    assert float(found[100]["loss/seen_graph"]) == pytest.approx(1.1 - 0.099 + 0.02)
    assert "| FedAvg | 1.120 ± 0.014 |" in made.page.replace("  ", " ")
    assert "Verdicts on 6 comparisons with the released code" in made.page
