"""What only FedSage's tables need: owners, distances, label shares, run time, printed numbers for all client counts."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fgl_repro.cli.request import command_of
from fgl_repro.config import key_of
from fgl_repro.data.dataset import Dataset
from fgl_repro.data.graph import Graph
from fgl_repro.runs.store import RecordStore
from fgl_repro.tables import artifact, reference, report
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.kinds import common, owners
from fgl_repro.tables.load import load
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.verdict import REPRODUCED
from support import helpers
from support.helpers import composed


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


def cell_of(spec: TableSpec, row: str, dataset: str, clients: int) -> Cell:
    return Cell(spec.panels[0], next(r for r in spec.rows if r.id == row), dataset, clients)


def test_one_printed_number_serves_every_column() -> None:
    spec = load("fedsage2")
    printed = [reference.of(cell_of(spec, "globsage", "cora", clients)) for clients in (3, 5, 10)]
    assert {number.mean for number in printed if number} == {0.8701}
    assert len({key_of(spec.config(cell_of(spec, "globsage", "cora", k), "fedsage", 0)) for k in (3, 5, 10)}) == 1
    assert report.in_print(spec, spec.panels[0]) == (0, 12), "the one column of GlobSage is above all"


def test_names_of_two_columns() -> None:
    spec = load("fedsaged3")
    printed = reference.of(cell_of(spec, "fedsageplus-b16", "pubmed", 5))
    assert printed is not None
    assert (printed.mean, printed.std) == (0.8814, 0.0023)


@pytest.mark.parametrize(
    ("table", "row", "clients"),
    [("fedsage2", "globsage", 5), ("fedsaged3", "fedsage-b16", 5), ("fedsagefig5", "fedavg", 5)],
)
def test_commands_do_the_run_of_the_table(table: str, row: str, clients: int) -> None:
    spec = load(table)
    config = spec.config(cell_of(spec, row, spec.datasets[0], clients), "fedsage", 3)
    assert key_of(composed(*shlex.split(command_of(config))[3:])) == key_of(config)


def test_owners_of_cora(real_graph: Callable[..., Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    def graph_of(dataset: Dataset, cache: str) -> Graph:
        return real_graph(dataset.name, features=dataset.features, component=dataset.component)

    monkeypatch.setattr(common, "graph_of", graph_of)
    made = artifact.make(load("fedsage1").narrow(datasets=["cora"], clients=[3]), "fedsage", RecordStore("none"))
    rows = {(r["clients"], r["quantity"]): r for r in made.content.rows}
    assert (rows["", "n_nodes"]["value"], rows["", "n_nodes"]["printed"]) == ("2708.00", "2708")
    inside, cut = (float(rows[3, name]["value"]) for name in owners.OWNERS[1:])
    assert 3 * inside + cut == pytest.approx(5278, abs=0.1)
    assert rows[3, "avg_subgraph_edges"]["printed"] == "1675"


def test_distances_beside_the_paper(store: RecordStore) -> None:
    spec = load("fedsaged1").narrow(datasets=["cora"], clients=[3], methods=["fedsageplus-paper"])
    cell = cell_of(spec, "fedsageplus-paper", "cora", 3)
    for seed, mended in enumerate((1.0, 2.0)):
        lost = {"original": [2.0, 0.5], "mended": [mended, 0.5]}
        store.save(helpers.record(spec.config(cell, "fedsage", seed), facts={"distance": {"lost": lost, "all": {}}}))
    (row,) = artifact.make(spec, "fedsage", store).content.rows
    assert (float(row["mended"]), float(row["original"]), float(row["ratio"])) == (1.5, 2.0, 0.75)
    assert (row["paper_mended"], row["paper_ratio"], row["n_seeds"]) == ("0.0124", "0.7381", 2)
    assert (row["gap"], row["verdict"]) == ("1.19", REPRODUCED)


def test_label_shares(store: RecordStore, real_graph: Callable[..., Graph], tmp_path: Path) -> None:
    real_graph("pubmed")
    common._WORLDS.clear()
    spec = load("fedsagefig4")
    cell = cell_of(spec, "fedavg", "pubmed", 5)
    point = replace(helpers.measured(0.8), predicted=[[1, 2, 1], [2, 1, 1]])
    store.save(
        helpers.record(spec.config(cell, "fedsage", 0), metrics={"global_graph": {"best": point, "last": point}})
    )
    made = artifact.make(spec, "fedsage", store)
    content = made.content
    shares = {(r["of"], r["class"]): float(r["share"]) for r in content.rows}
    assert [shares["FedSage", c] for c in range(3)] == [0.375, 0.375, 0.25]
    assert sum(shares["truth", c] for c in range(3)) == pytest.approx(1, abs=1e-5)
    assert {name for name, _ in shares} == {"truth", "FedSage", *(f"owner {k}" for k in range(1, 6))}
    assert (content.done, content.wanted) == (1, 2)
    assert {(r["of"] == "FedSage", r["n_seeds"]) for r in content.rows} == {(True, 1), (False, "")}
    artifact.write(made, tmp_path)
    assert "protocol fedsage, predictions: mean over 1 seed<" in (tmp_path / "figure_4.svg").read_text()


def test_what_counts_no_seeds_does_not_speak_of_them(store: RecordStore, tmp_path: Path) -> None:
    made = artifact.make(load("fedsagefig4"), "fedsage", store)
    rows = [{"of": "truth", "class": 0, "share": "1.0"}]
    artifact.write(replace(made, content=replace(made.content, rows=rows, shown="shares")), tmp_path)
    assert "protocol fedsage, shares<" in (tmp_path / "figure_4.svg").read_text()


def test_run_time_is_told(store: RecordStore) -> None:
    spec = load("fedsagefig5")
    run = spec.config(cell_of(spec, "fedavg", "cora", 5), "fedsage", 0)
    store.save(helpers.record(run, seconds={"total": 30.0, "train": 20.0}), {"global_graph": [0.1, 0.2]})
    assert "| Cora 5   | FedSage " in artifact.make(spec, "fedsage", store).content.body
    line = next(
        line for line in artifact.make(spec, "fedsage", store).content.body.splitlines()[::-1] if "FedSage  " in line
    )
    assert [cell.strip() for cell in line.split("|")[3:5]] == ["20.0 [1 of 5]", "200"]
