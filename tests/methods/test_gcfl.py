"""GCFL: when clusters are split, where, and what they average."""

from __future__ import annotations

import pytest
import torch

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.messages import Weights
from fgl_repro.methods.gcfl import GCFL, State, halves
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def test_minimum_cut_separates_two_groups() -> None:
    near = torch.full((5, 5), 0.1)
    near[:2, :2] = near[2:, 2:] = 2.0
    assert sorted(map(sorted, halves(near))) == [[0, 1], [2, 3, 4]]


def test_gcfl_splits_clients_that_pull_apart_and_averages_inside_clusters(world: World) -> None:
    config = make_config("gcfl", "release", **{"method.warmup": 0})
    clients, method = make_clients(world, config), config.method
    assert isinstance(method, GCFL)
    state = method.state(clients)
    with torch.no_grad():  # weights that are alike say nothing of updates that are not
        for value in clients.params.values():
            value += 100.0
    method.receive(clients, state, Weights(clients.params))
    with torch.no_grad():
        for value in clients.params.values():
            value += torch.tensor([1.0, -1.0, 1.1]).view(3, *[1] * (value.dim() - 1))
    down = method.aggregate(clients, state, Weights(clients.params)).tensors()
    assert sorted(state.clusters) == [[0, 2], [1]]
    torch.testing.assert_close(down["W1"][1], clients.params["W1"][1])
    torch.testing.assert_close(down["W1"][0], (clients.params["W1"][0] + clients.params["W1"][2]) / 2)
    torch.testing.assert_close(down["W1"][0], down["W1"][2])


def test_gcfl_leaves_a_cluster_that_agrees() -> None:
    updates = torch.randn(4, 6).abs() + 1
    assert GCFL().divided([0, 1, 2, 3], updates) == [[0, 1, 2, 3]]
    assert GCFL().divided([0, 1], torch.tensor([[1.0], [-1.0]])) == [[0, 1]]
    assert State([[0]], torch.zeros(1, 1)).rounds == 0
