"""GHOST's losses client by client, and what its server makes of their generators: how often, and with what dropout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.phase import Turn
from fgl_repro.fl.rounds import prepare
from fgl_repro.fl.steps import Step
from fgl_repro.methods.generated.graphs import PseudoGraph
from fgl_repro.methods.ghost import Ghost, proxies, transport
from fgl_repro.methods.ghost.integration import GhostServer
from fgl_repro.methods.ghost.transport import conditional, proximal, squared_distances
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

VARIANTS = Ghost.variants
Finder = Callable[[Tensor, Tensor, Callable[[Tensor], Tensor], Tensor | None, float], Tensor]
FINDERS: dict[str, Finder] = {"proximal": proximal, "conditional": conditional}


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def nearest(x: Tensor, neighbours: int) -> Tensor:
    """Links of rows with those nearest by cosine, either way, and with themselves ``[n, n]``."""
    links = torch.eye(len(x))
    for i, row in enumerate(x):
        for j in F.cosine_similarity(row.unsqueeze(0), x).argsort(descending=True)[:neighbours].tolist():
            links[i, j] = links[j, i] = 1
    return links


@pytest.mark.parametrize(
    ("variant", "found"), [("release", "proximal"), ("paper", "proximal"), ("release", "conditional")]
)
def test_losses_are_those_of_a_plain_rewrite(variant: str, found: str, world: World) -> None:
    weights = {"method.distributed": 20.0, "method.aligned": 3.0, "method.structure": 0.6}
    weights |= {"method.dropout": 0.0, "method.neighbours": 4, "method.couplings": found}
    config = make_config("ghost", variant, **weights)
    training = proxies.Training(config.method, make_clients(world, config))
    with torch.no_grad():
        for value in training.nets.values():
            value += 0.3 * torch.randn(value.shape, generator=torch_rng("apart", 0))
        training.nets["W4"] *= 0.05  # about as large as real features, and somewhat like them
        training.nets["b4"] += 0.2 - 0.95 * training.nets["b4"]
    before = training.noise.get_state()
    losses = training.loss(Step(None))
    training.noise.set_state(before)
    noise = torch.randn(*training.labels.shape, proxies.NOISE, generator=training.noise)
    graph = world.graph
    for k in range(3):
        rows = world.train[graph.owner[world.train] == k]
        real = torch.from_numpy(graph.base.features[graph.node[rows]].toarray())
        labels, own = torch.from_numpy(graph.labels[rows]), {n: v[k : k + 1] for n, v in training.nets.items()}
        made = proxies.generated(own, noise[k : k + 1, : len(rows)], labels.unsqueeze(0), 0.0, training.dropout)[0]
        links = torch.from_numpy(graph.adjacency[rows][:, rows].toarray())
        ours, theirs = links, torch.eye(len(rows))
        if variant == "paper":
            ours, theirs = links + torch.eye(len(rows)), nearest(made, 4)
        cost = torch.cdist(real, made).square()
        mask = torch.ones(1, len(rows))
        plan = FINDERS[found](cost.unsqueeze(0), mask, ours.matmul, theirs.unsqueeze(0), 0.6)[0]
        gap = F.kl_div(made.log_softmax(1), real.softmax(1), reduction="batchmean")
        unlike = (1 - F.cosine_similarity(real, made)).mean()
        terms = [20 * gap, unlike, 3 * (1 - 0.6) * (plan * cost).sum()]
        assert min(float(term.detach()) for term in terms) > 0.1
        assert float(unlike.detach()) < 0.9, "a cosine of 0 would say nothing of its sign"
        torch.testing.assert_close(losses[k], torch.stack(terms).sum(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("find", FINDERS.values())
def test_no_structure_of_theirs_is_the_identity(find: Finder) -> None:
    links = torch.triu(torch.rand(2, 7, 7, generator=torch_rng("links", 0)) < 0.4, 1).float()
    links, mask = links + links.transpose(1, 2), torch.ones(2, 7)
    mask[1, 5:] = links[1, 5:] = links[1, :, 5:] = 0
    x, y = torch.randn(2, 2, 7, 3, generator=torch_rng("points", 0))
    plans = [
        find(squared_distances(x, y), mask, links.matmul, theirs, 0.6)
        for theirs in (None, torch.eye(7).repeat(2, 1, 1))
    ]
    torch.testing.assert_close(*plans, rtol=1e-4, atol=1e-6)


def test_conditional_gradients_find_a_graph_again_and_come_nearer_than_proximal_steps() -> None:
    """Distances are written out by the definition, sums over four indices and all."""
    links = torch.triu(torch.rand(9, 9, generator=torch_rng("links", 1)) < 0.4, 1).float()
    links, order = links + links.T, torch.randperm(9, generator=torch_rng("order", 1))
    x = torch.randn(9, 3, generator=torch_rng("points", 1))
    moved, theirs, mask = x[order], links[order][:, order], torch.ones(1, 9)

    def distance(plan: Tensor, cost: Tensor, a: float) -> float:
        apart = (links[:, None, :, None] - theirs[None, :, None, :]).square()
        return float((1 - a) * (plan * cost).sum() + a * torch.einsum("ij,kl,ijkl->", plan, plan, apart))

    for noise in (0.0, 1.0):
        cost = squared_distances(x[None], moved[None] + noise * torch.randn(9, 3, generator=torch_rng("noise", 1)))
        near, rough = (find(cost, mask, links.matmul, theirs[None], 0.5)[0] for find in (conditional, proximal))
        torch.testing.assert_close(near.sum(0), torch.full((9,), 1 / 9))
        torch.testing.assert_close(near.sum(1), torch.full((9,), 1 / 9))
        assert distance(near, cost[0], 0.5) < distance(rough, cost[0], 0.5)
        if not noise:
            torch.testing.assert_close(near, torch.eye(9)[:, order] / 9)
    cost[0, 3, 4] = torch.nan
    assert conditional(cost, mask, links.matmul, theirs[None], 0.5).isnan().all(), "the loss tells that it diverges"


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_server_makes_several_graphs_a_client_with_dropout_in_the_release_alone(variant: str, world: World) -> None:
    config = make_config("ghost", variant, **{"method.graphs": 3, "method.server_steps": 2, "method.dropout": 0.5})
    clients = make_clients(world, config)
    server = GhostServer(config.method, clients, proxies.Training(config.method, clients).nets)
    before, made = server.rng.get_state(), []
    for _ in range(2):
        server.rng.set_state(before)
        graph, labels = server.graph(0)
        made.append(graph.features)
        each = np.diff(world.graph.ptr)[0] // 4
        assert labels.bincount().tolist() == [each] * 3 + [len(labels) - 3 * each]
    assert torch.equal(*made) == (variant == "paper")
    server.turn(0)
    assert float(server.optimiser.counts[0]) == 3 * 2


def test_generators_and_server_decay_and_step_at_rates_of_their_own(world: World) -> None:
    """Under a decay that outweighs all gradients, Adam's first step takes its rate off every weight."""
    rates = {"method.lr_generator": 0.002, "method.lr_server": 0.005, "method.weight_decay": 1e9}
    config = make_config("ghost", "release", **{**rates, "method.graphs": 1, "method.server_steps": 1})
    clients = make_clients(world, config)
    training = proxies.Training(config.method, clients)
    before = {name: value.detach().clone() for name, value in training.nets.items()}
    training.turn(1)
    server = GhostServer(config.method, clients, training.nets)
    with torch.no_grad():
        server.params["b1"] += 0.1  # none is 0, which has no sign
        server.params["b2"] -= 0.1
    begun = {name: value.detach().clone() for name, value in server.params.items()}
    server.turn(0)
    for after, then, rate in ((training.nets, before, 0.002), (server.params, begun, 0.005)):
        for name, value in then.items():
            torch.testing.assert_close(after[name].detach(), value - rate * value.sign())


