"""FedSpray against a plain rewrite client by client: targets, losses, proxies, server."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.rounds import prepare
from fgl_repro.methods.fedspray import FedSpray, Shared, State
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

VARIANTS = FedSpray.variants


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def started(world: World, variant: str, **overrides: object) -> tuple[FedSpray, Clients, State]:
    config = make_config("fedspray", variant, **{"model.dropout": 0.0, "method.sure": 0.3, **overrides})
    clients, method = make_clients(world, config), config.method
    assert isinstance(method, FedSpray)
    state, _ = prepare(method, clients, Ledger())
    with torch.no_grad():  # something to tell clients, classes and nodes apart by
        state.own["Q"] += torch.randn(state.own["Q"].shape, generator=torch.Generator().manual_seed(0))
    return method, clients, state


class Plain:
    """Client k alone: its features, labels and training nodes, its encoder and classifiers."""

    def __init__(self, world: World, method: FedSpray, state: State, k: int) -> None:
        graph = world.graph
        own = np.arange(graph.ptr[k], graph.ptr[k + 1])
        self.x = torch.from_numpy(graph.base.features[graph.node[own]].toarray())
        self.y = torch.from_numpy(graph.labels[own])
        self.trains = torch.from_numpy(np.isin(own, world.train))
        self.w = {name: value[k].detach() for name, value in state.shared.items()}
        self.guide = {name: value[k].detach() for name, value in state.guide.items()}
        q = state.own["Q"][k].detach()
        self.q = q[self.y[self.trains]] if method.variant == "paper" else q[: int(self.trains.sum())]

    def hidden(self) -> Tensor:
        return torch.relu(self.x @ self.w["W1"] + self.w["b1"])

    def b(self) -> Tensor:
        return self.hidden() @ self.w["W2"] + self.w["b2"]

    def pi(self) -> Tensor:
        return torch.softmax(self.hidden() @ self.guide["W2"] + self.guide["b2"], 1)

    def a(self, proxies: Tensor) -> Tensor:
        return (self.hidden() + proxies) @ self.w["Wa"] + self.w["ba"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_are_those_of_a_plain_rewrite(variant: str, world: World) -> None:
    method, clients, state = started(world, variant, **{"method.weight": 0.5})
    state.classes = torch.randn(state.classes.shape, generator=torch.Generator().manual_seed(1))
    loss = method.objective(clients, state, 0)(next(clients.steps(1)))
    logits = clients.model(clients.trained, state.around).detach()
    said = torch.log_softmax(clients.model(clients.trained, clients.inputs.train), -1).detach()
    second = method.own_loss(state, said)
    for k in range(3):
        plain = Plain(world, method, state, k)
        pi = plain.pi()
        proxies = pi @ state.classes[k]
        proxies[plain.trains] = plain.q
        tau, g = plain.a(proxies), logits[k, : len(plain.y)]
        reliable = plain.trains | (pi.amax(1) > method.sure)
        assert plain.trains.sum() < reliable.sum()
        gap = F.kl_div(g.log_softmax(1)[reliable], tau.softmax(1)[reliable], reduction="batchmean")
        expected = F.cross_entropy(g[plain.trains], plain.y[plain.trains]) + 0.5 * gap
        torch.testing.assert_close(loss[k], expected)
        structured = plain.a(proxies)[plain.trains].log_softmax(1)
        gap = F.kl_div(structured, g[plain.trains].softmax(1), reduction="batchmean")
        torch.testing.assert_close(second[k], F.cross_entropy(plain.b()[plain.trains], plain.y[plain.trains]) + gap)


@pytest.mark.parametrize("variant", VARIANTS)
def test_proxies_go_up_by_class_and_are_weighed_as_the_variant_says(variant: str, world: World) -> None:
    method, clients, state = started(world, variant)
    counts = clients.class_counts.clone()
    with torch.no_grad():
        for value in state.shared.values():  # which are all alike before training
            value += torch.randn(value.shape, generator=torch.Generator().manual_seed(1))
    sent = method.upload(clients, state)
    assert isinstance(sent, Shared)
    for k in range(3):
        plain = Plain(world, method, state, k)
        labels = plain.y[plain.trains]
        for c in range(counts.shape[1]):
            expected = plain.q[labels == c].mean(0) if counts[k, c] else torch.zeros(method.width)
            torch.testing.assert_close(sent.proxies[k, c], expected)
    weight = counts if variant == "paper" else counts / counts.sum(1, keepdim=True)
    down = method.aggregate(clients, state, sent)
    assert isinstance(down, Shared)
    for c in range(counts.shape[1]):
        expected = (weight[:, c, None] * sent.proxies[:, c]).sum(0) / weight[:, c].sum()
        torch.testing.assert_close(down.proxies[1, c], expected)
    mean = (clients.samples.view(3, 1, 1) * state.shared["Wa"]).sum(0) / clients.samples.sum()
    torch.testing.assert_close(down.weights["Wa"][2], mean)


def test_a_class_nobody_trains_on_keeps_its_proxy(world: World) -> None:
    method, clients, state = started(world, "release")
    clients.class_counts[:, 1] = clients.prior[:, 1] = 0
    state.classes = torch.randn(state.classes.shape[1:]).expand(3, -1, -1)
    down = method.aggregate(clients, state, method.upload(clients, state))
    assert isinstance(down, Shared)
    assert torch.equal(down.proxies[0, 1], state.classes[0, 1])


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_comes_down_takes_the_place_of_encoder_and_classifiers_but_not_of_the_gnn(
    variant: str, world: World
) -> None:
    method, clients, state = started(world, variant)
    before = {name: value.detach().clone() for name, value in clients.params.items()}
    own = state.own["Q"].detach().clone()
    news = Shared({name: value.detach() + 1 for name, value in state.shared.items()}, state.classes + 1)
    method.receive(clients, state, news)
    assert all(torch.equal(clients.params[name], value) for name, value in before.items())
    assert torch.equal(state.shared["W1"], news.weights["W1"])
    assert torch.equal(state.shared["W2"], news.weights["W2" if variant == "paper" else "Wa"])
    assert torch.equal(state.own["Q"], news.proxies if variant == "paper" else own)


@pytest.mark.parametrize("variant", VARIANTS)
def test_pi_is_told_by_the_classifier_that_came_down(variant: str, world: World) -> None:
    """By its own average, whatever b trains on from: with all its weight on class 1 every proxy is that of class 1."""
    method, clients, state = started(world, variant)
    weights = {name: value.detach().clone() for name, value in state.shared.items()}
    weights["W2"].zero_()
    weights["b2"].zero_()[:, 1] = 50.0
    method.receive(clients, state, Shared(weights, state.classes))
    weights["b2"].fill_(0.0)  # a message is not the client's own
    log_tau, reliable = method.target(state)
    assert torch.equal(reliable, state.alone.mask.float()), "one class has all of pi"
    for k in range(3):
        plain = Plain(world, method, state, k)
        structure = state.classes[k, 1].expand(len(plain.y), -1).clone()
        structure[plain.trains] = plain.q
        torch.testing.assert_close(log_tau[k, : len(plain.y)], torch.log_softmax(plain.a(structure), 1))


@pytest.mark.parametrize("variant", VARIANTS)
def test_training_nodes_are_reliable_however_unsure_pi_is_of_them(variant: str, world: World) -> None:
    """A threshold of 1 leaves these alone."""
    method, _, state = started(world, variant, **{"method.sure": 1.0})
    _, reliable = method.target(state)
    for k, (first, end) in enumerate(pairwise(world.graph.ptr)):
        trains = np.isin(np.arange(first, end), world.train)
        assert 0 < trains.sum() < len(trains)
        assert reliable[k].tolist()[: len(trains)] == trains.tolist()


def test_proxies_learn_what_the_trained_gnn_says_without_dropout(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    method, clients, state = started(world, "release", **{"model.dropout": 0.5})
    seen, usual = [], method.own_loss
    monkeypatch.setattr(method, "own_loss", lambda state, said: seen.append(said) or usual(state, said))
    method.fit(clients, state, 0, 2)
    with torch.no_grad():
        expected = torch.log_softmax(clients.model(clients.trained, clients.inputs.train), -1)
    assert len(seen) == 2
    for said in seen:
        torch.testing.assert_close(said, expected)


def test_bytes_are_those_of_encoder_classifiers_and_class_proxies(world: World) -> None:
    method, clients, state = started(world, "release", **{"method.width": 64})
    d, c = world.graph.base.num_features, world.graph.base.num_classes
    sizes = method.upload(clients, state).bytes_by_field()
    assert sum(sizes.values()).tolist() == [4 * (64 * d + 64 + 2 * (64 * c + c) + 64 * c)] * 3  # type: ignore[union-attr]


def test_proxies_begin_a_little_apart_by_class_and_alike_at_the_nodes(world: World) -> None:
    method, clients, _ = started(world, "release", **{"method.width": 5})
    state = method.state(clients)
    for c in range(clients.model.num_classes):
        torch.testing.assert_close(state.classes[:, c], torch.full((3, 5), 0.01 * c))
    assert (state.own["Q"] == 0.1).all()


def test_networks_and_proxies_step_at_rates_of_their_own(world: World) -> None:
    """Adam's first step moves what has a gradient by the rate."""
    method, clients, state = started(world, "release", **{"method.lr_shared": 0.004, "method.lr_proxies": 0.03})
    before = {name: value.detach().clone() for name, value in (state.shared | state.own).items()}
    method.fit(clients, state, 0, 1)
    for name, value in (state.shared | state.own).items():
        moved = float((value.detach() - before[name]).abs().max())
        assert moved == pytest.approx(0.03 if name == "Q" else 0.004, rel=1e-2)


def test_weights_may_begin_above_zero(world: World) -> None:
    _, clients, _ = started(world, "release", **{"method.initial": "uniform"})
    assert all(value.min() >= 0 and value.max() < 1 for value in clients.params.values())
    assert bool((clients.params["b1"] > 0).any())
