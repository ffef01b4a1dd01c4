"""GHOST piece by piece: couplings against assignment, generators and importances against plain rewrites, its bytes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment

from fgl_repro.core import registry
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.methods.generated import graphs
from fgl_repro.methods.generated.graphs import PseudoGraph, network
from fgl_repro.methods.ghost import proxies
from fgl_repro.methods.ghost.integration import GhostServer
from fgl_repro.methods.ghost.transport import proximal, squared_distances
from fgl_repro.nn.models.model import Params
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def points(clients: int, rows: int, seed: int) -> torch.Tensor:
    return torch.randn(clients, rows, 5, generator=torch_rng("points", seed))


def test_without_structure_a_coupling_is_the_best_assignment() -> None:
    x, y, mask = points(2, 9, 0), points(2, 9, 1), torch.ones(2, 9)
    mask[1, 6:] = 0
    cost = squared_distances(x, y)
    torch.testing.assert_close(cost, torch.cdist(x, y) ** 2, atol=1e-4, rtol=1e-4)
    plan = proximal(cost, mask, lambda values: values * 0, torch.zeros(2, 9, 9), 0.0)
    for k, n in enumerate((9, 6)):
        own = plan[k, :n, :n]
        torch.testing.assert_close(own.sum(0), torch.full((n,), 1 / n))
        torch.testing.assert_close(own.sum(1), torch.full((n,), 1 / n), atol=0.02, rtol=0.2)
        assert float(plan[k].sum()) == pytest.approx(1)
        best = cost[k, :n, :n].numpy()[linear_sum_assignment(cost[k, :n, :n].numpy())].mean()
        assert float((own * cost[k, :n, :n]).sum()) == pytest.approx(best, rel=0.1)


def test_structure_brings_a_coupling_below_the_product_of_the_marginals() -> None:
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((8, 8)) < 0.4, 1).astype(np.float32)
    a = torch.from_numpy(upper + upper.T).unsqueeze(0)
    order = torch.from_numpy(rng.permutation(8))
    b, cost = a[:, order][:, :, order], squared_distances(points(1, 8, 0), points(1, 8, 1)) * 0.1

    def value(plan: torch.Tensor) -> float:
        gap = (a[0].view(8, 1, 8, 1) - b[0].view(1, 8, 1, 8)) ** 2
        structure = torch.einsum("ijkl,ij,kl->", gap, plan[0], plan[0])
        return float(0.5 * (plan * cost).sum() + 0.5 * structure)

    plan = proximal(cost, torch.ones(1, 8), lambda values: a @ values, b, 0.5)
    assert value(plan) < 0.8 * value(torch.full((1, 8, 8), 1 / 64))


@pytest.mark.parametrize("size", [1, 500_000])
@pytest.mark.parametrize("variant", ["release", "paper"])
def test_generators_train_on_their_own_clients_nodes(
    variant: str, size: int, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxies, "PIECE", size)
    config = make_config("ghost", variant, **{"method.steps": 60})
    clients = make_clients(world, config)
    training = proxies.Training(config.method, clients)
    graph, k = world.graph, 1
    own = world.train[graph.owner[world.train] == k]
    real = torch.from_numpy(graph.base.features[graph.node[own]].toarray())
    (part,) = training.parts
    torch.testing.assert_close(part.features[k, : len(own)], real)
    inside = graph.adjacency[own][:, own].toarray()
    (piece,) = (piece for piece in part.pieces if piece.who.start <= k < piece.who.stop)
    neighbours = piece.ours(torch.eye(piece.width).expand(piece.who.stop - piece.who.start, -1, -1))
    found = neighbours[k - piece.who.start, : len(own), : len(own)]
    np.testing.assert_array_equal(found.numpy(), inside + (np.eye(len(own)) if variant == "paper" else 0))
    first = float(training.turn(1).values["loss"])
    assert float(training.turn(60).values["loss"]) < first


@pytest.mark.parametrize("variant", ["release", "paper"])
def test_clients_one_by_one_train_as_all_together(variant: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where features of all are too many: no row is padded, and thin features are multiplied as sparse ones."""
    config, trained = make_config("ghost", variant), []
    for entries, parts in ((proxies.TOGETHER, 1), (1, 3)):
        monkeypatch.setattr(proxies, "TOGETHER", entries)
        monkeypatch.setattr(proxies, "thin", lambda features: True)
        training = proxies.Training(config.method, make_clients(world, config))
        assert len(training.parts) == parts
        assert all((part.times is None) == (parts == 1) for part in training.parts)
        training.turn(2)
        trained.append(training.nets)
    for name, value in trained[0].items():
        torch.testing.assert_close(value, trained[1][name], atol=1e-4, rtol=1e-4)


def test_a_generator_is_a_plain_network() -> None:
    rng = torch_rng("net", 0)
    nets = network(proxies.NOISE, 3, 7, rng, CPU)
    noise, labels = torch.randn(1, 5, proxies.NOISE, generator=rng), torch.tensor([[0, 2, 1, 1, 0]])
    with torch.no_grad():
        hidden = torch.cat([noise[0], nets["E"][0][labels[0]]], 1)
        for layer in (1, 2, 3):
            hidden = torch.tanh(F.linear(hidden, nets[f"W{layer}"][0].T, nets[f"b{layer}"][0]))
        expected = F.linear(hidden, nets["W4"][0].T, nets["b4"][0])
        torch.testing.assert_close(proxies.generated(nets, noise, labels, 0.0, rng)[0], expected)


