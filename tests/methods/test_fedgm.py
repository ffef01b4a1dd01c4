"""FedGM piece by piece: gradients by class against autograd, small graphs, matching, later rounds, bytes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fgl_repro.core import registry
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.clients import Clients
from fgl_repro.methods.condensing.predictor import predicted
from fgl_repro.methods.fedgm import condensation
from fgl_repro.methods.fedgm import server as server_of_fedgm
from fgl_repro.methods.fedgm.condensation import ClientCondensation, Small, shares
from fgl_repro.methods.fedgm.gradients import by_class, distance, random_weights
from fgl_repro.methods.fedgm.method import FedGM, State
from fgl_repro.methods.fedgm.server import CondensedGraphServer, links_of
from fgl_repro.nn.adjacency import gcn_norm
from fgl_repro.nn.models.model import Params
from fgl_repro.nn.ops import normalised
from fgl_repro.nn.view import Views
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def started(world: World, variant: str = "release", **settings: object) -> tuple[FedGM, Clients, State]:
    config = make_config("fedgm", variant, **{f"method.{name}": value for name, value in settings.items()})
    clients, method = make_clients(world, config), config.method
    assert isinstance(method, FedGM)
    return method, clients, method.state(clients)


def test_gradients_by_class_are_those_of_autograd_on_real_and_small_graphs(world: World) -> None:
    _, _, state = started(world)
    graph, k = world.graph, 1
    classes, every = graph.base.num_classes, torch.arange(graph.base.num_classes)
    weights = random_weights(graph.base.num_features, 8, classes, torch_rng("w", 0), CPU)
    leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}
    around = torch.from_numpy(gcn_norm(graph.adjacency).toarray())
    x = torch.from_numpy(graph.base.features[graph.node].toarray())
    rows = torch.from_numpy(world.train[graph.owner[world.train] == k])
    links = torch.rand(5, 5, generator=torch_rng("links", 0))
    small = Small(torch.randn(5, x.shape[1], generator=torch_rng("x", 0)), links, torch.tensor([0, 0, 1, 2, 1]))
    labels = torch.from_numpy(graph.labels)
    for data, matrix, features, own, truth in (
        (state.real[k], around, x, rows, labels),
        (small.data, links, small.features, torch.arange(5), small.labels),
        (small.mapped_first, links, small.features, torch.arange(5), small.labels),
    ):
        found = by_class(weights, data, every)
        hidden = torch.relu(matrix @ features @ leaves["W1"] + leaves["b1"])
        logits = matrix @ hidden @ leaves["W2"] + leaves["b2"]
        for c in range(classes):
            part = own[truth[own] == c]
            if not len(part):
                assert not any(value[c].any() for value in found.values())
                continue
            loss = F.cross_entropy(logits[part], truth[part])
            for name, grad in zip(
                leaves, torch.autograd.grad(loss, list(leaves.values()), retain_graph=True), strict=True
            ):
                torch.testing.assert_close(found[name][c], grad, atol=1e-5, rtol=1e-4)
        some = by_class(weights, data, torch.tensor([1]))
        torch.testing.assert_close(some["W1"][0], found["W1"][1])


def test_distances_weigh_classes() -> None:
    ours = {"a": torch.tensor([[1.0, 2.0], [0.0, 1.0]]), "b": torch.tensor([[1.0], [1.0]])}
    theirs = {name: torch.zeros_like(value) for name, value in ours.items()}
    assert float(distance(ours, theirs, torch.tensor([1.0, 0.5]))) == 6.0 + 0.5 * 2.0


def test_small_graphs_have_a_share_of_every_class_and_the_largest_the_rest() -> None:
    assert shares(np.array([10, 1, 0, 3]), 0.84).tolist() == [9, 0, 0, 2]
    assert shares(np.array([0, 1]), 0.84).tolist() == [0, 0]


@pytest.mark.parametrize("variant", ["release", "paper"])
def test_features_begin_as_those_of_training_nodes(variant: str, world: World) -> None:
    method, clients, state = started(world, variant)
    graph = world.graph
    for k in range(3):
        work = ClientCondensation(method, clients, state.real[k], k)
        own = world.train[graph.owner[world.train] == k]
        held = world.class_counts[k]
        sizes = [held[c] for c in work.labels.tolist()]
        assert sizes == sorted(sizes)
        assert len(work.labels) == int(0.84 * len(own)) == int(work.counts.sum())
        small = work.labels.bincount()
        torch.testing.assert_close(work.weight, small[work.classes] / small.max())
        first = [tuple(row) for row in work.features["X"][0].detach().tolist()]
        order = work.labels.tolist() if variant == "paper" else sorted(work.labels.tolist())
        for row, c in zip(first, order, strict=True):
            mine = own[graph.labels[own] == c]
            assert row in {tuple(x) for x in graph.base.features[graph.node[mine]].toarray().tolist()}


def test_matching_brings_gradients_nearer(world: World) -> None:
    method, clients, state = started(world, "paper", iterations=120, links=8)
    work = ClientCondensation(method, clients, state.real[0], 0)
    begun = work.result()
    work.run()
    weights = [random_weights(*work.sizes, torch_rng("test", seed), CPU) for seed in range(20)]

    def apart(small: Small) -> float:
        gaps = (
            distance(by_class(w, small.data, work.classes), by_class(w, work.real, work.classes), work.weight)
            for w in weights
        )
        return float(sum(gaps))

    assert apart(work.result()) < 0.8 * apart(begun)
    links = predicted({name: value[0] for name, value in work.net.items()}, work.features["X"][0])
    torch.testing.assert_close(links, links.T)


def test_the_graph_of_least_loss_is_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    method, clients, state = started(world, "paper", iterations=12, lr_features=1.0, lr_links=1.0)
    work = ClientCondensation(method, clients, state.real[0], 0)
    seen: list[tuple[float, dict[str, torch.Tensor]]] = []

    def watched(ours: Params, theirs: Params, weight: torch.Tensor) -> torch.Tensor:
        loss = distance(ours, theirs, weight)
        held = {name: value.detach().clone() for name, value in {**work.features, **work.net}.items()}
        seen.append((float(loss.detach()), held))
        return loss

    monkeypatch.setattr(condensation, "distance", watched)
    work.run()
    losses = [loss for loss, _ in seen]
    at = int(np.argmin(losses))
    assert 0 < at < len(losses) - 1, "the first or the last is the best: the test proves nothing"
    for name, value in seen[at][1].items():
        assert torch.equal(work.best[name], value)
    assert torch.equal(work.result().features, work.best["X"][0])


def test_of_twenty_steps_the_first_five_train_the_link_predictor(world: World) -> None:
    method, clients, state = started(world, iterations=23)
    work = ClientCondensation(method, clients, state.real[0], 0)
    work.run()
    of_features, of_links = (float(optimiser.counts[0]) for optimiser in work.optimisers)
    assert (of_features, of_links) == (15, 5 + 3)


def plain_training(server: CondensedGraphServer, first: Params, rates: tuple[float, ...], steps: int) -> Params:
    """A GCN on the union of the small graphs, by torch's Adam, a new one for every rate."""
    own = {name: value.clone().requires_grad_() for name, value in first.items()}
    around = torch.block_diag(*(each.around for each in server.graphs))  # type: ignore[no-untyped-call]
    features = torch.cat([each.features for each in server.graphs])
    for rate in rates:
        adam = torch.optim.Adam(own.values(), lr=rate, weight_decay=0.1)
        for _ in range(steps):
            hidden = torch.relu(around @ features @ own["W1"] + own["b1"])
            adam.zero_grad()
            F.cross_entropy(around @ hidden @ own["W2"] + own["b2"], server.labels).backward()  # type: ignore[no-untyped-call]
            adam.step()
    return {name: value.detach() for name, value in own.items()}


