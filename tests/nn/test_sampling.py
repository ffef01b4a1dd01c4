"""Batches of sampled neighbours: against full GraphSAGE, by client, with the remainder, and what FedSage judges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.split import TEST
from fgl_repro.federation.world import UnionGraph, World
from fgl_repro.fl.batches import Batches
from fgl_repro.fl.clients import Clients
from fgl_repro.methods.fedsageplus.mending import MendedGraph, distances
from fgl_repro.nn import view as view_module
from fgl_repro.nn.models.sage import SAGE, SAGEHalves
from fgl_repro.nn.ops import stack
from fgl_repro.nn.sampling import Neighbours
from fgl_repro.nn.view import Views
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import first_uploads, tampered

CPU = torch.device("cpu")
SPLIT = (0.6, 0.2, 0.2)


def run_of(method: str = "fedavg", **overrides: Any) -> configs.Config:
    named = {"protocol": "fedsage", "setting": "global_graph", "partitioner": "louvain", "model": "sage_halves"}
    quick = {f"method.{name}": value for name, value in registry.options("method")[method].quick.items()}
    small = {"protocol.rounds": 2, "protocol.batch": 7, "model.hidden": 8, "protocol.lr": 0.01, **quick}
    return configs.build({**small, **overrides}, dataset="cora", method=method, clients=3, **named)


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("global_graph", toy_graph, "louvain", 3, ratios=SPLIT)


def thinned(graph: Graph) -> Graph:
    """At most four neighbours a node, and one without any: 12 draws can then take each neighbour equally often."""
    dense = np.triu(graph.adjacency.toarray())
    for node in range(graph.num_nodes):
        for other in np.flatnonzero(dense[node] + dense[:, node])[4:]:
            dense[min(node, other), max(node, other)] = 0
    dense[5] = dense[:, 5] = 0
    return replace(graph, adjacency=type(graph.adjacency)((dense + dense.T).astype(np.float32)))


@pytest.mark.parametrize("architecture", [SAGE, SAGEHalves])
@pytest.mark.parametrize("sparse_below", [0.0, 1.1], ids=["dense", "sparse"])
def test_every_neighbour_drawn_equally_often_is_full_sage(
    toy_graph: Graph, architecture: type[SAGE], sparse_below: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "SPARSE_BELOW", sparse_below)
    base = thinned(toy_graph)
    graph = UnionGraph.induced(base, [np.arange(50), np.arange(30, 120)])
    degree = np.diff(graph.adjacency.indptr)
    assert set(degree) == {0, 1, 2, 3, 4}
    rows = np.flatnonzero(np.arange(graph.num_nodes) % 4 != 0)
    assert (degree[rows] == 0).any()
    model = architecture(base.num_features, base.num_classes, 8, 0.0)
    single = model.init(torch.Generator().manual_seed(0))
    params = {name: (t + 0.1 * torch.randn_like(t)).requires_grad_() for name, t in stack(single, 2).items()}
    each = ((np.arange(12) + 0.5) / 12).astype(np.float32)
    numbers = np.tile(np.concatenate([each, np.tile(each, 12)]), (len(rows), 1))
    full = model.view(Views(CPU), graph, rows)
    some = Neighbours.of(graph, CPU).view(rows, numbers, len(each))
    for name in ("labels", "mask", "counts", "slots", "degree"):
        torch.testing.assert_close(getattr(some, name), getattr(full, name))
    results = []
    for view in (full, some):
        logits = model(params, view).flatten(0, 1)[view.slots]
        results.append((logits, torch.autograd.grad(logits.square().sum(), list(params.values()))))
    (ours, grads), (theirs, others) = results
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    for mine, other in zip(grads, others, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)


def test_halves_are_stellargraphs_layers(toy_graph: Graph) -> None:
    """Both layers written out: concatenated halves, ReLU between, length 1, dense."""
    graph = UnionGraph.induced(toy_graph, [np.arange(120)])
    model = SAGEHalves(toy_graph.num_features, toy_graph.num_classes, 8, 0.0)
    single = model.init(torch.Generator().manual_seed(1))
    single = {name: value + 0.1 for name, value in single.items()}
    a = torch.from_numpy(toy_graph.adjacency.toarray())
    mean, x = a / a.sum(1, keepdim=True), torch.from_numpy(toy_graph.features.toarray())
    near, own = single["W1"].chunk(2)
    h = torch.relu(torch.cat([mean @ x @ near, x @ own], 1) + single["b1"])
    near, own = single["W2"].chunk(2)
    h = torch.cat([mean @ h @ near, h @ own], 1) + single["b2"]
    expected = h / h.norm(dim=1, keepdim=True) @ single["W3"] + single["b3"]
    view = model.view(Views(CPU), graph, np.arange(120))
    torch.testing.assert_close(model(stack(single, 1), view)[0], expected, atol=1e-5, rtol=1e-5)


def test_drawn_nodes_are_neighbours_and_all_come_up(world: World) -> None:
    graph = world.graph
    found = Neighbours.of(graph, CPU)
    nodes = np.repeat(np.arange(graph.num_nodes), 60)
    drawn = found.drawn(nodes, np.random.default_rng(0).random((len(nodes), 5), dtype=np.float32))
    degree = np.diff(graph.adjacency.indptr)
    for node in range(graph.num_nodes):
        around = set(graph.adjacency.indices[graph.adjacency.indptr[node] : graph.adjacency.indptr[node + 1]])
        assert set(drawn[nodes == node].ravel()) == (around or {graph.num_nodes})
    assert found.drawn(np.array([int(degree.argmax())]), np.ones((1, 3), np.float32)).max() < graph.num_nodes


def test_the_remainder_is_a_batch(world: World) -> None:
    sizes = np.bincount(world.graph.owner[world.train], minlength=3)
    assert (sizes % 7).any()
    steps = list(Batches(world, 7, 0, remainder=True, draws=6).epoch())
    assert len(steps) == -(-sizes.max() // 7)
    rows = np.concatenate([batch.rows for batch in steps])
    assert np.array_equal(np.sort(rows), world.train)
    assert all(batch.uniform.shape == (len(batch.rows), 6) for batch in steps)
    again = list(Batches(world, 7, 0, remainder=True, draws=6).epoch())
    assert all(
        np.array_equal(a.uniform, b.uniform) and np.array_equal(a.rows, b.rows)
        for a, b in zip(steps, again, strict=True)
    )


@pytest.mark.parametrize("method", ["fedavg", "local", "fedsageplus", "locsageplus", "fedntd"])
def test_two_rounds_and_the_same_again(method: str, world: World) -> None:
    runs = [federate(run_of(method, seed=seed), world, CPU) for seed in (0, 0, 1)]
    assert runs[0][1] == runs[1][1]
    assert runs[0][0].curves["loss"] == runs[1][0].curves["loss"] != runs[2][0].curves["loss"]
    assert set(runs[0][1]) == {"validation", "global_graph", "seen_graph"}


@pytest.mark.parametrize("method", ["fedavg", "locsageplus", "fedsageplus"])
def test_a_client_trains_on_its_own_data_only(method: str, world: World) -> None:
    """FedSage+ looks at others' features by design; at their labels it does not."""
    features = not registry.options("method")[method].shares_features
    plain, other = (first_uploads(w, run_of(method)) for w in (world, tampered(world, client=0, features=features)))
    for name, value in plain.items():
        assert torch.equal(value[1:], other[name][1:]), name
    assert any(not torch.equal(value[0], other[name][0]) for name, value in plain.items())


