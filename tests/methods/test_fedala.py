"""FedALA: the learned mix against a plain loop, who learns how long, and whose models answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import Graph
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Ledger, Weights
from fgl_repro.fl.rounds import prepare, train
from fgl_repro.fl.steps import LocalStep
from fgl_repro.methods.fedala import FedALA, State
from fgl_repro.nn.view import Views
from support import worlds
from support.isolation import make_clients, tampered_graphs
from support.runs import config_of_graphs, make_config

CPU = torch.device("cpu")
Params = dict[str, torch.Tensor]
ALIKE = {"model.dropout": 0.0, "method.most": 40, "method.window": 3, "method.spread": 0.004, "method.rate": 20.0}


def learned(client: int, clients: Clients, method: FedALA, before: Params, sent: Params) -> tuple[Params, int]:
    """W of one client by itself, as the paper has it: gradient at the mix, times the difference, batch after batch."""
    world = clients.world.of_clients(np.array([client]))
    count = int(method.part * len(world.train))
    first = numpy_rng(f"fedala/{client}", clients.seed).integers(len(world.train) - count + 1)
    rows, size = world.train[first : first + count], clients.protocol.batch or count
    upper = list(before)[-method.tensors :]
    fixed = {name: sent[name][client : client + 1] for name in before}
    own, far = ({name: p[name][client : client + 1] for name in upper} for p in (before, sent))
    weights = {name: torch.ones_like(own[name]) for name in upper}
    losses: list[float] = []
    while len(losses) < method.most:
        for start in range(0, count, size):
            mixed = {n: (own[n] + (far[n] - own[n]) * weights[n]).requires_grad_() for n in upper}
            view = clients.model.view(Views(CPU), world.graph, rows[start : start + size])
            loss = LocalStep(None, view).task_loss(clients.model(fixed | mixed, view))
            grads = torch.autograd.grad(loss.sum(), list(mixed.values()), materialize_grads=True)
            for name, grad in zip(upper, grads, strict=True):
                weights[name] = (weights[name] - method.rate * grad * (far[name] - own[name])).clamp(0, 1)
        losses.append(float(loss.detach()))
        if len(losses) > method.window and np.std(losses[-method.window :]) < method.spread:
            break
    return weights, len(losses)


def trained_apart(clients: Clients, method: FedALA) -> tuple[State, Params, Weights]:
    """Clients with models of their own, what these are, and what the server made of the very ones."""
    state, _ = prepare(method, clients, Ledger())
    method.fit(clients, state, 0, 20)
    before = {name: value.detach().clone() for name, value in clients.params.items()}
    with torch.no_grad():
        made = method.aggregate(clients, state, Weights(before))
    assert isinstance(made, Weights)
    return state, before, made


@pytest.mark.parametrize("tensors", [2, 0], ids=["classifier", "all"])
@pytest.mark.parametrize("unit", ["node", "graph"])
def test_weights_are_those_of_a_plain_loop(unit: str, tensors: int, toy_graph: Graph) -> None:
    # a step on all weights moves what the next one starts from, and rounding grows with it: there are few of them
    overrides = ALIKE if tensors else {**ALIKE, "method.tensors": 0, "method.rate": 1.0, "method.most": 2}
    if unit == "node":
        config = make_config("fedala", "release", **overrides)
        clients = make_clients(worlds.build("plain", toy_graph, "metis", 3), config)
    else:
        config = config_of_graphs("fedala", "release", **overrides)
        clients = make_clients(worlds.of_graphs(worlds.graph_set()), config)
    method = config.method
    assert isinstance(method, FedALA)
    state, before, made = trained_apart(clients, method)
    method.receive(clients, state, made)
    epochs = []
    for k in range(3):
        weights, took = learned(k, clients, method, before, made.weights)
        epochs.append(took)
        for name, expected in weights.items():
            torch.testing.assert_close(state.weights[name][k : k + 1].detach(), expected, rtol=1e-4, atol=1e-4)
            own, sent = before[name][k], made.weights[name][k]
            torch.testing.assert_close(clients.params[name][k].detach(), own + (sent - own) * state.weights[name][k])
    assert any(bool((weight < 1).any()) for weight in state.weights.values())
    assert tensors == 0 or len(set(epochs)) > 1, (
        "all clients learned equally long: the test says nothing of those that wait"
    )
    for name in set(before) - set(state.weights):
        assert torch.equal(clients.params[name].detach(), made.weights[name])


def test_after_the_first_time_an_epoch_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of_graphs("fedala", "release", **{"method.most": 7, "method.spread": 0.0})
    clients, method = make_clients(worlds.of_graphs(worlds.graph_set()), config), config.method
    assert isinstance(method, FedALA)
    state, _, made = trained_apart(clients, method)
    calls: list[object] = []
    network, batches = clients.model, len(method.epoch(clients, state))

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(network, name)

        def __call__(self, *given: Any) -> torch.Tensor:
            calls.append(given[2] if len(given) > 2 else None)
            return network(*given)

    monkeypatch.setattr(clients, "model", Counting())
    method.receive(clients, state, made)
    assert len(calls) == 7 * batches
    method.receive(clients, state, Weights({name: value + 1 for name, value in made.weights.items()}))
    assert len(calls) == 8 * batches
    assert all(isinstance(draws, torch.Generator) for draws in calls), "a mix is learned with dropout"


def test_nobody_hears_how_long_another_one_learns() -> None:
    """With dropout, bit for bit, in the round of the first learning and in the next."""
    config = config_of_graphs("fedala", "release", **{"method.most": 40, "method.spread": 0.3, "method.window": 3})
    method, found = config.method, []
    world = worlds.of_graphs(worlds.graph_set())
    for each in (world, tampered_graphs(world, 0)):
        clients = make_clients(each, config)
        state, _ = prepare(method, clients, Ledger())
        first = {name: value.detach().clone() for name, value in clients.params.items()}
        for _ in range(2):
            method.fit(clients, state, 0, 2)
            method.receive(clients, state, Weights(first))
        method.fit(clients, state, 0, 2)
        found.append({name: value.detach() for name, value in clients.params.items()})
    one, other = found
    assert any(not torch.equal(one[name][0], other[name][0]) for name in one)
    for name, value in one.items():
        assert torch.equal(value[1:], other[name][1:])


def test_the_mix_answers_where_the_servers_model_is_judged() -> None:
    """The classifier is each client's own, all else the same for all; the last round's mix is judged, too."""
    config = config_of_graphs("fedala", "release", **{"protocol.rounds": 3})
    assert config.protocol.judged == "server"
    training = train(config.method, make_clients(worlds.of_graphs(worlds.graph_set()), config))
    for name, value in training.last.items():
        assert torch.equal(value, value[:1].expand_as(value)) == (name not in ("W6", "b6"))
    assert training.curves["mixing"][0] == 1
    assert training.curves["mixing"][2] < 1


def test_a_part_is_a_share() -> None:
    with pytest.raises(UserError, match=r"method\.part=1\.5 is out of range: give at most 1"):
        config_of_graphs("fedala", "release", **{"method.part": 1.5})