@pytest.mark.parametrize("variant", ["release", "paper"])
def test_importances_and_retention_are_those_of_a_plain_rewrite(variant: str, world: World) -> None:
    settings = {"method.steps": 1, "method.graphs": 1, "method.server_steps": 2, "method.retention": 0.1}
    config = make_config("ghost", variant, **{**settings, "model.dropout": 0.0})
    clients = make_clients(world, config)
    server = GhostServer(config.method, clients, proxies.Training(config.method, clients).nets)
    kept = []
    for k in (0, 2):
        graph, labels = server.graph(k)
        assert len(labels) == np.diff(world.graph.ptr)[k]
        theta = {name: value.detach().clone().requires_grad_() for name, value in server.params.items()}
        hidden = torch.relu(graph.around @ graph.features @ theta["W1"][0] + theta["b1"][0])
        total = torch.zeros(())
        for i, j in (graph.around > 0).nonzero().tolist():
            total = total + ((hidden[i] @ theta["W1"][0].T) @ torch.tanh(hidden[j] @ theta["W1"][0].T)) ** 2
        plain = torch.autograd.grad(total, [theta["W1"], theta["b1"]])
        importance = server.importance(graph)
        for name, grad in zip(("W1", "b1"), plain, strict=True):
            torch.testing.assert_close(importance[name], grad + server.left.get(name, 0), rtol=1e-3, atol=1e-5)
        assert bool(server.left) == (variant == "release" and bool(kept))
        server.learn(graph, labels)
        kept.append(
            ({n: v.abs() for n, v in importance.items()}, {n: v.detach().clone() for n, v in server.params.items()})
        )
    theta = server.params["W1"].detach() + 0.1
    squares, products, constants = (part["W1"] for part in server.sums)
    summed = (squares * theta**2 - 2 * products * theta + constants).sum()
    expected = sum((weight["W1"] * (theta - then["W1"]) ** 2).sum() for weight, then in kept)
    torch.testing.assert_close(summed, expected, rtol=1e-3, atol=1e-4)


def first_layer(model: str, theta: Params, graph: PseudoGraph) -> torch.Tensor:
    """What the first convolution of one network makes of all nodes, written out with dense matrices ``[n, H]``."""
    own = {name: value[0] for name, value in theta.items()}
    features, weight, bias = graph.features, own["W1"], own["b1"]
    looped = graph.around > 0
    if model == "graphsage":
        links = looped.float().fill_diagonal_(0)
        mean = links @ features / links.sum(1, keepdim=True).clamp_min(1)
        return torch.cat([mean, features], dim=1) @ weight + bias
    if model == "gat":
        mapped = features @ weight
        scores = F.leaky_relu((mapped @ own["t1"]).unsqueeze(1) + mapped @ own["s1"], 0.2)
        return torch.softmax(scores.masked_fill(~looped, -torch.inf), dim=1) @ mapped + bias
    steps = 2 if model == "sgc" else 1
    return torch.linalg.matrix_power(graph.around, steps) @ features @ weight + bias


@pytest.mark.parametrize("model", ["gcn2", "gcn2 of three", "graphsage", "gat", "sgc"])
def test_importances_follow_the_first_layer_of_any_backbone(model: str, world: World) -> None:
    name, _, deep = model.partition(" of ")
    config = make_config("ghost", "paper", **{"method.steps": 1, "method.server_steps": 3})
    sizes = {"hidden": 8, "dropout": 0.0, **({"layers": 3} if deep else {})}
    config.model = registry.option("model", name)(**sizes)
    clients = make_clients(world, config)
    server = GhostServer(config.method, clients, proxies.Training(config.method, clients).nets)
    graph, labels = server.graph(1)
    theta = {name: value.detach().clone().requires_grad_() for name, value in server.params.items()}
    hidden, weight = torch.relu(first_layer(name, theta, graph)), theta["W1"][0]
    pairs = [(hidden[i] @ weight.T) @ torch.tanh(hidden[j] @ weight.T) for i, j in (graph.around > 0).nonzero()]
    first = [each for each in theta if each.endswith("1")]
    plain = torch.autograd.grad(torch.stack(pairs).square().sum(), [theta[each] for each in first])
    importance = server.importance(graph)
    for each, grad in zip(first, plain, strict=True):
        torch.testing.assert_close(importance[each], grad, rtol=1e-3, atol=1e-4)
    assert not any(importance[each].any() for each in theta if each not in first)
    before = float(server.learn(graph, labels))
    assert float(server.learn(graph, labels)) < before
    for each, value in theta.items():
        assert not torch.equal(server.params[each], value), "every weight learns"


def test_bytes_are_those_of_generators_up_and_a_model_down(world: World) -> None:
    training, _, _ = federate(make_config("ghost", "release"), world, CPU)
    d, c = world.graph.base.num_features, world.graph.base.num_classes
    up, down = (training.ledger.as_dict()[name] for name in ("upload", "download"))
    sizes = [64 + c, 64, 128, 256, d]
    assert up["up"]["generators"] == 4 * (c * c + sum(a * b + b for a, b in pairwise(sizes)))
    assert down["down"]["weights"] == 4 * (d * 8 + 8 + 8 * c + c)


def test_sparse_products_on_a_large_graph_are_the_dense_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    values = points(1, 30, 2)[0]

    def found() -> list[torch.Tensor]:
        graph = PseudoGraph.of(values, 3)
        return [graph.propagated, graph.view(1).outer(values), graph.view(2).outer(values.repeat(2, 1))]

    dense = found()
    monkeypatch.setattr(graphs, "LARGE", 1)
    for sparse, expected in zip(found(), dense, strict=True):
        torch.testing.assert_close(sparse, expected)
