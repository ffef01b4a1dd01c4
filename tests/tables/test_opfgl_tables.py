"""O-pFGL's tables that are no grid of accuracies: one client's rare classes, costs and how they grow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import linregress

from fgl_repro.core.errors import UserError
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import artifact, compare, results
from fgl_repro.tables.added import with_rows
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.kinds import costs, growth
from fgl_repro.tables.load import load
from fgl_repro.tables.swept import added_lines
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
        metrics = {"seen_graph": {"best": helpers.measured(0.8), "last": point}}  # the protocol prints the last round
        store.save(helpers.record(spec.config(cell, "opfgl", seed), metrics=metrics))
    content = artifact.make(spec, "opfgl", store).content
    found = {(row["class"], row["metric"]): row for row in content.rows if row["name"] == "O-pFGL"}
    assert [float(found[1, metric]["value"]) for metric in ("recall", "precision")] == [50.0, 62.5]
    assert float(found[1, "f1_class"]["value"]) == pytest.approx(100 * 20 / 36, abs=1e-3)
    assert [float(found[2, metric]["value"]) for metric in ("f1_class", "recall", "precision")] == [0, 0, 0]
    assert all(row["printed"] for row in content.rows)
    assert (content.done, content.wanted) == (6, 6 * len(spec.rows))
    assert {key: row["verdict"] for key, row in found.items()} == {
        (1, "f1_class"): "within the spread",
        (1, "recall"): "differs",
        (1, "precision"): "within the spread",
        (2, "f1_class"): "within the spread",
        (2, "recall"): "differs",
        (2, "precision"): "no evidence",
    }, "three seeds that agree know a number to a node only, and one node of class 2 would decide all of its precision"


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


SWEPT = ("dataset.nodes", "partitioner.clients", "dataset.dimensions")


def grown(store: RecordStore, name: str, **parts: Callable[..., Any]) -> artifact.Artifact:
    """A table of O-pFGL's costs, of runs whose parts are functions of n, K and d."""
    spec = load(f"opfgl/{name}").narrow(methods=["opfgl"])
    for cell in spec.cells():
        n, k, d = (cell.row.overrides[axis] for axis in SWEPT)
        record = helpers.record(spec.config(cell, "opfgl_costs", 0))
        store.save(record.changed(**{part: given(n, k, d) for part, given in parts.items()}))
    return artifact.make(spec, "opfgl_costs", store)


def test_costs_are_swept_around_a_middle() -> None:
    rows = [row for row in load("opfgl/26").rows if row.line == "fedavg-paper"]
    values = [tuple(row.overrides[axis] for axis in SWEPT) for row in rows]
    assert len(set(values)) == len(values) == 10
    assert all(sum(v != m for v, m in zip(each, (10000, 10, 100), strict=True)) <= 1 for each in values)


@pytest.mark.parametrize("name", ["26", "28"])
def test_rows_added_to_a_table_that_sweeps_go_into_a_folder_of_their_own(name: str) -> None:
    spec = with_rows(load(f"opfgl/{name}"), ["fedgta"])
    assert added_lines(spec) == ("fedgta",)
    assert artifact.folder_of(spec, spec.protocols[0]).parts[0] == "opfgl+fedgta"


def test_every_quantity_has_a_unit() -> None:
    assert costs.UNITS.keys() == costs.QUANTITIES.keys()


