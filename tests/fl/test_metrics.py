"""Averages of accuracies, and likeness of labels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from fgl_repro.core.errors import UserError
from fgl_repro.core.registry import option
from fgl_repro.data.graph import Graph
from fgl_repro.federation.split import Split
from fgl_repro.federation.world import Average, Probe, UnionGraph, World
from fgl_repro.fl import metrics
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import config_of_graphs, make_config

if TYPE_CHECKING:
    from fgl_repro.nn.view import View

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def test_the_protocols_average_selects_and_is_printed(world: World) -> None:
    pooled, plain = (
        federate(make_config("local", "paper", **{"protocol.average": average}), world, CPU)
        for average in ("pooled", "clients")
    )
    for (training, found, _), name in ((pooled, "pooled"), (plain, "clients_mean")):
        for measured in (found["validation"]["best"], found["seen_graph"]["last"]):
            assert measured.accuracy == getattr(measured, name)
        assert getattr(found["validation"]["last"], name) == pytest.approx(training.curves["validation"][-1], abs=1e-6)
    assert pooled[1]["seen_graph"]["last"].clients == plain[1]["seen_graph"]["last"].clients
    assert pooled[0].curves["validation"] != plain[0].curves["validation"]


def test_clients_without_rows_do_not_count() -> None:
    class Rows:
        labels = torch.tensor([[0, 1], [0, 0], [1, 0]])
        mask = torch.tensor([[1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
        counts = mask.sum(1)
        numbers = None

    always_zero, nodes = torch.tensor([1.0, 0.0]).expand(3, 2, 2), torch.tensor([2.0, 5.0, 1.0])
    assert metrics.accuracy(always_zero, Rows, "pooled", nodes) == pytest.approx(1 / 3)  # type: ignore[arg-type]
    assert metrics.accuracy(always_zero, Rows, "clients", nodes) == pytest.approx(1 / 4)  # type: ignore[arg-type]


def test_clients_that_validate_are_weighted_by_all_their_nodes() -> None:
    """Of 10, 7 and 90 nodes; right in one row of three, in the only one, and nobody knows."""

    class Rows:
        labels = torch.tensor([[0, 1, 1], [0, 0, 0], [0, 0, 0]])
        mask = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
        counts = mask.sum(1)
        numbers = None

    always_zero, nodes = torch.tensor([1.0, 0.0]).expand(3, 3, 2), torch.tensor([10.0, 7.0, 90.0])
    found = metrics.accuracy(always_zero, Rows, "nodes", nodes)  # type: ignore[arg-type]
    assert found == pytest.approx((10 / 3 + 7) / 17)


def test_a_new_client_is_averaged_over_models_under_any_protocol(toy_graph: Graph) -> None:
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    assert {probe.average for probe in world.averaged("clients").probes} == {"clients"}
    assert {probe.name: probe.average for probe in world.averaged("pooled").probes}["new_client"] == "clients"


def test_label_divergence_by_hand() -> None:
    counts = np.array([[2, 0], [0, 5], [1, 1]])
    found = metrics.jensen_shannon(counts)
    assert found[0, 1] == pytest.approx(1), "no class in common: one bit"
    assert np.diag(found) == pytest.approx(0)
    assert found[0, 2] == pytest.approx(found[2, 0]) == pytest.approx(0.311278, abs=1e-6)


def test_likeness_is_the_mean_over_all_pairs() -> None:
    """Against a loop over pairs; the second client has no row of class 1, and one padded row."""
    embedded = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))

    class Rows:
        labels = torch.tensor([[0, 1, 0, 1], [0, 0, 0, 0]])
        mask = torch.tensor([[1.0, 1, 1, 1], [1, 1, 1, 0]])

    found = metrics.likeness(embedded, Rows, 2)  # type: ignore[arg-type]
    rows = [embedded[0, [0, 2]], embedded[1, :3]]
    pairs = [torch.cosine_similarity(a, b, dim=0) for a in rows[0] for b in rows[1]]
    assert float(found[0, 0, 1]) == pytest.approx(float(sum(pairs) / 6))
    assert float(found[0, 1, 0]) == pytest.approx(float(found[0, 0, 1]))
    assert torch.isnan(found[1]).tolist() == [[False, True], [True, True]]


def test_measures_by_hand(world: World) -> None:
    """Client 0: two of three right; client 1: none of one; client 2 has no rows."""
    graph = world.graph
    rows = np.concatenate([np.flatnonzero(graph.owner == 0)[:3], np.flatnonzero(graph.owner == 1)[:1]])
    predicted = graph.labels[rows].copy()
    predicted[[2, 3]] = (predicted[[2, 3]] + 1) % 4
    hit = predicted == graph.labels[rows]
    found = metrics.measure(Probe("p", graph, rows, "clients", histogram=True, by_class=True), predicted)
    assert found.clients == [pytest.approx(2 / 3), 0.0, None]
    assert found.counts == [3, 1, 0]
    assert found.pooled == pytest.approx(0.5)
    assert found.clients_mean == found.accuracy == pytest.approx(1 / 3)
    classes = np.unique(graph.labels[rows])
    assert found.macro == pytest.approx(np.mean([hit[graph.labels[rows] == c].mean() for c in classes]))
    assert np.sum(found.predicted, axis=1).tolist() == [3, 1, 0]
    confusion = np.array(found.confusion)
    assert confusion.sum((1, 2)).tolist() == [3, 1, 0]
    assert np.array_equal(confusion.sum(1), found.predicted)
    assert confusion.trace(axis1=1, axis2=2).sum() == hit.sum()
    assert metrics.measure(Probe("p", graph, rows), predicted).accuracy == pytest.approx(0.5)
    assert metrics.measure(Probe("p", graph, rows[:0]), predicted[:0]).accuracy is None


def test_accuracy_and_f1_weighted_by_all_nodes_of_a_client(toy_graph: Graph) -> None:
    """Three clients of 30, 8 and 60 nodes; the first is asked about 5 rows, the second about 4, the third about none.

    Classes that a client neither has nor predicts count 0 in its F1, as scikit-learn counts them.
    """
    graph = UnionGraph.induced(toy_graph, [np.arange(30), np.arange(30, 38), np.arange(38, 98)])
    rows = np.array([0, 3, 4, 10, 29, 30, 31, 33, 37])
    predicted = graph.labels[rows].copy()
    predicted[[1, 5, 6]] = (predicted[[1, 5, 6]] + 1) % toy_graph.num_classes
    found = metrics.measure(Probe("p", graph, rows, "nodes"), predicted)

    def f1(own: slice) -> float:
        true, classes = graph.labels[rows[own]], range(toy_graph.num_classes)
        return float(f1_score(true, predicted[own], labels=classes, average="macro", zero_division=0))

    assert found.accuracy == found.nodes_mean == pytest.approx((30 * 4 / 5 + 8 * 2 / 4) / 38)
    assert found.f1 == pytest.approx((30 * f1(slice(0, 5)) + 8 * f1(slice(5, 9))) / 38)
    assert found.clients_mean == pytest.approx((4 / 5 + 2 / 4) / 2)


def test_errors_of_numbers_are_weighted_by_nodes_and_have_no_f1() -> None:
    world = worlds.of_graphs(worlds.graph_set(numbers=True))
    weighted = config_of_graphs("local", "paper", **{"protocol.average": "nodes"})
    _, found, _ = federate(weighted, world, CPU)
    tested = found["seen_graph"]["last"]
    expected = np.average(tested.clients, weights=np.diff(world.graph.ptr))
    assert tested.accuracy == tested.nodes_mean == pytest.approx(expected)
    assert tested.f1 is None


def test_numbers_are_not_taken_for_one_another_as_classes_are() -> None:
    parts, split = option("partitioner", "environment")(3, 15), Split((4 / 6, 1 / 6, 1 / 6), 0, "partitioner")
    with pytest.raises(UserError, match="by_class=true is for classes, and of graphs numbers are predicted: set it"):
        option("setting", "plain")(by_class=True).build(worlds.graph_set(numbers=True), parts, split)


@pytest.mark.parametrize("average", ["pooled", "clients", "nodes"])
def test_predictions_that_are_no_numbers_are_no_class(average: Average, toy_graph: Graph) -> None:
    """Else weights that diverged in the last round would be told as chance."""
    clients = make_clients(worlds.build("plain", toy_graph, "metis", 3), make_config("local", "paper"))
    view = clients.validation
    logits = torch.zeros(*view.mask.shape, toy_graph.num_classes)
    assert metrics.accuracy(logits, view, average, clients.nodes).isfinite()
    logits[1, 0, 2] = torch.nan
    assert metrics.accuracy(logits, view, average, clients.nodes).isnan()


def test_padding_is_no_error() -> None:
    numbers, mask = torch.tensor([[1.0, 2.0], [5.0, 0.0]]), torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    view = cast("View", SimpleNamespace(numbers=numbers, mask=mask, counts=mask.sum(1)))
    said = torch.tensor([[[1.5], [2.0]], [[4.0], [9.0]]])
    assert metrics.hits(said, view).tolist() == [-0.5, -1.0]
    assert float(metrics.accuracy(said, view, "pooled", torch.ones(2))) == pytest.approx(-0.5)