def test_draws_of_a_client_do_not_depend_on_anothers_size(world: World) -> None:
    fewer = replace(world, train=world.train[5:])
    whole, less = (next(Batches(w, 7, 0, True, 6).epoch()) for w in (world, fewer))
    own = [world.graph.owner[batch.rows] == 2 for batch in (whole, less)]
    assert np.array_equal(whole.rows[own[0]], less.rows[own[1]])
    assert np.array_equal(whole.uniform[own[0]], less.uniform[own[1]])


def test_the_servers_model_is_judged_once_for_all(world: World) -> None:
    training, metrics, _ = federate(run_of(), world, CPU)
    assert all(torch.equal(w, w[:1].expand_as(w)) for w in training.last.values())
    accuracies = metrics["global_graph"]["last"].clients
    assert len(set(accuracies)) == 1
    own, _, _ = federate(run_of(**{"protocol.judged": "own"}), world, CPU)
    mean = own.last["W1"].mean(0)
    torch.testing.assert_close(training.last["W1"][0], mean)
    assert not torch.equal(own.last["W1"][0], own.last["W1"][1])


def test_global_graph_is_asked_as_k_copies_would_be(world: World) -> None:
    """One graph asked model by model equals K copies laid side by side; rows are all test nodes, histograms add up."""
    config = run_of("local")
    training, metrics, _ = federate(config, world, CPU)
    probe = world.probes[0]
    model = config.model.build(world.graph.base.num_features, world.graph.base.num_classes)
    view = model.view(Views(CPU), replace(probe.graph, block=None), probe.rows)
    predicted = model(training.last, view).argmax(-1).flatten()[view.slots].numpy()
    hits = (predicted == probe.graph.labels[probe.rows]).reshape(3, -1).mean(1)
    assert metrics["global_graph"]["last"].clients == pytest.approx(hits.tolist())
    test = np.flatnonzero(worlds.global_split(world.graph.base.num_nodes, SPLIT, 0) == TEST)
    assert np.array_equal(probe.graph.node[probe.rows], np.tile(test, 3))
    assert np.sum(metrics["global_graph"]["last"].predicted) == len(probe.rows)


