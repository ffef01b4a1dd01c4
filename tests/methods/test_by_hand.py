"""Method by method, the line that decides against numbers by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Ledger, Weights
from fgl_repro.fl.rounds import prepare
from fgl_repro.methods.fedgnn import FedGNN, widened
from fgl_repro.methods.fedlog import prompts, prototypes
from fgl_repro.methods.fedlog.method import FedLoG, Knowledge
from fgl_repro.methods.fedlog.training import LocalTraining, WarmUp
from fgl_repro.methods.fedpub import FedPub
from fgl_repro.methods.fedpub.method import Upload
from fgl_repro.methods.fedsageplus import generators
from fgl_repro.methods.fedsageplus.method import FedSagePlus
from fgl_repro.methods.fedsageplus.neighgen import NeighGen
from fgl_repro.methods.gcfl import GCFL
from fgl_repro.runs.execute import federate
from support.isolation import make_clients
from support.runs import make_config
from support.worlds import world_of

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return world_of("plain", toy_graph, 3, partitioner="metis")


def started(world: World, name: str, variant: str, **overrides: Any) -> tuple[Any, Clients, Any]:
    """Method, clients and state before round 0."""
    config = make_config(name, variant, **{"model.dropout": 0.0, **overrides})
    clients = make_clients(world, config)
    state, _ = prepare(config.method, clients, Ledger())
    return config.method, clients, state


def apart(clients: Clients) -> dict[str, Tensor]:
    """Moves every client's weights elsewhere; returns what they were."""
    before = {name: value.detach().clone() for name, value in clients.params.items()}
    with torch.no_grad():
        for value in clients.params.values():
            value += torch.tensor([0.1, 0.2, 0.4]).view(3, *[1] * (value.dim() - 1))
    return before


MEANS = {
    "fedavg": {"release": "alike", "paper": "by nodes"},
    "fedprox": {"release": "alike", "paper": "by nodes"},
    "fedper": {"release": "alike", "paper": "by nodes"},
    "fedala": {"release": "alike", "paper": "by nodes"},
    "fedgnn": {"weights": "by nodes"},
    "fedgcn": {"release": "alike", "paper": "alike"},
    "fedntd": {"paper": "by nodes"},
    "feded": {"fedlog": "by nodes", "fedvls": "by nodes"},
}
"""What the methods' cards say of the servers' means, by variant."""


@pytest.mark.parametrize(("name", "variant"), [(name, variant) for name, said in MEANS.items() for variant in said])
def test_means_weigh_clients_as_the_variant_says(name: str, variant: str, world: World) -> None:
    method, clients, state = started(world, name, variant)
    apart(clients)
    share = torch.ones(3) if MEANS[name][variant] == "alike" else clients.samples
    assert len(set(clients.samples.tolist())) > 1
    down = method.aggregate(clients, state, method.upload(clients, state)).tensors()
    expected = torch.einsum("k,k...->...", share / share.sum(), clients.params["W1"])
    for k in range(3):
        torch.testing.assert_close(down["W1"][k], expected)


def test_fedprox_adds_half_mu_times_the_squared_distance_from_what_was_received(world: World) -> None:
    method, clients, state = started(world, "fedprox", "paper", **{"method.mu": 0.5})
    loss, step = method.objective(clients, state, 1), next(clients.steps(1))
    before = apart(clients)
    moved = sum((clients.params[n] - before[n]).flatten(1).square().sum(1) for n in before)
    plain = step.task_loss(clients.logits(step))
    torch.testing.assert_close(loss(step), plain + 0.25 * moved)