def test_noise_is_drawn_anew_in_every_step(world: World) -> None:
    config = make_config("ghost", "release", **{"method.dropout": 0.0})
    training = proxies.Training(config.method, make_clients(world, config))
    assert not torch.equal(training.loss(Step(None)), training.loss(Step(None)))


def test_the_server_goes_from_client_to_client_and_forgets_nothing(world: World) -> None:
    """In an order that is drawn by the seed; what graphs of earlier clients need is added to, never begun anew."""
    config, orders = make_config("ghost", "paper", **{"method.graphs": 1, "method.server_steps": 1}), []
    clients = make_clients(world, config)
    for clients.seed in range(8):
        server = GhostServer(config.method, clients, proxies.Training(config.method, clients).nets)
        orders.append(server.order.tolist())
    assert len(set(map(tuple, orders))) > 1
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    server.order, seen, usual = np.array([2, 0, 1]), [], server.graph

    def graph(k: int) -> tuple[PseudoGraph, Tensor]:
        seen.append(k)
        return usual(k)

    server.graph = graph  # type: ignore[method-assign]
    before = torch.zeros_like(server.sums[0]["W1"])
    for number in range(3):
        server.turn(number)
        assert (server.sums[0]["W1"] >= before).all()
        assert (server.sums[0]["W1"] > before).any()
        before = server.sums[0]["W1"].clone()
    assert seen == [2, 0, 1]


def test_a_proximal_step_goes_down_the_gradient_of_the_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to its length, and to what is the same in a row or a column, which the scalings to given sums take away."""
    monkeypatch.setattr(transport, "ITERATIONS", 1)
    links = torch.triu(torch.rand(9, 9, generator=torch_rng("links", 2)) < 0.4, 1).float()
    links, order = links + links.T, torch.randperm(9, generator=torch_rng("order", 2))
    theirs, cost = links[order][:, order], torch.rand(1, 9, 9, generator=torch_rng("cost", 2))
    before = torch.full((9, 9), 1 / 81, requires_grad=True)
    apart = (links[:, None, :, None] - theirs[None, :, None, :]).square()
    structure = torch.einsum("ij,kl,ijkl->", before, before, apart)
    (slope,) = torch.autograd.grad(0.4 * (before * cost[0]).sum() + 0.6 * structure, before)
    step = proximal(cost, torch.ones(1, 9), links.matmul, theirs[None], 0.6)[0].log()
    down, found = (x - x.mean(0) - x.mean(1, keepdim=True) + x.mean() for x in (-slope, step))
    assert float(F.cosine_similarity(down.flatten(), found.flatten(), dim=0)) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("steps", [7, 25, 100])
def test_generators_take_as_many_steps_as_asked(steps: int, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    config, taken = make_config("ghost", "release", **{"method.steps": steps}), []
    monkeypatch.setattr(proxies.Training, "turn", lambda self, count: taken.append(count) or Turn({"loss": 0.0}))
    prepare(config.method, make_clients(world, config), Ledger())
    assert sum(taken) == steps
    assert len(taken) <= 10