def test_growth_of_bytes_summed_over_phases(store: RecordStore, tmp_path: Path) -> None:
    made = grown(
        store,
        "26",
        bytes=lambda n, k, d: {
            "statistics": {"up": {"mean": 20_000 * d}},
            "rounds": {"up": {"x": 5_000 * d}, "down": {"x": n**2 // k}},
        },
    )
    middle = {row["quantity"]: row for row in made.content.rows if (row["n"], row["K"], row["d"]) == (10000, 10, 100)}
    assert (float(middle["up"]["value"]), float(middle["down"]["value"])) == (2.5, 10.0)
    exponents = [[float(middle[q][f"exponent_{letter}"]) for letter in "nKd"] for q in ("up", "down")]
    assert exponents == [[0, 0, 1], [2, -1, 0]]
    assert {float(middle["down"][f"exponent_{letter}_error"]) for letter in "nKd"} == {0}
    assert "class-wise statistics" in middle["up"]["claim"]
    assert "global surrogate graph" in middle["down"]["claim"]
    assert (made.content.done, made.content.wanted) == (20, 20)
    assert {path.suffix for path in artifact.write(made, tmp_path)} == {".csv", ".md", ".png", ".svg"}


def test_a_line_breaks_where_nothing_ran(store: RecordStore) -> None:
    spec = grown(store, "26", bytes=lambda n, k, d: {"rounds": {"up": {"x": n * k * d}, "down": {"x": n}}}).spec
    (lost,) = (record for record in store.all() if record.config["dataset"]["nodes"] == 5000)
    store.path(lost.key).unlink()
    draw = artifact.make(spec, "opfgl_costs", RecordStore(store.folder)).content.draw
    assert draw is not None
    draw(figure := Figure())
    line = figure.axes[0].lines[0]
    known = dict(zip(line.get_xdata(), np.isfinite(np.asarray(line.get_ydata())), strict=True))
    assert known == {2500: True, 5000: False, 10000: True, 20000: True}


def test_seconds_of_clients_and_server_are_told_apart(store: RecordStore) -> None:
    made = grown(store, "27", seconds=lambda n, k, d: {"train": 9.0, "total": 9.5, "server": 2.0})
    assert {row["quantity"]: float(row["value"]) for row in made.content.rows} == {"clients": 7.0, "server": 2.0}


def test_what_print_has_lost_is_no_claim() -> None:
    spec = load("opfgl/26")
    claims = {line.name: growth.claim(spec, line, "download_cost") for line in spec.lines}
    assert claims["FedGTA"] == "", "its formula is lost and the text says nothing"
    assert claims["FedAvg"] == "model parameters"


def test_a_gpu_is_not_averaged_with_cpus(store: RecordStore) -> None:
    spec = replace(load("opfgl/27").narrow(methods=["opfgl"]), seeds=(0, 1, 2))
    cell = next(iter(spec.cells()))
    for seed, (device, seconds) in enumerate((("cpu", 4.0), ("cuda:0", 1.0), ("cpu", 6.0))):
        record = helpers.record(spec.config(cell, "opfgl_costs", seed), seconds={"server": seconds})
        store.save(record.changed(device=device))
    found = costs.measured(spec, cell, "opfgl_costs", store, "server")
    assert found is not None
    assert (found.mean, found.n) == (5.0, 2)


def test_memory_is_what_a_run_takes_beyond_what_was_taken(store: RecordStore) -> None:
    sizes = {"peak_memory_mb": lambda n, k, d: 300.0 + 0.01 * n, "resting_memory_mb": lambda n, k, d: 300.0}
    made = grown(store, "28", **sizes)
    assert "1.00 ± 0.00 | 0.00 ± 0.00 | 0.00 ± 0.00 |" in made.page
    old = RecordStore(store.folder.parent / "old")
    blank = grown(old, "28", **sizes | {"resting_memory_mb": lambda n, k, d: None})
    assert not any(row["value"] for row in blank.content.rows), "records that do not tell"


def test_a_slope_has_an_error_from_three_points_above_zero() -> None:
    power, error = growth.slope([(1, 2.0), (2, 4.1), (4, 7.9), (8, 16.2)])
    line = linregress(np.log([1, 2, 4, 8]), np.log([2.0, 4.1, 7.9, 16.2]))
    assert (power, error) == pytest.approx((line.slope, line.stderr))
    assert growth.slope([(1, 2.0), (2, 4.0)]) == growth.slope([(1, 2.0), (2, 4.0), (4, 0.0)]) == (None, None)


def test_what_the_second_stage_does_to_a_class(store: RecordStore, tmp_path: Path) -> None:
    """Of 10 nodes of class 3 at client 1, stage 1 finds 5, fine-tuning 10 in one seed; nobody says it of others."""
    spec = load("opfgl/fig5")
    for row, seed, right in ((0, 0, 5), (0, 1, 5), (1, 0, 10), (1, 2, 10)):
        own = [[0] * 6 for _ in range(6)]
        own[3][3], own[3][0] = right, 10 - right
        point = replace(helpers.measured(0.8), confusion=[own, own])
        config = spec.config(Cell(spec.panels[0], spec.rows[row], "citeseer", 10), "opfgl", seed)
        store.save(helpers.record(config, metrics={"seen_graph": {"best": helpers.measured(0.8), "last": point}}))
    made = artifact.make(spec, "opfgl", store)
    (third,) = (row for row in made.content.rows if row["name"] == "ft" and row["class"] == 3)
    assert float(third["points"]) == pytest.approx(100 * (1 - 10 / 15), abs=1e-3)
    assert (third["n_seeds"], third["printed"]) == (1, "+1.57")
    assert "33.33 [1 of 3] (+1.57)" in made.page
    assert (made.content.done, made.content.wanted) == (0, 18)
    assert {path.suffix for path in artifact.write(made, tmp_path)} == {".csv", ".md", ".png", ".svg"}
    part = artifact.make(spec.narrow(methods=[spec.rows[1].id]), "opfgl", store)
    assert [row for row in made.content.rows if row["name"] == "ft"] == part.content.rows, "above the table's first row"
    with pytest.raises(UserError, match=f"compares rows with {spec.rows[0].id}: name one of the others"):
        artifact.make(spec.narrow(methods=[spec.rows[0].id]), "opfgl", store)
    wide = replace(spec, clients=(10, 20))
    with pytest.raises(UserError, match="opfgl/fig5 has 2 columns, and its kind, class_changes, has room for one"):
        artifact.make(wide, "opfgl", store)


def test_a_figure_of_costs_is_drawn(store: RecordStore, tmp_path: Path) -> None:
    spec = load("opfgl/fig4")
    cell = Cell(spec.panels[0], spec.rows[-1], "cora", 10)
    store.save(helpers.record(spec.config(cell, "opfgl", 0), bytes={"statistics": {"up": {"mean": 120_000}}}))
    made = artifact.make(spec, "opfgl", store)
    assert {path.name for path in artifact.write(made, tmp_path)} == {"figure_4.csv", "figure_4.png", "figure_4.svg"}
    assert [row["value"] for row in made.content.rows if row["name"] == "O-pFGL"] == ["0.120000", "0.000000"]
    figure = Figure()
    assert made.content.draw is not None
    made.content.draw(figure)
    *others, last = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert last == "O-pFGL (release): down 0", "a logarithmic axis has no place for it"
    assert others == [row.label for row in spec.rows[:-1]], "of what has not run nothing is said"


def test_pages_say_whose_models_were_fine_tuned(tmp_path: Path) -> None:
    spec = load("opfgl/1").narrow(["cora"], [10], ["fedavg", "fedgta"])
    store = RecordStore(tmp_path)
    table = results.fill(spec, "opfgl", Archive(store, {}))
    assert compare.fine_tuned(table) == [], "nothing ran"
    for cell in spec.cells():
        store.save(helpers.record(spec.config(cell, "opfgl", 0)))
    content = artifact.make(spec, "opfgl", Archive(store, {})).content
    told = "Models of FedAvg (paper) were tested after fine-tuning, each client's at its own best check"
    assert all(told in text for text in (content.page, content.screen, content.body, content.files["compare_1.md"]))
