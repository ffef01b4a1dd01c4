"""Stacked optimisers against K of torch's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_repro.data.graph import Graph
from fgl_repro.fl.optim import Optimiser, StackedAdam, StackedSGD, stacked
from fgl_repro.fl.protocol import Protocol
from fgl_repro.nn.models.model import Params
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

SCHEDULES = st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=8)
Fresh = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]


def follow(stack: Callable[[Params], Optimiser], single: Fresh, schedule: list[list[bool]]) -> None:
    """Step both by the same gradients; a resting client's weights must stay put to the bit."""
    rng = torch.Generator().manual_seed(0)
    start = {"w": torch.randn(3, 4, 2, generator=rng), "b": torch.randn(3, 2, generator=rng)}
    ours = {name: value.clone() for name, value in start.items()}
    optimiser = stack(ours)
    theirs = [[torch.nn.Parameter(value[k].clone()) for value in start.values()] for k in range(3)]
    each = [single(params) for params in theirs]
    for active in schedule:
        grads = [torch.randn(value.shape, generator=rng) for value in start.values()]
        before = {name: value.clone() for name, value in ours.items()}
        optimiser.step(grads, None if all(active) else np.array(active))
        for k in range(3):
            if active[k]:
                for param, grad in zip(theirs[k], grads, strict=True):
                    param.grad = grad[k].clone()
                each[k].step()
            else:
                assert all(torch.equal(ours[name][k], before[name][k]) for name in ours)
    for t, value in enumerate(ours.values()):
        expected = torch.stack([params[t].detach() for params in theirs])
        torch.testing.assert_close(value, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("kind", "momentum"), [("adam", 0.0), ("sgd", 0.9)])
def test_shared_moments_are_those_of_one_optimiser_that_moves_clients_in_turn(
    toy_graph: Graph, kind: str, momentum: float
) -> None:
    """Two rounds of two epochs against one of torch's optimisers, whose tensor is every client's in its turn."""
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    rules = {"optimiser": kind, "momentum": momentum, "moments": "shared", "rounds": 2, "local_epochs": 2}
    overrides = {f"protocol.{name}": value for name, value in rules.items()}
    config = make_config("local", "paper", **overrides, **{"model.dropout": 0.0})
    ours = federate(config, world, torch.device("cpu"))[0].last

    clients = make_clients(world, config)
    step, lr, decay = next(clients.steps(1)), config.protocol.lr, config.protocol.weight_decay
    kept = [[p[k].detach().clone() for p in clients.params.values()] for k in range(3)]
    one = [torch.nn.Parameter(value.clone()) for value in kept[0]]
    sgd = torch.optim.SGD(one, lr=lr, weight_decay=decay, momentum=momentum)
    optimiser = torch.optim.Adam(one, lr=lr, weight_decay=decay) if kind == "adam" else sgd
    for k in [0, 1, 2, 0, 1, 2]:
        for param, value in zip(one, kept[k], strict=True):
            param.data.copy_(value)
        for _ in range(2):
            joint = {n: torch.stack([p] * 3) for n, p in zip(clients.params, one, strict=True)}
            optimiser.zero_grad()
            step.task_loss(clients.model(joint, step.view))[k].backward()
            optimiser.step()
        kept[k] = [param.detach().clone() for param in one]
    for t, value in enumerate(ours.values()):
        torch.testing.assert_close(value, torch.stack([own[t] for own in kept]), atol=1e-5, rtol=1e-4)


