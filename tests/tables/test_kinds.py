"""Tables of other numbers than accuracies: bytes, rounds until an accuracy, gamma, class counts, sizes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from fgl_repro import config as configs
from fgl_repro.data.download import DataUnavailableError
from fgl_repro.data.graph import Graph
from fgl_repro.data.sources.generated import Generated
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import artifact, reference
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.kinds import bytes as traffic
from fgl_repro.tables.kinds import common, counts, curves, gamma, rounds_to
from fgl_repro.tables.load import load
from fgl_repro.tables.printing import decimal
from fgl_repro.tables.spec import TableSpec
from support import helpers
from support.worlds import build, random_graph

NOTHING = RecordStore("does-not-exist")


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


def cell_of(spec: TableSpec, method: str, dataset: str, panel: int = 0) -> Cell:
    row = next(row for row in spec.rows if row.id == method)
    return Cell(spec.panels[panel], row, dataset, spec.clients[0])


def put(spec: TableSpec, store: RecordStore, cell: Cell, extra: list[dict], curve: list[list[float]] = ()) -> None:
    for seed, more in enumerate(extra):
        run = spec.config(cell, "fedlog", seed)
        lines = dict.fromkeys(helpers.PROBES, curve[seed]) if curve else None
        store.save(helpers.record(run, **more), lines)


# --- bytes ------------------------------------------------------------------------------------------------------------

SENT = {
    "rounds": {"up": {"weights": 3_000_000, "synthetic": 1_000_000}, "down": {"weights": 4_500_000}},
    "setup": {"down": {"features": 250_000}},
}


def test_megabytes_are_summed_over_fields_and_directions() -> None:
    record = helpers.record(helpers.config(), bytes=SENT)
    assert traffic.megabytes(record, "rounds") == 8.5
    assert traffic.megabytes(record, "rounds", ("up",)) == 4.0
    assert traffic.megabytes(record, "setup") == 0.25
    assert traffic.megabytes(record.changed(bytes={"rounds": {}}), "setup") == 0


def test_bytes_beside_the_paper(store: RecordStore) -> None:
    spec = load("table5")
    more = copy.deepcopy(SENT)
    more["rounds"]["down"]["weights"] = 6_500_000
    put(spec, store, cell_of(spec, "fedavg", "citeseer"), [{"bytes": SENT}, {"bytes": SENT}, {"bytes": more}])
    made = artifact.make(spec, "fedlog", Archive(store, {}))
    row = next(r for r in made.content.rows if (r["method"], r["dataset"]) == ("fedavg", "citeseer"))
    assert (row["up_mb"], row["both_mb"], row["setup_mb"]) == ("4.000000", "9.166667", "0.250000")
    assert (row["paper_mb"], row["ratio"], row["n_seeds"]) == ("393.11", "0.0233", 3)
    line = next(x for x in made.page.splitlines() if x.startswith("| FedAvg") and "4.00" in x)
    assert [c.strip() for c in line.split("|")[4:8]] == ["9.17 ± 0.94", "393.11", "0.023", "0.25"]
    empty = next(r for r in made.content.rows if (r["method"], r["dataset"]) == ("fedavg", "cora"))
    assert (empty["both_mb"], empty["n_seeds"]) == ("", 0)
    assert (made.content.done, made.content.wanted) == (1, len(spec.rows) * 2)


# --- rounds to an accuracy --------------------------------------------------------------------------------------------


def test_the_first_round_counts_from_one() -> None:
    assert rounds_to.first([0.1, 0.8, 0.7, 0.9], 0.8) == 2
    assert rounds_to.first([0.1, None, math.nan, 0.79], 0.8) is None
    assert rounds_to.first([], 0.8) is None


def test_rounds_and_megabytes_with_a_run_that_never_gets_there(store: RecordStore) -> None:
    spec = load("table6")
    cell = cell_of(spec, "fedavg", "cora")
    paths = [[0.1, 0.8, 0.9, 0.9], [0.1, 0.2, 0.3, 0.4], [0.9, 0.1, 0.1, 0.1]]
    for seed, path in enumerate(paths):
        curves_of = dict.fromkeys(helpers.PROBES, [0.95] * 4) | {
            "seen_graph": path
        }  # that of validation does not count
        store.save(helpers.record(spec.config(cell, "fedlog", seed), bytes=SENT), curves_of)
    found = rounds_to.reached(spec, cell, "fedlog", Archive(store, {}))
    assert (found.seeds, found.there, found.bare) == (3, 2, 0)
    assert found.rounds is not None
    assert found.rounds.mean == pytest.approx((2 + 4 + 1) / 3)
    assert found.megabytes is not None
    assert found.megabytes.mean == pytest.approx(8.5 * (0.5 + 1.0 + 0.25) / 3)
    made = artifact.make(spec, "fedlog", Archive(store, {}))
    row, page = next(r for r in made.content.rows if r["method"] == "fedavg"), made.page
    assert (row["n_reached"], row["gap"]) == (2, decimal(100 * (7 / 3 - 58) / 58, 2)), "percent of the printed rounds"
    line = [c.strip() for c in next(x for x in page.splitlines() if x.startswith("| FedAvg")).split("|")]
    assert line[3:5] == ["2 of 3", "58"]
    assert line[6] == row["paper_mb"] == "228.00"
    assert "without curves" not in page


def test_runs_without_curves_are_named(store: RecordStore) -> None:
    spec = load("table6")
    cell = cell_of(spec, "fedavg", "cora")
    put(spec, store, cell, [{}, {}, {}])
    made = artifact.make(spec, "fedlog", Archive(store, {}))
    assert "3 runs were recorded without curves: `fgl-table run fedlog/6`" in made.page
    assert made.content.done == 0


# --- gamma ------------------------------------------------------------------------------------------------------------


def test_gamma_of_one_client_by_class(store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gamma, "training_nodes", lambda *_: [5, 27, 144, 21, 0, 20])
    spec = load("table8")
    cell = cell_of(spec, "fedlog-release", "citeseer")
    facts = [{"facts": {"gamma": [[0.0] * 6, [c / 10 + seed / 100 for c in range(6)], [1.0] * 6]}} for seed in range(3)]
    put(spec, store, cell, facts)
    put(spec, store, cell_of(spec, "fedlog-paper", "citeseer"), [{}])
    made = artifact.make(spec, "fedlog", Archive(store, {}))
    rows = [r for r in made.content.rows if r["variant"] == "release"]
    assert [r["class"] for r in rows] == [1, 2, 3, 4, 5, 6]
    assert [r["gamma"] for r in rows] == [f"{c / 10 + 0.01:.6f}" for c in range(6)]
    assert [(r["nodes"], r["paper_nodes"], r["paper_gamma"]) for r in rows[:2]] == [
        ("5", "5", "0.288"),
        ("27", "27", "0.289"),
    ]
    assert {r["gamma"] for r in made.content.rows if r["variant"] == "paper"} == {""}


# --- counts and sizes -------------------------------------------------------------------------------------------------


def test_counts_of_a_world_add_up(toy_graph: Graph) -> None:
    world = build("closed_set", toy_graph, "random", 3, hops=1)
    found = counts.counted(world)
    for c in range(toy_graph.num_classes):
        for split in counts.SPLITS:
            assert found["Global", c, split] == sum(found[f"Client {k}", c, split] for k in range(3))
    own = sum(
        n for (client, _, split), n in found.items() if client == "Global" and split in ("train", "valid", "test")
    )
    assert own == world.graph.num_nodes
    assert [split for client, _, split in found if client == "New Client"] == ["test"] * toy_graph.num_classes


def test_equal_counts_are_counted_by_split_and_by_what_roles_do_not_move() -> None:
    theirs = {("Client 0", 0, "train"): 3, ("Client 0", 0, "valid"): 2, ("Client 1", 0, "train"): 1}
    theirs |= {("Global", 0, "train"): 4, ("New Client", 0, "train"): 9}
    ours = {**theirs, ("Client 0", 0, "train"): 4, ("Client 0", 0, "valid"): 1}
    assert counts.equal(ours, theirs, ("train",)) == (1, 2)
    assert counts.equal(ours, theirs, ("train", "valid")) == (1, 1)
    assert counts.equal(ours, theirs, ("train",), "New Client") == (1, 1)
    assert counts.equal({}, theirs, ("train",)) == (0, 2)


@pytest.mark.parametrize(("number", "own", "new"), [(12, 21, 19), (13, 18, 18), (14, 9, 9), (15, 24, 24), (16, 29, 29)])
def test_tables_12_to_16(
    number: int, own: int, new: int, real_graph: Callable[[str], Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "graph_of", lambda dataset, cache: real_graph(dataset.name))
    common._WORLDS.clear()
    made = artifact.make(load(f"table{number}"), "fedlog", NOTHING)
    common._WORLDS.clear()
    assert made.content.done == made.content.wanted == len(made.content.rows)
    parts = (f"own nodes {own} of ", f"new nodes {new} of ")
    assert all(part in made.content.summary for part in parts), made.content.summary
    newcomer = made.content.summary.split("the new client's nodes ")[1].split(",")[0].split(" of ")
    assert newcomer[0] == newcomer[1]


def test_a_graph_is_that_of_the_data_set_with_all_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Generated] = []

    def load_once(own: Generated, cache: Path) -> Graph:
        asked.append(own)
        if own.draw == 2:
            raise DataUnavailableError("no raw files")
        return random_graph(20 + own.draw, 2, 3, seed=0)

    monkeypatch.setattr(Generated, "load", load_once)
    monkeypatch.setattr(common, "_GRAPHS", {})
    drawn = [configs.build({"dataset.nodes": 500, "dataset.draw": draw}, dataset="generated") for draw in (0, 1, 2)]
    found = [common.graph_for(config) for config in (*drawn, *drawn)]
    assert [graph and graph.num_nodes for graph in found] == [20, 21, None] * 2
    assert [(own.nodes, own.draw) for own in asked] == [(500, 0), (500, 1), (500, 2)], "each is loaded once"


def test_sizes(real_graph: Callable[[str], Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "graph_of", lambda dataset, cache: real_graph(dataset.name))
    spec = load("table10").narrow(datasets=["cora", "pubmed"])
    made = artifact.make(spec, "fedlog", NOTHING)
    rows = {(r["dataset"], r["quantity"]): r for r in made.content.rows}
    assert [rows["cora", "nodes"][k] for k in ("printed", "whole_graph", "largest_component", "equal")] == [
        "2708",
        "2708",
        "2485",
        "whole",
    ]
    assert rows["pubmed", "nodes"]["equal"] == "whole component"
    assert rows["pubmed", "edges"]["equal"] == ""


def test_without_data_the_numbers_are_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "graph_of", lambda *asked: None)
    common._WORLDS.clear()
    for name in ("table10", "table12"):
        content = artifact.make(load(name), "fedlog", NOTHING).content
        assert content.done == 0
        assert content.wanted == len(content.rows) > 0
    common._WORLDS.clear()
    assert reference.numbers("fedlog/table_10.csv", "dataset", "split", value="count")["cora", "nodes"] == 2708


# --- curves over seeds ------------------------------------------------------------------------------------------------


def test_mean_curve_over_seeds() -> None:
    points = curves.over_seeds([[0.2, 0.4, 0.6], [0.4, 0.4, 0.8]])
    assert [p.mean for p in points] == pytest.approx([0.3, 0.4, 0.7])
    assert [p.std for p in points] == pytest.approx([0.1, 0.0, 0.1])
    assert curves.over_seeds([[math.nan, math.nan]]) == []
    short = curves.over_seeds([[0.2, 0.4], [0.4, 0.4, 0.8]])
    assert [(p.mean, p.n) for p in short] == [(pytest.approx(0.3), 2), (0.4, 2)], "rounds that all curves have"
    assert curves.over_seeds([]) == []


# --- variants ---------------------------------------------------------------------------------------------------------


def test_variants_are_beside_the_same_printed_number_and_count_nowhere(store: RecordStore) -> None:
    spec = load("fedlog/hops").narrow(datasets=["cora"], clients=[3, 5], seeds=[0, 1, 2])
    put(spec, store, cell_of(spec, "fedgcn-0", "cora"), [{"best": 0.83}, {"best": 0.84}, {"best": 0.85}])
    put(spec, store, cell_of(spec, "fedgcn-2-raw", "cora"), [{"best": 0.8}])
    made = artifact.make(spec, "fedlog", Archive(store, {}))
    seen = {(r["name"], r["clients"]): r for r in made.content.rows if r["panel"] == "1"}
    assert {row["paper_mean"] for (_, clients), row in seen.items() if clients == 3} == {"0.822600"}
    assert seen["0 hops", 3]["best_points"] == "1.74"
    assert (seen["1 hop, raw", 3]["best_mean"], seen["2 hops, raw", 3]["n_seeds"]) == ("", 1)
    line = next(x for x in made.page.splitlines() if x.startswith("| Cora, 3"))
    assert [c.strip() for c in line.split("|")[2:8]] == [
        "82.26 ± 0.62",
        "84.00 ± 1.00",
        "",
        "",
        "",
        "80.00 [1 of 3] (1 min to run)",
    ]
    last = next(x for x in made.page.splitlines() if x.startswith("| distance"))
    assert [c.strip() for c in last.split("|")[3:8]] == ["1.74", "", "", "", "2.26"]
    assert made.content.grid is None
    assert not [name for name in made.texts if name.startswith("compare_")], "what counts is read from such files"
    assert (made.content.done, made.content.wanted) == (4, 40)
