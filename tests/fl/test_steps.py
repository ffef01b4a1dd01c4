"""Local steps: all rows or batches, and teachers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import UnionGraph
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.optim import StackedAdam
from fgl_repro.fl.rounds import train
from fgl_repro.fl.steps import LocalStep, Step, descend
from fgl_repro.nn.graphs import of_graphs
from fgl_repro.nn.view import Views
from support import worlds
from support.isolation import make_clients

CPU = torch.device("cpu")


def test_batches_of_everything_are_full_batches(toy_graph: Graph) -> None:
    """A batch no client can fill is one step on all its rows, teacher included; without dropout, the same numbers."""
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    for method in ("fedavg", "fedntd", "fedgcn"):
        curves = []
        for size in (0, 10_000):
            small = {"protocol.batch": size, "protocol.rounds": 4, "protocol.local_epochs": 2}
            small |= {"model.hidden": 8, "model.dropout": 0.0}
            config = configs.build(small, dataset="cora", method=method, clients=3)
            curves.append(train(config.method, make_clients(world, config)).curves["loss"])
        assert curves[0] == pytest.approx(curves[1], abs=1e-5)


def test_batches_cover_once_and_teachers_follow(toy_graph: Graph) -> None:
    """floor(n_k / size) steps a client, no row twice, and each row meets its own teacher."""
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    world = replace(world, train=world.train[:-6])
    config = configs.build({"protocol.batch": 4, "model.hidden": 8}, dataset="cora", method="fedntd", clients=3)
    clients = make_clients(world, config)
    teacher = clients.teacher()
    flat = teacher.logits.flatten(0, 1)[teacher.view.slots]
    seen: list[np.ndarray] = []
    for step in clients.steps(1):
        assert step.batch is not None
        assert step.first == (not seen)
        assert not step.view.dense.kept, "laid out for many steps, used once"
        ours = teacher.of(step).flatten(0, 1)[step.view.slots]
        torch.testing.assert_close(ours, flat[np.searchsorted(world.train, step.batch.rows)])
        assert set(world.graph.owner[step.batch.rows]) == set(np.flatnonzero(step.active))
        seen.append(step.batch.rows)
    rows = np.concatenate(seen)
    assert len(np.unique(rows)) == len(rows)
    sizes = np.bincount(world.graph.owner[world.train], minlength=3)
    assert np.array_equal(np.bincount(world.graph.owner[rows], minlength=3), 4 * (sizes // 4))
    assert clients.inputs.train.mask.sum() == len(world.train)
    assert clients.inputs.train.dense.kept


@pytest.mark.parametrize(
    ("model", "more"), [("auto", {}), ("auto", {"protocol.batch": 8}), ("sign", {"protocol.moments": "shared"})]
)
def test_a_teachers_first_layer_serves_the_first_step_alone(
    toy_graph: Graph, model: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It spares a layer and changes nothing: later steps find other weights, clients in turn have no step together."""
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    rules = {"protocol.local_epochs": 3, "protocol.rounds": 2, "model.hidden": 8}
    config = configs.build({**rules, **more}, dataset="cora", method="fedntd", clients=3, model=model)
    handed_on = train(config.method, make_clients(world, config))
    plain = Clients.logits
    monkeypatch.setattr(Clients, "logits", lambda self, step, teacher=None: plain(self, step))
    computed = train(config.method, make_clients(world, config))
    assert handed_on.curves == computed.curves
    assert all(torch.equal(value, computed.last[name]) for name, value in handed_on.last.items())


def test_steps_on_everything_are_epochs(toy_graph: Graph) -> None:
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    found = []
    for steps, epochs in ((3, 1), (0, 3)):
        rules = {"protocol.steps": steps, "protocol.local_epochs": epochs, "protocol.rounds": 2, "model.hidden": 8}
        config = configs.build(rules, dataset="cora", method="fedavg", clients=3)
        found.append(train(config.method, make_clients(world, config)))
    for name, value in found[0].last.items():
        assert torch.equal(value, found[1].last[name]), name


@pytest.mark.parametrize("method", ["feded", "fedlog"])
def test_the_protocol_counts_the_steps_of_batches(toy_graph: Graph, method: str) -> None:
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    size = {"fedlog": "method.batch", "feded": "protocol.batch"}[method]
    config = configs.build({"protocol.steps": 5, size: 8}, dataset="cora", method=method, clients=3)
    clients = make_clients(world, config)
    taken = clients.steps(2, batches=getattr(config.method.state(clients), "batches", None))
    assert [None if step.active is None else step.active.all() for step in taken] == [True] * 10


def test_numbers_are_learnt_by_the_mean_of_squared_errors() -> None:
    """Two clients with two and three graphs: the slot that the first client does not fill counts for nothing."""
    base = worlds.graph_set(3, 2, numbers=True)
    assert base.targets is not None
    owned = [np.arange(2), np.arange(3, 6)]
    step = LocalStep(None, of_graphs(Views(CPU), UnionGraph.induced(base, owned), np.arange(5), together=0))
    outputs = np.array([[3.0, -1.0, 9.0], [0.5, 2.0, -4.0]], dtype=np.float32)
    losses = step.task_loss(torch.from_numpy(outputs).unsqueeze(2))
    for k, own in enumerate(owned):
        expected = sum((outputs[k, i] - base.targets[graph]) ** 2 for i, graph in enumerate(own)) / len(own)
        assert losses[k].item() == pytest.approx(expected, rel=1e-5)


def test_a_resting_client_keeps_its_last_loss() -> None:
    weight = torch.ones(2, 1, requires_grad=True)
    steps = [Step(None), Step(np.array([True, False]))]
    values = iter([torch.tensor([3.0, 5.0]), torch.tensor([7.0, 9.0])])

    def loss(step: Step) -> torch.Tensor:
        return next(values) + 0 * weight.sum(1)

    assert descend(steps, loss, [StackedAdam({"w": weight}, lr=0.1)]).tolist() == [7, 5]


def test_what_a_loss_does_not_read_stays_as_it_is() -> None:
    read, unread = (torch.ones(2, 3, requires_grad=True) for _ in range(2))
    both = StackedAdam({"read": read, "unread": unread}, 0.1)
    descend([Step(None)] * 2, lambda step: (read**2).sum(1), [both])
    assert torch.equal(unread, torch.ones(2, 3))
    assert (read < 1).all()