def test_a_fleets_shared_moments_go_on_to_clients_of_the_same_architecture() -> None:
    """Clients 0 and 2 have one tensor each, client 1 another; one of torch's Adams for each of the two."""
    rng = torch.Generator().manual_seed(0)
    owners = [np.array([0, 2]), np.array([1])]
    params = {"0.w": torch.randn(2, 3, generator=rng), "1.w": torch.randn(1, 4, generator=rng)}
    kept = {k: params[f"{c}.w"][i].clone() for c, own in enumerate(owners) for i, k in enumerate(own)}
    optimiser = StackedAdam(params, 0.1, owners=owners).passed_on()
    theirs = [torch.nn.Parameter(kept[c].clone()) for c in (0, 1)]
    adams = [torch.optim.Adam([one], lr=0.1) for one in theirs]
    for k in (0, 1, 2, 2, 0, 1):
        grads = [torch.randn(value.shape, generator=rng) for value in params.values()]
        optimiser.step(grads, np.arange(3) == k)
        c = k % 2
        theirs[c].data.copy_(kept[k])
        theirs[c].grad = grads[c][k // 2].clone()
        adams[c].step()
        kept[k] = theirs[c].detach().clone()
    for k, value in kept.items():
        torch.testing.assert_close(params[f"{k % 2}.w"][k // 2], value)


@given(SCHEDULES)
@settings(max_examples=25)
def test_adam_is_k_adams_that_may_rest(schedule: list[list[bool]]) -> None:
    """Whatever the pattern of activity, each client's weights are those of its own torch.optim.Adam."""
    follow(
        lambda params: StackedAdam(params, 0.1, 0.01),
        lambda own: torch.optim.Adam(own, lr=0.1, weight_decay=0.01),
        schedule,
    )


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@given(schedule=SCHEDULES)
@settings(max_examples=25)
def test_sgd_is_k_sgds_that_may_rest(momentum: float, schedule: list[list[bool]]) -> None:
    follow(
        lambda params: StackedSGD(params, 0.1, 0.01, momentum),
        lambda own: torch.optim.SGD(own, lr=0.1, weight_decay=0.01, momentum=momentum),
        schedule,
    )


def test_the_protocol_says_which() -> None:
    params = {"w": torch.zeros(2, 3)}
    adam = stacked(params, Protocol(name="p", lr=0.5, weight_decay=0.25))
    assert isinstance(adam, StackedAdam)
    assert (adam.lr, adam.weight_decay) == (0.5, 0.25)
    sgd = stacked(params, Protocol(name="p", optimiser="sgd", momentum=0.75), weight_decay=0.125)
    assert isinstance(sgd, StackedSGD)
    assert (sgd.momentum, sgd.weight_decay) == (0.75, 0.125)


@pytest.mark.parametrize(("kind", "momentum"), [("adam", 0.0), ("sgd", 0.9)])
@pytest.mark.parametrize("moments", ["kept", "each_round"])
def test_moments_outlive_a_round_or_begin_anew(toy_graph: Graph, kind: str, momentum: float, moments: str) -> None:
    """Three rounds of two steps against K of torch's optimisers, made once or in every round."""
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    rules = {"optimiser": kind, "momentum": momentum, "moments": moments, "rounds": 3, "local_epochs": 2}
    overrides = {f"protocol.{name}": value for name, value in rules.items()}
    config = make_config("local", "paper", **overrides, **{"model.dropout": 0.0})
    ours = federate(config, world, torch.device("cpu"))[0].last

    clients = make_clients(world, config)
    step, lr, decay = next(clients.steps(1)), config.protocol.lr, config.protocol.weight_decay

    def fresh() -> list[torch.optim.Optimizer]:
        if kind == "adam":
            return [torch.optim.Adam(own, lr=lr, weight_decay=decay) for own in singles]
        return [torch.optim.SGD(own, lr=lr, weight_decay=decay, momentum=momentum) for own in singles]

    singles = [[torch.nn.Parameter(p[k].detach().clone()) for p in clients.params.values()] for k in range(3)]
    optimisers = fresh()
    for number in range(3):
        if number and moments == "each_round":
            optimisers = fresh()
        for _ in range(2):
            joint = {name: torch.stack([own[t] for own in singles]) for t, name in enumerate(clients.params)}
            loss = step.task_loss(clients.model(joint, step.view))
            for optimiser in optimisers:
                optimiser.zero_grad()
            loss.sum().backward()
            for optimiser in optimisers:
                optimiser.step()
    for t, value in enumerate(ours.values()):
        expected = torch.stack([own[t].detach() for own in singles])
        torch.testing.assert_close(value, expected, atol=1e-5, rtol=1e-4)


def test_a_part_keeps_its_moments_as_the_whole_does(toy_graph: Graph) -> None:
    """Methods whose parts step in turn ask for them in every round: one optimiser a part, or a new one each time."""
    world = worlds.build("plain", toy_graph, "metis", 3)
    for moments, kept in (("kept", True), ("each_round", False)):
        clients = make_clients(world, make_config("local", "paper", **{"protocol.moments": moments}))
        name, value = next(iter(clients.params.items()))
        first = clients.optimiser_of("body", {name: value})
        assert (clients.optimiser_of("body", {name: value}) is first) == kept
        assert clients.optimiser_of("head", {name: value}) is not first
