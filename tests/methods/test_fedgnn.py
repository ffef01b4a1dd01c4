"""FedGNN: mean gradients, widened graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.methods.fedgnn import widened
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


@pytest.fixture
def shared(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "overlap", 5)


def test_fedgnn_takes_one_step_with_the_mean_gradient(world: World) -> None:
    config = make_config("fedgnn", "gradients", **{"model.dropout": 0.0})
    clients = make_clients(world, config)
    method, step = config.method, next(clients.steps(1))
    state = method.state(clients)
    loss = step.task_loss(clients.logits(step))
    joint = (loss * clients.samples).sum() / clients.samples.sum()
    expected = torch.autograd.grad(joint, clients.params["W2"])[0].sum(0)
    method.fit(clients, state, 0, 1)
    down = method.aggregate(clients, state, method.upload(clients, state))
    torch.testing.assert_close(down.gradients["W2"][1], expected)  # type: ignore[attr-defined]
    trained = federate(config, world, CPU)[0].last
    assert all(torch.equal(value[0], value[2]) for value in trained.values()), "one model for all"


def test_fedgnn_sees_what_others_hold_of_shared_nodes(shared: World, world: World) -> None:
    (wider, own_nodes), graph = widened(shared.graph), shared.graph
    held = {(graph.node[i], graph.node[j]) for i, j in zip(*graph.adjacency.nonzero(), strict=True)}
    for k in range(5):
        own = set(graph.node[graph.ptr[k] : graph.ptr[k + 1]])
        around = {j for i, j in held if i in own}
        assert set(wider.node[wider.ptr[k] : wider.ptr[k + 1]]) == own | around
    assert wider.num_nodes > graph.num_nodes
    assert np.array_equal(wider.node[own_nodes], graph.node)
    assert np.array_equal(wider.owner[own_nodes], graph.owner)
    alone, _ = widened(world.graph)
    assert np.array_equal(alone.node, world.graph.node), "clients without common nodes gain nothing"
    assert (alone.adjacency != world.graph.adjacency).nnz == 0
