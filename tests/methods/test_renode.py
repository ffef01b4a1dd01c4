"""ReNode's weights against the dense inverse of its paper, client by client."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.rounds import prepare
from fgl_repro.methods.renode import ReNode, weights
from fgl_repro.nn.adjacency import gcn_norm
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import make_config


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def by_hand(world: World, k: int, teleport: float, lowest: float, scale: float) -> np.ndarray:
    graph = world.graph
    start, end = graph.ptr[k], graph.ptr[k + 1]
    around = gcn_norm(graph.adjacency[start:end, start:end]).toarray().astype(float)
    pi = teleport * np.linalg.inv(np.eye(end - start) - (1 - teleport) * around)
    own = world.train[graph.owner[world.train] == k] - start
    labels = graph.labels[own + start]
    influence = {c: pi[own[labels == c]].mean(0) for c in np.unique(labels)}
    conflict = [sum(pi[u] @ influence[c] for c in influence if c != y) for u, y in zip(own, labels, strict=True)]
    rank = np.empty(len(own))
    rank[np.argsort(np.round(conflict, 12), kind="stable")] = np.arange(len(own))
    return lowest + 0.5 * scale * (1 + np.cos(np.pi * rank / (len(own) - 1)))


@pytest.mark.parametrize(("teleport", "lowest", "scale"), [(0.15, 0.5, 1.0), (0.5, 0.25, 1.5), (1.0, 0.75, 0.5)])
def test_weights_are_those_of_the_dense_inverse(world: World, teleport: float, lowest: float, scale: float) -> None:
    found = weights(world, teleport, lowest, scale)
    owner = world.graph.owner[world.train]
    for k in range(3):
        np.testing.assert_allclose(found[owner == k], by_hand(world, k, teleport, lowest, scale), atol=1e-6)
        assert found[owner == k].mean() == pytest.approx(lowest + scale / 2)


def test_the_loss_is_the_weighted_mean(world: World) -> None:
    config = make_config("renode", "fedavg", **{"model.dropout": 0.0})
    clients, method = make_clients(world, config), config.method
    state, _ = prepare(method, clients, Ledger())
    step = next(clients.steps(1))
    loss, logits = method.objective(clients, state, 0)(step), clients.logits(step)
    found, owner = weights(world, 0.15, 0.5, 1.0), world.graph.owner[world.train]
    for k in range(3):
        own = logits[k, : int(step.view.counts[k])]
        wrong = F.cross_entropy(own, step.view.labels[k, : len(own)], reduction="none")
        torch.testing.assert_close(loss[k], (torch.from_numpy(found[owner == k]).float() * wrong).mean())


def test_fine_tuning_weighs_as_training_does_for_those_who_are_left_too(world: World) -> None:
    """At a rate of 0 models stay, so that the loss of a turn is that of the models as they are."""
    still = {"protocol.fine_tuning": 2, "protocol.check_every": 1, "protocol.fine_tuning_lr": 0.0}
    config = make_config("renode", "fedavg", **{**still, "model.dropout": 0.0})
    clients, method = make_clients(world, config), config.method
    state, _ = prepare(method, clients, Ledger())
    rng = torch.Generator().manual_seed(0)
    clients.load({name: torch.randn(value.shape, generator=rng) for name, value in clients.params.items()})
    view, losses = clients.inputs.train, []
    for k, logits in enumerate(clients.model(clients.trained, view).detach()):
        rows = int(view.counts[k])
        wrong = F.cross_entropy(logits[:rows], view.labels[k, :rows], reduction="none")
        losses.append(float((torch.from_numpy(by_hand(world, k, 0.15, 0.5, 1.0)).float() * wrong).mean()))
        assert abs(losses[-1] - float(wrong.mean())) > 1e-3
    (phase,) = method.closing(clients, state)
    assert phase.turn(0, np.ones(3, dtype=bool)).values["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    some = phase.turn(1, np.array([True, False, True])).values["loss"]
    assert some == pytest.approx((losses[0] + losses[2]) / 2, rel=1e-5)


def test_one_training_node_weighs_one(world: World) -> None:
    one = world.train[world.graph.owner[world.train] == 0][:1]
    alone = World(world.graph, one, world.validation, world.probes, world.missing)
    alone.class_counts[1:] = 0
    np.testing.assert_array_equal(weights(alone, 0.15, 0.5, 1.0), [1.0])


def test_local_clients_send_nothing(world: World) -> None:
    device = torch.device("cpu")
    tuned = {"protocol.fine_tuning": 4, "protocol.check_every": 2}
    assert federate(make_config("renode", "local"), world, device)[0].ledger.as_dict() == {}
    sent = federate(make_config("renode", "fedavg", **tuned), world, device)[0]
    assert set(sent.ledger.as_dict()["rounds"]) == {"up", "down"}
    assert "fine_tuning" in sent.phases


def test_settings_out_of_range_are_refused() -> None:
    for change in ({"teleport": 0.0}, {"lowest": -1.0}):
        with pytest.raises(UserError, match=rf"method\.{next(iter(change))}="):
            ReNode(**change)
