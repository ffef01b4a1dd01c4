"""The world of FedLoG's reliability study: which training nodes go, what is probed, and the figure drawn from it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from fgl_repro import data
from fgl_repro.config import build as build_config
from fgl_repro.config import key_of
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.settings.imbalance import quotas
from fgl_repro.federation.world import World
from fgl_repro.runs.execute import execute
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import artifact, needs, results
from fgl_repro.tables.load import load
from support import helpers
from support.worlds import build, build_or_skip, graphs, probes

RATES = st.integers(-9, 9)


def imbalanced(graph: Graph, target: int, rate: int, seed: int, degree: int = 3, clients: int = 3) -> World:
    return build_or_skip("imbalance", graph, "random", clients, seed, target=target, rate=rate, tail_degree=degree)


def plain(graph: Graph, seed: int) -> World:
    return build_or_skip("plain", graph, "random", 3, seed)


def expected(counts: list[int], target: int, rate: int) -> list[int]:
    """The rule, class by class, in exact arithmetic; halves go to the even number."""
    smallest = min(n for n in counts if n)
    fewer = max(1, round(Fraction(smallest * (10 - abs(rate)), 10)))
    cut = [(c == target) if rate < 0 else (c != target) for c in range(len(counts))]
    return [0 if n == 0 else fewer if less and rate else smallest for n, less in zip(counts, cut, strict=True)]


def test_the_rule_on_an_example() -> None:
    counts = np.array([[40, 20, 30], [0, 8, 5], [7, 0, 0]])
    assert quotas(counts, 0, 0).tolist() == [[20, 20, 20], [0, 5, 5], [7, 0, 0]]
    assert quotas(counts, 0, -3).tolist() == [[14, 20, 20], [0, 5, 5], [5, 0, 0]]
    assert quotas(counts, 0, 3).tolist() == [[20, 14, 14], [0, 4, 4], [7, 0, 0]]
    assert quotas(np.array([[1, 1]]), 0, -9).tolist() == [[1, 1]], "a class never vanishes"


@given(st.lists(st.integers(0, 500), min_size=2, max_size=6).filter(any), st.integers(0, 5), RATES)
def test_the_rule_in_exact_arithmetic(counts: list[int], target: int, rate: int) -> None:
    target %= len(counts)
    assert quotas(np.array([counts]), target, rate).tolist() == [expected(counts, target, rate)]


@settings(max_examples=40)
@given(graphs, st.integers(0, 1), RATES, st.integers(0, 100))
def test_nothing_but_training_nodes_goes(graph: Graph, target: int, rate: int, seed: int) -> None:
    whole, world = plain(graph, seed), imbalanced(graph, target, rate, seed)
    assert world.class_counts.tolist() == [expected(own, target, rate) for own in whole.class_counts.tolist()]
    assert world.facts["train_classes"] == world.class_counts.tolist()
    assert np.all(np.diff(world.train) > 0)
    assert np.isin(world.train, whole.train).all()
    assert np.array_equal(world.graph.node, whole.graph.node)
    assert np.array_equal(world.graph.ptr, whole.graph.ptr)
    assert (world.graph.adjacency != whole.graph.adjacency).nnz == 0
    assert np.array_equal(world.validation.rows, whole.validation.rows)
    assert np.array_equal(probes(world)["seen_graph"].rows, probes(whole)["seen_graph"].rows)
    assert world.missing == whole.missing


@settings(max_examples=40)
@given(graphs, st.integers(0, 1), st.integers(0, 8), st.sampled_from([-1, 1]), st.integers(0, 100))
def test_smaller_sets_are_subsets(graph: Graph, target: int, size: int, sign: int, seed: int) -> None:
    less, more = (imbalanced(graph, target, sign * rate, seed) for rate in (size, size + 1))
    gone = np.setdiff1d(less.train, more.train)
    assert np.isin(more.train, less.train).all()
    assert ((less.graph.labels[gone] == target) == (sign < 0)).all()
    other = imbalanced(graph, 1 - target, 0, seed)
    assert np.isin(less.train, other.train).all(), "balanced is the same for every target"


@settings(max_examples=40)
@given(graphs, st.integers(0, 1), RATES, st.integers(0, 6), st.integers(0, 100))
def test_probes_divide_the_test_nodes(graph: Graph, target: int, rate: int, degree: int, seed: int) -> None:
    world = imbalanced(graph, target, rate, seed, degree)
    found = probes(world)
    seen = found["seen_graph"].rows
    neighbours = np.asarray(world.graph.adjacency.sum(axis=1)).ravel()
    for prefix, rows in (("", seen), ("target_", seen[world.graph.labels[seen] == target])):
        head, tail = found[f"{prefix}head_degree"], found[f"{prefix}tail_degree"]
        assert np.array_equal(np.sort(np.concatenate([head.rows, tail.rows])), rows)
        assert (neighbours[head.rows] > degree).all()
        assert (neighbours[tail.rows] <= degree).all()
        assert head.graph is tail.graph is world.graph
        assert {head.average, tail.average} == {"pooled"}


def test_which_nodes_stay_is_drawn_and_repeats(toy_graph: Graph) -> None:
    whole = build_or_skip("plain", toy_graph, "random", 1)
    world, again = (imbalanced(toy_graph, 0, -5, 0, clients=1) for _ in range(2))
    assert np.array_equal(world.train, again.train)
    had, kept = (w.train[w.graph.labels[w.train] == 0] for w in (whole, world))
    assert 1 < len(kept) < len(had)
    assert not np.array_equal(kept, had[: len(kept)]), "not simply the first ones"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"target": 4}, r"setting\.target=4 is no class of toy: give 0 to 3\."),
        ({"target": -1}, r"setting\.target=-1 is out of range: give at least 0"),
        ({"rate": 10}, r"setting\.rate=10 leaves nothing to train on: give -9 to 9\."),
        ({"rate": -10}, r"setting\.rate=-10 leaves nothing"),
        ({"tail_degree": -1}, r"setting\.tail_degree=-1 is out of range"),
    ],
)
def test_refusals(asked: dict[str, int], said: str, toy_graph: Graph) -> None:
    with pytest.raises(UserError, match=said):
        build("imbalance", toy_graph, "random", 3, **asked)


def test_a_client_may_lack_the_target(toy_graph: Graph) -> None:
    one = toy_graph.labels == 0
    part = plain(toy_graph, 0)
    own = part.graph.node[part.graph.ptr[0] : part.graph.ptr[1]]
    labels = toy_graph.labels.copy()
    labels[own[one[own]]] = 1
    world = imbalanced(replace(toy_graph, labels=labels), 0, 3, 0)
    assert world.class_counts[0, 0] == 0
    assert world.class_counts[0, 1:].min() > 0
    assert world.class_counts[1:, 0].min() > 0


# --- Figure 1 ---------------------------------------------------------------------------------------------------------


def test_the_figure_is_99_runs_at_the_last_round(tmp_path: Path) -> None:
    spec = load("fig1")
    (protocol,) = spec.protocols
    runs = {key_of(run): run for run in needs.runs(spec, protocol)}
    settings_ = {(run.setting.target, run.setting.rate, run.seed) for run in runs.values()}
    assert len(runs) == len(settings_) == 99
    assert settings_ == {(c, r, seed) for c in range(3) for r in range(-5, 6) for seed in range(3)}
    for run in runs.values():
        assert (run.method.name, run.dataset.name, run.protocol.rounds) == ("fedavg", "pubmed", 100)
        assert (run.setting.world, run.setting.tail_degree, run.partitioner.clients) == ("imbalance", 3, 3)
    assert results.fill(spec, protocol, RecordStore(tmp_path)).selection == "last"


def test_older_settings_keep_their_keys() -> None:
    run = build_config(setting="imbalance")
    assert key_of(build_config({"setting.rate": 0, "setting.tail_degree": 3}, setting="imbalance")) == key_of(run)
    assert key_of(build_config({"setting.rate": 1}, setting="imbalance")) != key_of(run)


def test_points_are_means_over_target_classes_seed_by_seed(tmp_path: Path) -> None:
    spec = load("fig1").narrow(seeds=[0, 1])
    (protocol,) = spec.protocols
    store = RecordStore(tmp_path / "records")
    chosen = {"target_head_degree": 0.1, "target_tail_degree": 0.1}
    for cell in (cell for cell in spec.cells() if cell.panel.name == "head"):
        rate, target = cell.row.overrides["setting.rate"], cell.row.overrides["setting.target"]
        for seed in spec.seeds:
            if rate == 5 or (rate == 4 and (target, seed) == (2, 1)):
                continue
            last = 0.5 + 0.02 * rate + 0.1 * target + 0.03 * seed * (target + 1)
            store.save(helpers.record(spec.config(cell, protocol, seed), last=last, probes=chosen))
    made = artifact.make(spec, protocol, Archive(store, {}))
    rows = [r for r in made.content.rows if r["probe"] == "target_head_degree" and r["printed"]]
    points = {r["setting.rate"]: (r["mean"], r["std"], r["n_seeds"]) for r in rows if r["setting.target"] == "mean"}
    assert len(rows) == 33 + 11
    assert points[-5] == ("0.530000", "0.042426", 2)  # of two seeds, 0.06 apart, ddof 1
    assert points[4] == ("0.680000", "", 1), "a seed that lacks a class does not count, and one alone has no std"
    assert points[5] == ("", "", 0)
    assert (made.content.done, made.content.wanted) == (2 * 9, 22)
    figure = Figure()
    assert made.content.draw is not None
    made.content.draw(figure)
    (chart,) = figure.axes
    assert [line.get_label() for line in chart.get_lines()] == [panel.title for panel in spec.panels]
    assert "tenths of the smallest class" in chart.get_xlabel()
    assert chart.get_ylabel() == "accuracy (%)"
    assert [label.get_text() for label in chart.get_xticklabels()] == [str(rate) for rate in range(-5, 6)]
    assert chart.get_lines()[0].get_ydata() == pytest.approx([*range(53, 71, 2), 68, math.nan], nan_ok=True)


def test_a_toy_run_draws_the_figure(toy_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "load", lambda *_: toy_graph)
    spec = load("fig1").smoke()
    (protocol,) = spec.protocols
    store = RecordStore(tmp_path / "records")
    for run in needs.needed(spec, protocol, store).values():
        wanted = note_of(run)
        run.model.hidden = 8
        record = execute(run).record
        assert record.metrics.keys() >= {"target_head_degree", "target_tail_degree", "head_degree", "tail_degree"}
        store.save(record.changed(key=wanted.key, cell=wanted.cell, config=wanted.config))
    made = artifact.make(spec, protocol, Archive(store, {}))
    assert made.content.done == made.content.wanted == 22
    paths = artifact.write(made, tmp_path / "out")
    assert [path.name for path in paths] == ["figure_1.csv", "figure_1.png", "figure_1.svg"]
    assert all(path.stat().st_size > 1000 for path in paths)