def test_sampled_tests_are_another_run_and_repeat(world: World) -> None:
    full, some = run_of(), run_of(**{"model.test_fanout": 5})
    assert configs.key_of(full) != configs.key_of(some)
    results = [federate(config, world, CPU)[1] for config in (full, some, some)]
    assert results[1] == results[2]
    with pytest.raises(UserError, match=r"model\.fanout does not exist: the keys of model are hidden, dropout\."):
        configs.build({"model.fanout": 5}, dataset="cora")


def test_mended_graph_has_what_was_generated(world: World) -> None:
    """Generated nodes can be drawn, have their parent as only neighbour, and their own features."""
    graph, rng = world.graph, np.random.default_rng(0)
    parent = np.array([0, 0, 7])
    generated = MendedGraph(graph, parent, rng.random((3, graph.base.num_features), dtype=np.float32), 5)
    found = generated.neighbours(CPU)
    new = graph.num_nodes + np.arange(3)
    assert found.absent == graph.num_nodes + 3
    assert np.array_equal(found.drawn(new, np.full((3, 2), 0.7, np.float32)), np.repeat(parent, 2).reshape(3, 2))
    around = found.drawn(np.array([0]), np.linspace(0, 0.999, 50, dtype=np.float32)[None])
    assert set(new[:2]) <= set(around.ravel())
    assert isinstance(found.features, torch.Tensor)
    assert np.array_equal(found.features[new].numpy(), generated.features)


def test_distances_fall_if_what_is_lost_comes_back(world: World) -> None:
    """Hanging the lost neighbours themselves on every node mends it entirely."""
    graph, base = world.graph, world.graph.base
    place = np.empty(base.num_nodes, dtype=np.int64)
    place[graph.node] = np.arange(graph.num_nodes)
    whole = base.adjacency[graph.node].tocoo()
    lost = graph.owner[whole.row] != graph.owner[place[whole.col]]
    features = base.features[whole.col[lost]].toarray()
    right = distances(MendedGraph(graph, whole.row[lost].astype(np.int64), features, 99))
    nothing = distances(MendedGraph(graph, np.empty(0, np.int64), features[:0], 5))
    for nodes in ("all", "lost"):
        assert right[nodes]["mended"] == pytest.approx([0, 0], abs=1e-6)
        assert right[nodes]["original"] == nothing[nodes]["original"] == pytest.approx(nothing[nodes]["mended"])
    assert nothing["lost"]["original"][0] > nothing["all"]["original"][0] > 0


def test_repetitions_draw_their_worlds_anew() -> None:
    assert [run_of(seed=seed).split.seed for seed in range(3)] == [0, 1, 2]
    assert {configs.build(dataset="cora", seed=seed).split.seed for seed in range(3)} == {0}


def test_whole_graphs(real_graph: Callable[..., Graph]) -> None:
    """Every node of the files, isolated ones too; the largest component is a part of it."""
    whole, component = (real_graph("citeseer", features="raw", component=c) for c in ("whole", "largest"))
    assert (whole.num_nodes, whole.num_edges) == (3327, 4552)
    assert (np.diff(whole.adjacency.indptr) == 0).sum() == 48
    assert whole.subgraph(component.original_id.astype(np.int64)).fingerprint == component.fingerprint


def test_clients_without_a_fanout_take_all_neighbours(world: World) -> None:
    config = run_of(**{"model.fanout": 0})
    model = config.model.build(world.graph.base.num_features, world.graph.base.num_classes)
    clients = Clients(config.method, model, world, config.protocol, 0, Views(CPU))
    step = next(clients.steps(1))
    assert step.batch is not None
    expected = model.view(Views(CPU), world.graph, step.batch.rows)
    torch.testing.assert_close(clients.logits(step), model(clients.params, expected))


def test_any_model_may_have_a_fanout(world: World) -> None:
    """Clients ask a model for its fan-out, not for its class."""

    class Foreign:
        def __init__(self, model: SAGEHalves) -> None:
            self.model = model

        def __getattr__(self, name: str) -> Any:
            return getattr(self.model, name)

        def __call__(self, *given: Any) -> torch.Tensor:
            return self.model(*given)

    config = run_of(**{"model.test_fanout": 5})
    model = config.model.build(world.graph.base.num_features, world.graph.base.num_classes)
    assert isinstance(model, SAGEHalves)
    both = [Clients(config.method, m, world, config.protocol, 0, Views(CPU)) for m in (model, Foreign(model))]
    first, second = (clients.logits(next(clients.steps(1))) for clients in both)
    assert torch.equal(first, second)
    judged = [clients.model(clients.params, clients.validation) for clients in both]
    assert torch.equal(*judged)
    full = replace(model, test_fanout=0).view(Views(CPU), world.graph, world.validation.rows)
    assert not torch.equal(judged[1], model(both[1].params, full))