@pytest.mark.parametrize(("name", "variant"), [("fedntd", "paper"), ("feded", "fedlog")])
def test_students_are_held_to_the_models_that_they_received(name: str, variant: str, world: World) -> None:
    """FedNTD: CE + beta tau^2 KL over the other classes; FedED: CE + lam times squared gaps at vacant ones."""
    own = {"method.beta": 0.7, "method.tau": 2.0} if name == "fedntd" else {"method.lam": 0.7}
    method, clients, state = started(world, name, variant, **own)
    step = next(clients.steps(1))
    apart(clients)  # teachers differ from client to client, and from what is trained on
    teacher, loss = clients.logits(step).detach(), method.objective(clients, state, 1)
    apart(clients)
    student, found = clients.logits(step).detach(), loss(replace(step, first=False))
    for k in range(3):
        rows, vacant = step.view.mask[k].bool(), clients.class_counts[k] == 0
        f, g, y = student[k][rows], teacher[k][rows], step.view.labels[k][rows]
        gaps = []
        for i in range(len(y)):
            others = [c for c in range(4) if c != y[i]]
            p, q = (torch.softmax(logits[i, others] / 2.0, 0) for logits in (g, f))
            kept = (f - g)[i, vacant].square()
            gaps.append(4 * (p * (p / q).log()).sum() if name == "fedntd" else kept.mean() if len(kept) else 0.0)
        expected = torch.nn.functional.cross_entropy(f, y) + 0.7 * sum(gaps) / len(y)
        assert sum(gaps) > 0 or not vacant.any()
        torch.testing.assert_close(found[k].detach(), expected, atol=1e-5, rtol=1e-4)


def test_fedgnn_knows_an_edge_once(toy_graph: Graph) -> None:
    graph, _ = widened(world_of("plain", toy_graph, 5, partitioner="overlap").graph)
    assert set(graph.adjacency.data) == {1.0}
    assert FedGNN().variant == "gradients"


def test_gcfl_waits_for_its_warmup(world: World) -> None:
    method, clients, state = started(world, "gcfl", "release", **{"method.warmup": 1, "method.ratio": 0.9})
    assert isinstance(method, GCFL)
    method.receive(clients, state, Weights(clients.params))
    with torch.no_grad():
        for value in clients.params.values():
            value += torch.tensor([1.0, -1.0, 1.1]).view(3, *[1] * (value.dim() - 1))
    method.aggregate(clients, state, Weights(clients.params))
    assert state.clusters == [[0, 1, 2]]
    method.aggregate(clients, state, Weights(clients.params))
    assert sorted(state.clusters) == [[0, 2], [1]]


def test_fedpub_on_paper_penalises_masks_and_has_no_anchor_in_round_0(world: World) -> None:
    method, clients, state = started(world, "fedpub", "paper", **{"method.l1": 0.1, "method.l2": 0.2})
    losses = [method.objective(clients, state, number) for number in (0, 1)]
    step, before = next(clients.steps(1)), apart(clients)
    with torch.no_grad():
        for mask in clients.personal.values():
            mask *= -0.5
    norm = sum(mask.abs().flatten(1).sum(1) for mask in clients.personal.values())
    moved = sum((clients.params[n] - before[n]).flatten(1).square().sum(1) for n in before)
    plain = step.task_loss(clients.logits(step))
    torch.testing.assert_close(losses[0](step), plain + 0.1 * norm)
    torch.testing.assert_close(losses[1](step), plain + 0.1 * norm + 0.2 * moved)


@pytest.mark.parametrize("variant", FedPub.variants)
def test_fedpub_uploads_the_product_on_paper_and_both_factors_in_the_release(variant: str, world: World) -> None:
    method, clients, state = started(world, "fedpub", variant)
    with torch.no_grad():
        clients.personal["M2"] *= 0.5
        sent = method.upload(clients, state)
    assert isinstance(sent, Upload)
    half = variant == "paper"
    torch.testing.assert_close(sent.weights["W2"], clients.params["W2"] * (0.5 if half else 1.0))
    assert (sent.masks is None) == half


@pytest.mark.parametrize("similarity", ["updates", "gradient"])
def test_fedpub_takes_changes_from_the_first_weights_on(similarity: str, world: World) -> None:
    _, clients, state = started(world, "fedpub", "release", **{"method.similarity": similarity})
    assert set(state.origin) == set(clients.params)
    for name, value in clients.params.items():
        assert torch.equal(state.origin[name], value)


def test_locsageplus_sends_nothing(world: World) -> None:
    config = make_config("locsageplus", "paper", **{"method.warmup": 1})
    training = federate(config, world, CPU)[0]
    assert training.ledger.as_dict() == {}


