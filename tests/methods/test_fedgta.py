"""FedGTA against a plain rewrite client by client, and its port against PyG's label propagation."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import LabelPropagation
from torch_geometric.utils import from_scipy_sparse_matrix

from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.clients import Clients
from fgl_repro.methods.fedgta import FedGTA, State
from fgl_repro.nn.adjacency import gcn_norm
from support import worlds
from support.isolation import make_clients
from support.runs import make_config


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def trained(world: World, variant: str, **settings: object) -> tuple[FedGTA, Clients, State]:
    config = make_config("fedgta", variant, **{f"method.{name}": value for name, value in settings.items()})
    clients, method = make_clients(world, config), config.method
    assert isinstance(method, FedGTA)
    state = method.state(clients)
    method.fit(clients, state, 0, 5)
    return method, clients, state


def predicted(clients: Clients, state: State) -> Tensor:
    with torch.no_grad():
        return torch.softmax(clients.model(clients.trained, state.view), -1).flatten(0, 1)[state.view.slots]


def by_hand(method: FedGTA, world: World, said: Tensor, k: int) -> tuple[Tensor, float]:
    """Moments and confidence of client k from the softmax of all nodes, as its authors have them."""
    graph = world.graph
    own = slice(graph.ptr[k], graph.ptr[k + 1])
    block = graph.adjacency[own, own]
    around, labels = torch.from_numpy(gcn_norm(block).toarray()), torch.from_numpy(graph.labels[own])
    trains = torch.from_numpy(np.isin(np.arange(graph.num_nodes)[own], world.train))
    truth = F.one_hot(labels, graph.base.num_classes).float()
    start = torch.where(trains[:, None], truth, said[own])
    now, steps = start.clone(), []
    for _ in range(method.steps):
        now = method.keep * (around @ now) + (1 - method.keep) * start
        now[trains] += truth[trains]
        steps.append(now.clone())
    moments = []
    for z in steps if method.variant == "paper" else steps[-1:]:
        u = torch.where(trains[:, None], truth, torch.softmax(z, 1))
        moments += [(u**p).mean(0) for p in range(1, method.moments + 1)]
        if method.central:
            moments += [((u - u.mean(0)) ** p).mean(0) for p in range(1, method.moments + 1)]
    flat = torch.where(trains[:, None], truth, torch.softmax(now / method.temperature, 1))
    sure = truth.shape[1] / math.e + (flat * torch.log(flat + 1e-8)).sum(1)
    return torch.cat(moments), float((torch.from_numpy(np.diff(block.indptr)) * sure).sum())


@pytest.mark.parametrize(("variant", "central"), [("release", True), ("release", False), ("paper", True)])
def test_uploads_are_those_of_a_plain_rewrite(world: World, variant: str, central: bool) -> None:
    method, clients, state = trained(world, variant, moments=3, central=central, keep=0.8)
    said = predicted(clients, state)
    with torch.no_grad():
        sent = method.upload(clients, state)
    for k in range(3):
        moments, confidence = by_hand(method, world, said, k)
        torch.testing.assert_close(sent.moments[k], moments, atol=1e-6, rtol=1e-4)
        assert float(sent.confidence[k]) == pytest.approx(confidence, rel=1e-4)


def test_the_port_spreads_predictions_as_pyg_does(world: World) -> None:
    """Its moments are those of the last step, and a node's degree counts twice."""
    method, clients, state = trained(world, "openfgl", moments=3, keep=0.8)
    said = predicted(clients, state)
    edges, _ = from_scipy_sparse_matrix(world.graph.adjacency)
    theirs = LabelPropagation(method.steps, method.keep)(said, edges, state.trains)
    torch.testing.assert_close(method.spread(state, said)[-1], theirs, atol=1e-6, rtol=1e-5)
    with torch.no_grad():
        sent = method.upload(clients, state)
    degree, truth = (torch.from_numpy(a) for a in (np.diff(world.graph.adjacency.indptr), world.graph.labels))
    for k, (low, high) in enumerate(pairwise(world.graph.ptr)):
        trains, known = state.trains[low:high, None], F.one_hot(truth[low:high], theirs.shape[1]).float()
        u, v = (torch.where(trains, known, torch.softmax(theirs[low:high] / t, 1)) for t in (1, method.temperature))
        moments = [(u**p).mean(0) for p in (1, 2, 3)] + [((u - u.mean(0)) ** p).mean(0) for p in (1, 2, 3)]
        torch.testing.assert_close(sent.moments[k], torch.cat(moments), atol=1e-6, rtol=1e-4)
        sure = 2 * degree[low:high] * (theirs.shape[1] / math.e + (v * torch.log(v + 1e-8)).sum(1))
        assert float(sent.confidence[k]) == pytest.approx(float(sure.sum()), rel=1e-4)


def test_a_mean_is_of_those_alike_weighted_by_confidence(world: World) -> None:
    method, clients, state = trained(world, "release")
    with torch.no_grad():
        sent = method.upload(clients, state)
    sent.moments = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    sent.confidence = torch.tensor([1.0, 3.0, 2.0])
    down = method.aggregate(clients, state, sent).tensors()
    for name, theta in clients.params.items():
        torch.testing.assert_close(down[name][0], (theta[0] + 3 * theta[1]) / 4)
        torch.testing.assert_close(down[name][0], down[name][1])
        torch.testing.assert_close(down[name][2], theta[2])
    assert method.facts(clients, state) == {"accepted": [1.667]}
    method.threshold = 0.999  # more than the cosine of 0 and 1
    for name, value in method.aggregate(clients, state, sent).tensors().items():
        torch.testing.assert_close(value, clients.params[name])


def test_a_mean_of_clients_without_edges_alone_is_plain(world: World) -> None:
    method, clients, state = trained(world, "release")
    with torch.no_grad():
        sent = method.upload(clients, state)
    sent.moments = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    for confidence, first in (([0.0, 0.0, 0.0], [0.5, 0.5]), ([0.0, 3.0, 0.0], [0.0, 1.0])):
        sent.confidence = torch.tensor(confidence)
        down = method.aggregate(clients, state, sent).tensors()
        for name, theta in clients.params.items():
            torch.testing.assert_close(down[name][0], first[0] * theta[0] + first[1] * theta[1])
            torch.testing.assert_close(down[name][2], theta[2])


def test_bytes_grow_with_orders_and_classes(world: World) -> None:
    method, clients, state = trained(world, "release", moments=6)
    with torch.no_grad():
        sent = method.upload(clients, state).bytes_by_field()
    classes = world.graph.base.num_classes
    assert sent["moments"].tolist() == [2 * 6 * classes * 4] * 3
    assert sent["confidence"].tolist() == [4] * 3


def test_settings_out_of_range_are_refused() -> None:
    for change in ({"keep": 1.5}, {"keep": -0.5}, {"temperature": 0.0}, {"threshold": 1.0}, {"moments": 0}):
        name, value = next(iter(change.items()))
        with pytest.raises(UserError, match=f"{name}={value} is out of range: give"):
            FedGTA(**change)
