"""FED-PUB's tables that are no grid of accuracies: facts, accuracies at rounds, statistics of parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from fgl_repro import config as configs
from fgl_repro.cli import request
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners.metis import Overlap
from fgl_repro.federation.settings.plain import Plain
from fgl_repro.fl.metrics import measure
from fgl_repro.runs.store import RecordStore
from fgl_repro.tables import artifact, reference
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.kinds import at_rounds, common, facts, subgraphs
from fgl_repro.tables.load import load
from fgl_repro.tables.printing import decimal
from support import helpers

NOTHING = RecordStore("does-not-exist")
FIG1 = load("fedpubfig1")


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


def cell_of(name: str, row: str) -> Cell:
    spec = load(name)
    return Cell(spec.panels[0], next(r for r in spec.rows if r.id == row), spec.datasets[0], spec.clients[0])


def test_printed_percents_are_fractions_beside_ours() -> None:
    found = reference.of(cell_of("fedpub4", "fedpub-release"))
    assert found is not None
    assert found.mean == pytest.approx(0.8445)
    table = reference.accuracies("fedpub/table_4.csv", "seen_graph")
    assert all(0 < number.mean < 1 and 0 < (number.std or 0) < 0.03 for number in table.values())


def test_facts_and_accuracy_in_the_printed_unit(store: RecordStore) -> None:
    cell = cell_of("fedpubfig1", "fedpub-0.7-0.01")
    for seed, cut in ((0, 0.5), (1, 0.6)):
        run = FIG1.config(cell, "fedpub", seed)
        store.save(helpers.record(run, best=0.79, facts={"sparsity": cut, "label_correlation": None}))
    content = facts.content(FIG1, "fedpub", store)
    assert (content.done, content.wanted) == (0, 14), "two of three seeds are no number yet"
    line = next(row for row in content.rows if row["name"] == cell.row.name and row["metric"] == "sparsity")
    assert (line["value"], line["std"], line["n_seeds"], line["printed"]) == ("55.0000", "5.0000", 2, "56.610")
    line = next(row for row in content.rows if row["name"] == cell.row.name and row["metric"] == "accuracy")
    assert (line["value"], line["printed"], line["printed_std"]) == ("79.0000", "78.560", "0.050")
    assert "55.00 ± 5.00 [2 of 3]" in content.body


def test_runs_without_the_fact_leave_it_blank(store: RecordStore) -> None:
    spec = load("fedpub5b")
    cell = cell_of("fedpub5b", "fedpub-er")
    store.save(helpers.record(spec.config(cell, "fedpub", 0)))
    line = next(row for row in facts.content(spec, "fedpub", store).rows if row["name"] == cell.row.name)
    assert (line["value"], line["printed"]) == ("", "0.712")
    for name, printed in (("fedpub5a", 0.937), ("fedpub5b", 0.810)):
        found = facts.in_unit(load(name), cell_of(name, "fedpub-sbm"), "correlation_coefficient")
        assert found == facts.InUnit(printed, found.std, percent=False)


def test_every_printed_number_of_the_sheets_is_found() -> None:
    for name in ("fedpub5a", "fedpub5b", "fedpubfig1"):
        content = facts.content(load(name), "fedpub", NOTHING)
        assert all(row["printed"] and row["paper"] == "fedpub" for row in content.rows)
    content = at_rounds.content(load("fedpub6"), "fedpub", NOTHING)
    assert len(content.rows) == 20
    assert all(row["printed"] and row["paper"] == "fedpub" for row in content.rows)
    assert content.done == 0


def test_accuracy_at_a_round_is_that_of_the_curve(store: RecordStore) -> None:
    spec = load("fedpub6")
    cell = cell_of("fedpub6", "fedpub-label")
    for seed in range(2):
        values = [0.001 * n + 0.1 * seed for n in range(1, 71)]
        store.save(helpers.record(spec.config(cell, "fedpub", seed)), {"seen_graph": values})
    store.save(helpers.record(spec.config(cell, "fedpub", 2)))
    content = at_rounds.content(spec, "fedpub", store)
    found = {row["round"]: row for row in content.rows if row["name"] == cell.row.name}
    assert (found[20]["accuracy"], found[20]["std"], found[20]["printed"]) == ("7.0000", "5.0000", "65.97")
    assert found[80]["accuracy"] == "", "the run is shorter"
    assert "1 runs were recorded without curves" in content.body


def test_non_overlapping_edges_are_the_printed_ones(real_graph: Callable[..., Graph]) -> None:
    spec = load("fedpub1")
    for dataset in ("cora", "citeseer"):
        real_graph(dataset)
        paper = reference.numbers("fedpub/table_1.csv", "dataset", "scenario", "n_clients", "metric")
        for clients in (0, 5, 10, 20):
            ours = subgraphs.statistics(spec, dataset, "published", clients, "fedpub")
            for quantity in ("nodes", "edges", "clustering_coefficient"):
                digits = subgraphs.DIGITS[quantity]
                printed = paper[dataset, "non_overlapping", clients, quantity]
                assert subgraphs._rounded(ours[quantity], digits) == decimal(printed, digits)
            if clients:
                printed = paper[dataset, "non_overlapping", clients, "heterogeneity"]
                assert ours["heterogeneity"] == pytest.approx(printed, abs=0.03)


def test_models_that_have_not_learned_have_the_printed_accuracy(real_graph: Callable[..., Graph]) -> None:
    """Table 6 prints 29.94 twice at round 20: predicting one class. It is a function of halves and roles alone."""
    protocol = configs.build(protocol="fedpub").protocol
    test = Plain().build(real_graph("cora"), Overlap(30), protocol.split_of(0)).probes[0]
    found = [measure(replace(test, average="clients"), np.full(len(test.rows), c)).accuracy for c in range(7)]
    assert max(found) == pytest.approx(0.2994, abs=5e-5)


def test_clustering_is_networkxs(toy_graph: Graph) -> None:
    expected = nx.average_clustering(nx.from_scipy_sparse_array(toy_graph.adjacency))
    assert subgraphs.clustering(toy_graph, block=7) == pytest.approx(expected)
    assert subgraphs.clustering(toy_graph.subgraph(np.arange(3))) in (0.0, 1.0)


def test_a_graph_that_cannot_be_had_is_blank_and_the_table_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "graph_of", lambda *_: None)
    spec = replace(load("fedpub1"), datasets=("cora", "arxiv"))
    made = artifact.make(spec, "fedpub", NOTHING)
    content = made.content
    assert content.done == 0
    assert all(row["printed"] or row["quantity"] in ("heterogeneity", "classes") for row in content.rows)
    artifact.write(made, tmp_path)
    for text in (made.page, content.summary, (tmp_path / "table_1.md").read_text()):
        assert "\n\nogbn-arxiv is left blank: no raw files (`fgl-data check arxiv` says why).\n\n" in f"\n\n{text}"


def test_a_missing_graph_leaves_the_others_as_they_are(
    toy_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "graph_of", lambda dataset, cache: None if dataset.name == "arxiv" else toy_graph)
    spec = replace(load("fedpub1"), datasets=("cora", "arxiv"))
    both = subgraphs.content(spec, "fedpub", NOTHING)
    alone = subgraphs.content(replace(spec, datasets=("cora",)), "fedpub", NOTHING)
    assert [row for row in both.rows if row["dataset"] == "cora"] == alone.rows
    assert (both.done, both.wanted) == (alone.done, 2 * alone.wanted)
    assert all(row["value"] == row["equal"] == "" for row in both.rows if row["dataset"] == "arxiv")
    blank = "ogbn-arxiv is left blank: no raw files (`fgl-data check arxiv` says why)."
    assert both.summary == f"{blank}\n\n{alone.summary}"


def test_commands_name_what_a_row_overrides() -> None:
    command = request.command_of(FIG1.config(cell_of("fedpubfig1", "fedpub-0.9-0.001"), "fedpub", 1))
    for word in ("partitioner=overlap", "setting=plain", "protocol.local_epochs=2", "method.l1=0.9", "seed=1"):
        assert word in command.split()
    assert "method.tau" not in command
