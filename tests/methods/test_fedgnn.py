"""FedGNN: mean gradients, widened graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fgl_repro.config import build
from fgl_repro.core.errors import UserError
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


def test_a_common_step_has_no_turns(world: World) -> None:
    """One Adam that clients pass on would take the same gradient from another state for each of them."""
    shared = {"protocol.moments": "shared", "model.dropout": 0.0}
    with pytest.raises(UserError, match=r"method=fedgnn with method\.variant=gradients.*: set protocol\.moments"):
        make_config("fedgnn", "gradients", **shared)
    for moments in ("kept", "each_round"):
        config = make_config("fedgnn", "gradients", **shared | {"protocol.moments": moments, "protocol.rounds": 3})
        trained = federate(config, world, CPU)[0].last
        assert all(torch.equal(value[0], value[2]) for value in trained.values()), moments
    federate(make_config("fedgnn", "weights", **shared), world, CPU)


def test_links_that_a_client_holds_back_come_to_it_from_nobody(toy_graph: Graph) -> None:
    world = worlds.build("links", toy_graph, "overlap", 5, validation=0.1, test=0.2)
    assert world.links is not None
    held = np.concatenate([part.nodes[:, part.linked] for part in vars(world.links).values()], axis=1)
    others = {(a, b) for a, b in world.graph.node[np.stack(world.graph.adjacency.nonzero())].T}
    assert any((a, b) in others for a, b in world.graph.node[held].T), "some client has one of them"
    graph, own = widened(world.graph)
    assert graph.adjacency[own[held[0]], own[held[1]]].sum() == 0


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


def test_fedgnn_counts_the_features_of_what_widens_once(shared: World) -> None:
    """Four bytes a number: sixteen of every node that a client did not have."""
    config = make_config("fedgnn", "weights", **{"partitioner.clients": 5})
    added = widened(shared.graph)[0].num_nodes - shared.graph.num_nodes
    ledger = federate(config, shared, CPU)[0].ledger.as_dict()
    assert ledger["setup"] == {"down": {"features": round(4 * 16 * added / 5)}}


def test_fedgnns_clients_have_one_adam_in_all_rounds(world: World) -> None:
    """Torch's Adam on one model, by the mean gradient of all training nodes, against three rounds."""
    config = make_config("fedgnn", "gradients", **{"model.dropout": 0.0})
    clients, plain, rules = make_clients(world, config), make_clients(world, config), config.protocol
    method, step = config.method, next(plain.steps(1))
    state, single = method.state(clients), {n: v[0].detach().clone().requires_grad_() for n, v in plain.params.items()}
    adam = torch.optim.Adam(single.values(), rules.lr, weight_decay=rules.weight_decay)
    for number in range(3):
        method.fit(clients, state, number, 1)
        method.receive(clients, state, method.aggregate(clients, state, method.upload(clients, state)))
        adam.zero_grad()
        loss = step.task_loss(plain.model({n: v.expand(3, *v.shape) for n, v in single.items()}, step.view))
        ((loss * plain.samples).sum() / plain.samples.sum()).backward()
        adam.step()
    for name, value in single.items():
        torch.testing.assert_close(clients.params[name][1], value, rtol=1e-4, atol=1e-5)


def test_fedgnn_looks_at_its_own_nodes_in_the_wider_graph(shared: World) -> None:
    """Labels of any rows are those of the clients' own graphs, and so is how many each client has."""
    clients = make_clients(shared, make_config("fedgnn", "weights", **{"partitioner.clients": 5}))
    for rows in (shared.train, np.arange(shared.graph.num_nodes)):
        view = clients.inputs.cut(clients.views, rows)
        assert np.array_equal(view.labels.flatten()[view.slots].numpy(), shared.graph.labels[rows])
        assert view.counts.tolist() == np.bincount(shared.graph.owner[rows], minlength=5).tolist()


def test_the_few_neighbours_that_tests_draw_are_of_the_wider_graph(shared: World) -> None:
    config = build({"model.hidden": 8, "model.test_fanout": 2}, dataset="cora", method="fedgnn", model="graphsage")
    clients, rows = make_clients(shared, config), shared.validation.rows
    graph, own = widened(shared.graph)
    wider, alone = (np.diff(union.adjacency.indptr) for union in (graph, shared.graph))
    found = clients.validation.degree.flatten()[clients.validation.slots].numpy()  # type: ignore[attr-defined]
    assert np.array_equal(found, wider[own[rows]])
    assert not np.array_equal(found, alone[rows])
