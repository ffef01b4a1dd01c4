"""FED-PUB's paper: baselines, similarities and inputs, clients that share nodes, the plain mean over clients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl import metrics
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Weights
from fgl_repro.methods.fedgcn.halo import widened
from fgl_repro.methods.fedpub.method import FedPub, Upload
from fgl_repro.methods.fedpub.random_graph import random_graph
from fgl_repro.methods.gcfl import GCFL, State, halves
from fgl_repro.nn import Views
from fgl_repro.runs.execute import federate
from support import worlds

CPU = torch.device("cpu")
SPLIT = (0.4, 0.3, 0.3)


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


@pytest.fixture
def shared(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "overlap", 5)


def make_config(name: str, **overrides: Any) -> configs.Config:
    dotted = {"protocol.rounds": 3, "protocol.lr": 0.01, "model.hidden": 8}
    return configs.build(dataset="cora", method=name, clients=3, overrides={**dotted, **overrides})


def make_clients(world: World, config: configs.Config) -> Clients:
    model = config.model.build(world.graph.base.num_features, world.graph.base.num_classes)
    return Clients(world, model, config.method, config.protocol, config.seed, Views(CPU))


# --- the plain mean over clients --------------------------------------------------------------------------------------


def test_the_protocols_average_selects_and_is_printed(world: World) -> None:
    pooled, plain = (
        federate(make_config("local", **{"protocol.average": average}), world, CPU) for average in ("pooled", "clients")
    )
    for (training, found, _), name in ((pooled, "pooled"), (plain, "clients_mean")):
        for measured in (found["validation"]["best"], found["seen_graph"]["last"]):
            assert measured["accuracy"] == measured[name]
        assert found["validation"]["last"][name] == pytest.approx(training.curves["validation"][-1], abs=1e-6)
    assert pooled[1]["seen_graph"]["last"]["clients"] == plain[1]["seen_graph"]["last"]["clients"]
    assert pooled[0].curves["validation"] != plain[0].curves["validation"]


def test_clients_without_rows_do_not_count() -> None:
    class Rows:
        labels = torch.tensor([[0, 1], [0, 0], [1, 0]])
        mask = torch.tensor([[1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
        counts = mask.sum(1)

    always_zero = torch.tensor([1.0, 0.0]).expand(3, 2, 2)
    assert metrics.accuracy(always_zero, Rows) == pytest.approx(1 / 3)  # type: ignore[arg-type]
    assert metrics.accuracy(always_zero, Rows, "clients") == pytest.approx(1 / 4)  # type: ignore[arg-type]


def test_a_new_client_is_averaged_over_models_under_any_protocol(toy_graph: Graph) -> None:
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    assert {probe.average for probe in world.averaged("clients").probes} == {"clients"}
    assert {probe.name: probe.average for probe in world.averaged("pooled").probes}["new_client"] == "clients"


# --- baselines --------------------------------------------------------------------------------------------------------


def test_fedprox_is_fedavg_where_a_round_is_one_step(world: World) -> None:
    averaged = federate(make_config("fedavg"), world, CPU)[0]
    for epochs, equal in ((1, True), (2, False)):
        config = make_config("fedprox", **{"method.mu": 1.0, "protocol.local_epochs": epochs})
        mine = federate(config, world, CPU)[0]
        plain = (
            averaged if epochs == 1 else federate(make_config("fedavg", **{"protocol.local_epochs": 2}), world, CPU)[0]
        )
        assert torch.equal(mine.last["W1"], plain.last["W1"]) == equal


def test_fedper_keeps_the_classifier_at_home(world: World) -> None:
    """Without training, what the server sends replaces the base and leaves the classifier alone."""
    clients = make_clients(world, make_config("fedper"))
    method = clients.method
    with torch.no_grad():
        for value in clients.params.values():
            value += torch.arange(3.0).view(3, *[1] * (value.dim() - 1))
    before = {name: value.detach().clone() for name, value in clients.params.items()}
    sent = method.upload(clients, {})
    assert set(sent.tensors()) == {"W1", "b1", "W2", "b2"}
    method.receive(clients, method.aggregate(clients, sent))
    for name, value in clients.params.items():
        kept = name in ("W3", "b3")
        expected = before[name] if kept else before[name].mean(0, keepdim=True).expand_as(value)
        torch.testing.assert_close(value.detach(), expected)


def test_minimum_cut_separates_two_groups() -> None:
    near = torch.full((5, 5), 0.1)
    near[:2, :2] = near[2:, 2:] = 2.0
    assert sorted(map(sorted, halves(near))) == [[0, 1], [2, 3, 4]]


def test_gcfl_splits_clients_that_pull_apart_and_averages_inside_clusters(world: World) -> None:
    clients = make_clients(world, make_config("gcfl", **{"method.warmup": 0}))
    method = clients.method
    assert isinstance(method, GCFL)
    method.begin(clients)
    method.remember(clients, 0)
    with torch.no_grad():
        for value in clients.params.values():
            value += torch.tensor([1.0, -1.0, 1.1]).view(3, *[1] * (value.dim() - 1))
    down = method.aggregate(clients, Weights(clients.params)).tensors()
    assert sorted(clients.state.clusters) == [[0, 2], [1]]
    torch.testing.assert_close(down["W1"][1], clients.params["W1"][1])
    torch.testing.assert_close(down["W1"][0], (clients.params["W1"][0] + clients.params["W1"][2]) / 2)
    torch.testing.assert_close(down["W1"][0], down["W1"][2])


def test_gcfl_leaves_a_cluster_that_agrees() -> None:
    updates = torch.randn(4, 6).abs() + 1
    assert GCFL().divided([0, 1, 2, 3], updates) == [[0, 1, 2, 3]]
    assert GCFL().divided([0, 1], torch.tensor([[1.0], [-1.0]])) == [[0, 1]]
    assert State([[0]]).rounds == 0


def test_fedgnn_takes_one_step_with_the_mean_gradient(world: World) -> None:
    config = make_config("fedgnn", **{"model.dropout": 0.0})
    clients = make_clients(world, config)
    method = clients.method
    loss = clients.cross_entropy(clients.logits())
    joint = (loss * clients.samples).sum() / clients.samples.sum()
    expected = torch.autograd.grad(joint, clients.params["W2"])[0].sum(0)
    method.fit(clients, None, 0, 1)
    down = method.aggregate(clients, method.upload(clients, {}))
    torch.testing.assert_close(down.gradients["W2"][1], expected)  # type: ignore[attr-defined]
    trained = federate(config, world, CPU)[0].last
    assert all(torch.equal(value[0], value[2]) for value in trained.values()), "one model for all"


def test_fedgnn_sees_what_others_hold_of_shared_nodes(shared: World, world: World) -> None:
    wider, graph = widened(shared.graph), shared.graph
    held = {(graph.node[i], graph.node[j]) for i, j in zip(*graph.adjacency.nonzero(), strict=True)}
    for k in range(5):
        own = set(graph.node[graph.ptr[k] : graph.ptr[k + 1]])
        around = {j for i, j in held if i in own}
        assert set(wider.graph.node[wider.graph.ptr[k] : wider.graph.ptr[k + 1]]) == own | around
    assert wider.graph.num_nodes > graph.num_nodes
    assert np.array_equal(wider.graph.node[wider.own], graph.node)
    assert np.array_equal(wider.graph.owner[wider.own], graph.owner)
    alone = widened(world.graph)
    assert np.array_equal(alone.graph.node, world.graph.node), "clients without common nodes gain nothing"
    assert (alone.graph.adjacency != world.graph.adjacency).nnz == 0


@pytest.mark.parametrize("variant", ["whole", "clients"])
def test_oracle_is_one_client_with_everything(toy_graph: Graph, world: World, variant: str) -> None:
    """The same weights as Local with a single client, and predictions in the graph the variant names."""
    config = make_config("oracle", **{"method.variant": variant})
    training, found, _ = federate(config, world, CPU)
    alone = worlds.build("plain", toy_graph, "random", 1)
    local, measured, _ = federate(make_config("local"), alone, CPU)
    assert all(torch.equal(training.last[name], value) for name, value in local.last.items())
    counts = found["seen_graph"]["last"]["counts"]
    assert counts == np.bincount(world.graph.owner[world.probes[0].rows], minlength=3).tolist()
    if variant == "whole":
        assert found["seen_graph"]["last"]["pooled"] == pytest.approx(measured["seen_graph"]["last"]["pooled"])


# --- FED-PUB's words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", FedPub.variants)
@pytest.mark.parametrize(
    ("field", "word"), [(field, word) for field, words in FedPub.choices.items() for word in words[1:]]
)
def test_every_similarity_and_input_runs_and_makes_another_model(
    field: str, word: str, variant: str, shared: World
) -> None:
    said = {"method.variant": variant, "method.tau": 5.0}
    plain = federate(make_config("fedpub", **said), shared, CPU)[0]
    other = federate(make_config("fedpub", **said, **{f"method.{field}": word}), shared, CPU)[0]
    assert np.isfinite(other.curves["loss"]).all()
    assert not torch.equal(plain.last["W1"], other.last["W1"])
    assert set(other.facts) == {"sparsity", "label_correlation"}


@pytest.mark.parametrize("word", FedPub.choices["similarity"])
def test_what_is_compared(word: str, world: World) -> None:
    clients = make_clients(world, make_config("fedpub", **{"method.similarity": word}))
    method = clients.method
    assert isinstance(method, FedPub)
    method.begin(clients)
    starts = []
    for number in range(2):
        method.remember(clients, number)
        starts.append(torch.cat([value.detach().flatten(1) for value in clients.params.values()], 1))
        method.fit(clients, None, number, 1)
    with torch.no_grad():
        upload = method.upload(clients, method.weights(clients.trained, training=False))
        found = method.compared(clients, upload)
    assert isinstance(upload, Upload)
    assert ("embedding" in upload.bytes_by_field()) == (word in ("function", "label"))
    whole = torch.cat([value.detach().flatten(1) for value in clients.params.values()], 1)
    expected = {
        "parameter": whole,
        "gradient": whole - starts[1],
        "updates": whole - starts[0],
        "label": clients.class_counts / clients.class_counts.sum(1, keepdim=True),
    }
    if word in expected:
        torch.testing.assert_close(found, expected[word])
    else:
        assert found.shape == (3, 8)


def test_own_features_as_input_are_the_mean_embedding_of_the_own_graph(world: World) -> None:
    clients = make_clients(world, make_config("fedpub", **{"method.random_graph": "feature"}))
    method, rows = clients.method, np.arange(world.graph.num_nodes)
    assert isinstance(method, FedPub)
    assert method.begin(clients).down is None, "nothing is sent"
    with torch.no_grad():
        weights = method.weights(clients.trained, training=False)
        found = method.embedding(clients, weights)
        view = clients.model.view(clients.views, world.graph, rows)
        every = clients.model.embed(weights, view).flatten(0, 1)[view.slots]
    assert found is not None
    for k in range(3):
        torch.testing.assert_close(found[k], every[torch.from_numpy(world.graph.owner == k)].mean(0))


def test_input_graphs() -> None:
    sizes = {kind: random_graph(2, 4, 0, CPU, kind) for kind in ("sbm", "er", "one")}
    assert {kind: len(graph.features) for kind, graph in sizes.items()} == {"sbm": 500, "er": 500, "one": 1}
    blocks = sizes["sbm"].edges // 100
    assert torch.equal(blocks[0], blocks[1])
    edges = [graph.edges.shape[1] for graph in sizes.values()]
    assert edges[1] == pytest.approx(edges[0], rel=0.1)
    assert edges[2] == 0
    assert not torch.equal(sizes["er"].edges[0] // 100, sizes["er"].edges[1] // 100)


def test_without_masks_uniform_similarity_is_fedavg(world: World) -> None:
    """tau = 0 weighs all clients alike."""
    for variant in FedPub.variants:
        said = {"method.masks": False, "method.tau": 0.0, "method.l2": 0.0, "method.variant": variant}
        mine = federate(make_config("fedpub", **said), world, CPU)[0]
        plain = federate(make_config("fedavg"), world, CPU)[0]
        assert mine.last.keys() == plain.last.keys()
        for name, value in plain.last.items():
            torch.testing.assert_close(mine.last[name], value, atol=1e-5, rtol=1e-4)
        assert set(mine.ledger.as_dict()["rounds"]["up"]) == {"weights", "embedding"}


def test_masks_cut_are_counted(world: World) -> None:
    clients = make_clients(world, make_config("fedpub", **{"method.l1": 0.5}))
    clients.method.begin(clients)
    with torch.no_grad():
        clients.personal["M3"].zero_()
    total = sum(value[0].numel() for value in clients.personal.values())
    share = clients.personal["M3"][0].numel() / total
    assert clients.method.trace(clients) == {"sparsity": pytest.approx(share)}
    with torch.no_grad():
        clients.personal["M3"].fill_(1)
    assert clients.method.trace(clients) == {"sparsity": 0}
    assert clients.method.facts(clients)["sparsity"] == pytest.approx(share / 2), "mean over rounds"


def test_label_divergence_by_hand() -> None:
    counts = np.array([[2, 0], [0, 5], [1, 1]])
    found = metrics.jensen_shannon(counts)
    assert found[0, 1] == pytest.approx(1), "no class in common: one bit"
    assert np.diag(found) == pytest.approx(0)
    assert found[0, 2] == pytest.approx(found[2, 0]) == pytest.approx(0.311278, abs=1e-6)
    assert metrics.label_correlation(1 - found, counts) == pytest.approx(1)
    assert metrics.label_correlation(found, counts) == pytest.approx(-1)
    assert metrics.label_correlation(np.ones((3, 3)), counts) is None


def test_records_from_before_the_words_stay_valid() -> None:
    plain = configs.science(configs.build(dataset="cora", method="fedpub"))["method"]
    assert not {"similarity", "random_graph", "masks"} & set(plain)
    assert plain["tau"] == 3.0
    assert configs.build(dataset="cora", method="fedpub", partitioner="overlap", clients=10).method.tau == 5.0


def test_the_protocol_on_every_graph() -> None:
    said = {
        name: configs.build(dataset=name, protocol="fedpub", setting="plain").protocol
        for name in ("cora", "photo", "computers")
    }
    assert {name: (p.rounds, p.local_epochs) for name, p in said.items()} == {
        "cora": (100, 1),
        "photo": (200, 2),
        "computers": (200, 3),
    }
    assert said["cora"].split == [0.2, 0.4, 0.4]
    assert said["cora"].average == "clients"


def test_a_shared_node_has_one_role_everywhere(shared: World) -> None:
    """Roles are drawn before the partition, so no client tests on what another trains on."""
    nodes = shared.graph.node
    train, validation, test = (
        set(nodes[rows]) for rows in (shared.train, shared.validation.rows, shared.probes[0].rows)
    )
    assert not train & test
    assert not train & validation
    assert not test & validation
    assert len(nodes) > len(set(nodes)), "clients do share nodes"