@pytest.mark.parametrize(("name", "hung"), [("locsageplus", True), ("fedsageplus", False)])
def test_releases_round_or_truncate_what_they_hang(
    name: str, hung: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dGen says 0.6 of every node."""
    monkeypatch.setattr(NeighGen, "count", lambda self, params, local, z: torch.full((len(z),), 0.6))
    config = make_config(name, "release", **{"method.warmup": 0, "method.generator_epochs": 0})
    clients = make_clients(world, config)
    assert isinstance(config.method, FedSagePlus)
    group = generators.GeneratorGroup(generators.GeneratorTraining(config.method, clients, np.zeros((0, 2))), range(3))
    parents, _ = group.mend()
    assert len(parents) == (len(group.impaired.local.nodes) if hung else 0)


def test_a_shared_generator_is_one_for_all(world: World) -> None:
    config = make_config("fedsageplus", "paper", **{"method.shared": True})
    clients = make_clients(world, config)
    group = generators.GeneratorGroup(generators.GeneratorTraining(config.method, clients, np.zeros((4, 2))), range(3))
    assert not torch.equal(group.params["F1"][0], group.params["F1"][1])
    group.epoch(0)
    for value in group.params.values():
        torch.testing.assert_close(value, value[:1].expand_as(value))


@pytest.mark.parametrize("variant", FedLoG.variants)
def test_fedlog_reports_shares_of_all_nodes_on_paper_and_of_training_nodes_in_the_release(
    variant: str, world: World
) -> None:
    method, clients, _ = started(world, "fedlog", variant, **{"method.warmup": 0})
    graph, counted = world.graph, np.arange(world.graph.num_nodes) if variant == "paper" else world.train
    counts = np.zeros((3, 4))
    np.add.at(counts, (graph.owner[counted], graph.labels[counted]), 1)
    assert ((counts > 0).sum(1) > 1).any()
    expected = torch.from_numpy(counts / counts.sum(1, keepdims=True)).float()
    torch.testing.assert_close(method.reported(clients), expected)


def test_fedlog_recognises_global_nodes_by_their_class(world: World) -> None:
    for variant in FedLoG.variants:
        method, clients, state = started(world, "fedlog", variant, **{"method.warmup": 0})
        training = LocalTraining(method, clients, state)
        x, prompt = training.prompted()
        nodes = training.learnable(None)
        loss, known = training.global_loss((x, prompt), nodes, None)
        query, around = training.net.pair(clients.params, x, prompt, None)
        head, tail = training.net.branches(clients.params, query, around, nodes)
        labels = torch.arange(4).repeat_interleave(method.slots)
        assert torch.equal(known, (head + tail).argmax(-1) == labels)
        assert known.any()
        assert not known.all()
        mixed = ((head.exp() + tail.exp()) / 2).log() if variant == "paper" else (head + tail) / 2
        expected = -mixed[:, torch.arange(len(labels)), labels].mean(1)
        torch.testing.assert_close(loss, expected)


def test_fedlog_teaches_global_nodes_from_round_1(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    taught: list[bool] = []

    def fit(self: LocalTraining, epochs: int, taught_: bool = False, **given: bool) -> Tensor:
        taught.append(given.get("taught", taught_))
        return torch.zeros(3)

    monkeypatch.setattr(LocalTraining, "fit", fit)
    for generalize in (True, False):
        method, clients, state = started(
            world, "fedlog", "release", **{"method.warmup": 0, "method.generalize": generalize}
        )
        assert isinstance(method.publish(clients, state), Knowledge)
        for number in range(2):
            method.fit(clients, state, number, 1)
    assert taught == [False, True, False, False]


def test_fedlogs_generators_have_no_mean_to_match_where_nobody_is_near(world: World) -> None:
    _, clients, _ = started(world, "fedlog", "paper")
    here = prompts.Surroundings(prototypes.net_of(clients), clients.views, world.graph, world.train)
    here.degree[0] = 0
    loss = prompts.feature_loss(here, torch.ones_like(here.x))
    assert loss[0] == 0
    assert (loss[1:] > 0).all()


def test_a_tie_goes_on_in_fedlogs_warm_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that do not move give the same validation accuracy in every epoch."""
    method, clients, state = started(world, "fedlog", "release", **{"method.warmup": 0})
    assert isinstance(method, FedLoG)
    warm_up = WarmUp(clients, state.batches, 1)
    monkeypatch.setattr(type(warm_up.optimiser), "step", lambda *_: None)
    for number in range(3):
        turn = warm_up.turn(number, np.ones(3, dtype=bool))
        assert turn.going is not None
        assert turn.going.all()
    warm_up.best += 1
    fallen = warm_up.turn(3, np.ones(3, dtype=bool)).going
    assert fallen is not None
    assert not fallen.any()