@pytest.mark.parametrize("scores", [(0.1, 0.2), (0.2, 0.1), (0.2, 0.2)])
def test_the_server_goes_on_at_a_tenth_of_its_rate_and_keeps_the_first_of_the_best(
    scores: tuple[float, float], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config("fedgm", "release", **{"model.dropout": 0.0})
    method, clients = config.method, make_clients(world, config)
    assert isinstance(method, FedGM)
    method.epochs, method.lr_server, method.weight_decay = 6, 0.05, 0.1
    graphs = []
    for size in (6, 3):
        links = torch.triu(torch.rand(size, size, generator=torch_rng("links", size)), 1)
        features = torch.randn(size, clients.model.num_features, generator=torch_rng("features", size))
        graphs.append(Small(features, normalised(links + links.T), torch.arange(size) % 4))
    server = CondensedGraphServer(method, clients, graphs, torch.ones(2, 4))
    looks = iter(scores)  # one after each half
    monkeypatch.setattr(server_of_fedgm, "accuracy", lambda *_: torch.tensor(next(looks)))
    before = server.rng.get_state()
    found = server.trained()
    server.rng.set_state(before)
    rates = (0.05, 0.005) if scores[1] > scores[0] else (0.05,)
    for name, value in plain_training(server, server.random_weights(), rates, 3).items():
        torch.testing.assert_close(found[name][0], value, rtol=1e-4, atol=1e-5)
    assert next(looks, None) is None


def test_a_client_of_one_training_node_condenses_to_nothing(world: World) -> None:
    method, clients, state = started(world)
    work = ClientCondensation(method, clients, state.real[0], 0)
    work.labels, work.features = work.labels[:0], {"X": work.features["X"][:, :0]}
    work.best["X"] = work.features["X"]
    assert float(work.run()) == 0
    assert work.result().around.shape == (0, 0)


def test_later_rounds_ask_for_gradients_at_weights_drawn_anew(world: World) -> None:
    one = federate(make_config("fedgm", "release", **{"protocol.rounds": 1}), world, CPU)[0].ledger.as_dict()
    assert "rounds" not in one
    assert set(one["download"]["down"]) == {"weights"}
    more = federate(make_config("fedgm", "release", **{"protocol.rounds": 3}), world, CPU)[0].ledger.as_dict()
    classes = world.graph.base.num_classes
    model = one["download"]["down"]["weights"]
    assert more["rounds"]["up"] == {"gradients": 3 * classes * model}
    assert more["rounds"]["down"] == {"weights": 2 * model, "probe": 2 * model}


def test_bytes_are_those_of_features_labels_and_predictor(world: World) -> None:
    method, clients, state = started(world, links=4)
    work = ClientCondensation(method, clients, state.real[0], 0)
    m, d, h = len(work.labels), world.graph.base.num_features, 4
    net = 2 * d * h + h + h * h + h + h + 1 + 4 * h
    assert work.size == 4 * m * d + 8 * m + 4 * net


def test_a_deeper_network_than_that_which_condenses_comes_down_whole(world: World) -> None:
    config = make_config("fedgm", "release")
    config.model = registry.option("model", "gcn2")(hidden=8, dropout=0.0, layers=3)
    ledger = federate(config, world, CPU)[0].ledger.as_dict()
    d, c = world.graph.base.num_features, world.graph.base.num_classes
    assert ledger["download"]["down"]["weights"] == 4 * (d * 8 + 8 + 8 * 8 + 8 + 8 * c + c)


def test_other_networks_see_the_weights_of_links(world: World) -> None:
    """A GCN on the union, told its links by their weights, is the GCN that reads the normalised ones."""
    method, clients, _ = started(world)
    graphs = []
    for size in (6, 0, 3):
        links = torch.triu(torch.rand(size, size, generator=torch_rng("links", size)), 1)
        torch.testing.assert_close(links_of(normalised(links + links.T)), links + links.T)
        features = torch.randn(size, clients.model.num_features, generator=torch_rng("features", size))
        graphs.append(Small(features, normalised(links + links.T), torch.arange(size) % 4))
    server = CondensedGraphServer(method, clients, graphs, torch.ones(3, 4))
    usual, weights = server.beginning()
    union = server.union()
    assert union.num_nodes == 9
    assert not union.adjacency[:6, 6:].nnz
    other = clients.model.view(Views(CPU), union, np.arange(9))
    params = {name: value.unsqueeze(0) for name, value in weights.items()}
    torch.testing.assert_close(clients.model(params, other), clients.model(params, usual), rtol=1e-5, atol=1e-5)


def test_the_server_steps_towards_the_mean_of_the_clients_gradients(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step of Adam moves every feature that has a gradient by the learning rate, against its sign."""
    method, clients, state = started(world)
    graphs = [Small(torch.rand(m, 16), normalised(torch.ones(m, m).fill_diagonal_(0)), torch.arange(m)) for m in (2, 4)]
    counts = torch.tensor([[3.0, 1, 0, 0], [1, 1, 1, 1]])
    targets: list[dict[str, torch.Tensor]] = []
    weights: list[torch.Tensor] = []

    def watched(ours: Params, theirs: Params, weight: torch.Tensor) -> torch.Tensor:
        targets.append(theirs)
        weights.append(weight)
        return distance(ours, theirs, weight)

    monkeypatch.setattr(server_of_fedgm, "distance", watched)
    server = CondensedGraphServer(method, clients, graphs, counts)
    probe, before = server.probe, server.features["X"].detach().clone()
    real = [by_class(probe, data, torch.arange(4)) for data in state.real[:2]]
    server.matched({name: torch.stack([one[name] for one in real]) for name in probe})
    whole = Small(
        before[0].requires_grad_(),
        torch.block_diag(*(each.around for each in graphs)),  # type: ignore[no-untyped-call]
        torch.tensor([0, 1, 0, 1, 2, 3]),
    )
    ours, loss = by_class(probe, whole.data, torch.arange(4)), torch.zeros(())
    for c, (first, second) in enumerate([(0.75, 0.25), (0.5, 0.5), (0.0, 1.0), (0.0, 1.0)]):
        for name in probe:
            target = first * real[0][name][c] + second * real[1][name][c]
            torch.testing.assert_close(targets[0][name][c], target)
            loss = loss + counts.sum(0)[c] / 4 * ((ours[name][c] - target) ** 2).sum()
    (grad,) = torch.autograd.grad(loss, whole.features)
    assert (grad.abs() > 1e-6).any()
    moved = server.features["X"].detach()[0] - before[0].detach()
    clear = grad.abs() > 1e-6
    torch.testing.assert_close(moved[clear], -method.lr_features * grad[clear].sign(), rtol=1e-2, atol=1e-6)
    torch.testing.assert_close(weights, [torch.tensor([1.0, 0.5, 0.25, 0.25])])
    assert server.probe is not probe


def test_the_server_trains_with_dropout(world: World) -> None:
    for rate in (0.0, 0.5):
        config = make_config("fedgm", "release", **{"model.dropout": rate})
        clients = make_clients(world, config)
        graphs = [
            Small(torch.rand(m, 16), normalised(torch.ones(m, m).fill_diagonal_(0)), torch.arange(m)) for m in (2, 4)
        ]
        server = CondensedGraphServer(config.method, clients, graphs, torch.ones(2, 4))
        before, found = server.rng.get_state(), []
        for _ in range(2):
            server.rng.set_state(before)
            found.append(server.trained()["W1"])
        assert torch.equal(*found) == (rate == 0)


def test_no_node_is_taken_twice_while_there_are_others(world: World) -> None:
    """First features of small graphs, which have fewer nodes of a class than the client trains on."""
    method, clients, state = started(world, "paper", rate=0.5)
    graph = world.graph
    for k in range(3):
        work = ClientCondensation(method, clients, state.real[k], k)
        for c in work.classes.tolist():
            mine = world.train_of[k][graph.labels[world.train_of[k]] == c]
            real = Counter(map(tuple, graph.base.features[graph.node[mine]].toarray().tolist()))
            made = Counter(map(tuple, work.features["X"][0].detach()[work.labels == c].tolist()))
            assert made.total() <= len(mine)
            assert made <= real


def test_rounds_are_asked_for_gradients_from_the_second_on(world: World) -> None:
    two = federate(make_config("fedgm", "release", **{"protocol.rounds": 2}), world, CPU)[0].ledger.as_dict()
    assert set(two["download"]["down"]) == {"weights", "probe"}
    assert set(two["rounds"]["up"]) == {"gradients"}
