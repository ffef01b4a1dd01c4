"""Networks that have learnt classes are trained on for links: against a loop, and client by client."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import HeldLinks, Pairs, World
from fgl_repro.fl.links import LinkTuning, area, link_logits
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.metrics import Measured
from fgl_repro.fl.rounds import run_phases, train
from fgl_repro.fl.steps import Step
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients, tampered
from support.runs import make_config

QUICK = {
    "model.dropout": 0.0,
    "protocol.link_tuning": 20,
    "protocol.check_every": 2,
    "protocol.patience": 3,
    "protocol.fine_tuning_lr": 0.05,
}


def world_of(graph: Graph) -> World:
    return worlds.build("links", graph, "metis", 3, validation=0.2, test=0.2)


def tuned(world: World, **overrides: object) -> tuple[LinkTuning, Measured]:
    """The stage after its phase, and what its tests gave."""
    clients = make_clients(world, make_config("local", "paper", **QUICK | overrides))
    stage = LinkTuning(clients, clients.trained)
    run_phases([stage.phase("link_tuning", clients.protocol.link_tuning)], clients.count, Ledger(), None)
    return stage, stage.tested()


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=30))
def test_the_area_counts_pairs(rows: list[tuple[int, bool]]) -> None:
    scores, positive = np.array([s for s, _ in rows], dtype=float), np.array([p for _, p in rows])
    duels = [(a > b) + 0.5 * (a == b) for a in scores[positive] for b in scores[~positive]]
    found = area(scores, positive)
    assert np.isnan(found) if not duels else found == pytest.approx(np.mean(duels))


def test_the_loss_is_that_of_a_loop_over_clients(toy_graph: Graph) -> None:
    world = world_of(toy_graph)
    clients = make_clients(world, make_config("local", "paper", **QUICK))
    stage, again = (LinkTuning(clients, clients.trained) for _ in range(2))
    found = stage._loss(Step(None))
    drawn = again.streams.uniform(again.ends, 2).T
    z, ptr = again.outputs(again.params), world.graph.ptr
    for k, (first, end) in enumerate(zip(again.ends, again.ends[1:], strict=False)):
        size = int(ptr[k + 1] - ptr[k])
        others = ptr[k] + (drawn[:, first:end] * size).long()
        both = torch.cat([again.links[:, first:end], others], dim=1)
        truth = torch.tensor([1.0, 0.0]).repeat_interleave(end - first)
        expected = F.binary_cross_entropy_with_logits(link_logits(z, both), truth)
        torch.testing.assert_close(found[k], expected, rtol=1e-5, atol=1e-6)


def test_the_best_check_is_tested_and_classes_are_predicted_as_before(toy_graph: Graph) -> None:
    world = world_of(toy_graph)
    longer, short = (
        federate(make_config("fedavg", "paper", **QUICK | {"protocol.link_tuning": epochs}), world, torch.device("cpu"))
        for epochs in (20, 2)
    )
    curve = longer[0].phases["link_tuning"]["validation"]
    assert curve == sorted(curve)
    assert 1 < len(curve) <= 10
    assert longer[1]["seen_graph"] == short[1]["seen_graph"]
    assert longer[1]["links"]["best"] == longer[1]["links"]["last"]
    assert longer[1]["links"]["last"].counts == world.facts["test_rows"]["links"]  # type: ignore[index]
    assert longer[1]["links"]["last"].metric == "auc"
    assert longer[1]["links"] != short[1]["links"]


def test_the_network_of_the_best_check_is_tested_though_it_trained_on(
    toy_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, checks = world_of(toy_graph), iter([0.9, 0.9, 0.9, 0.1, 0.1])
    monkeypatch.setattr(LinkTuning, "scores", lambda *_: torch.full((3,), next(checks)))
    (_, once), (longer, found) = (tuned(world, **{"protocol.link_tuning": epochs}) for epochs in (2, 20))
    assert found == once
    with torch.no_grad():
        assert longer.areas(longer.params, longer.held.test).tolist() != found.clients


def test_networks_drop_out_while_they_train_for_links_and_not_where_they_are_judged(toy_graph: Graph) -> None:
    clients = make_clients(world_of(toy_graph), make_config("local", "paper", **QUICK | {"model.dropout": 0.5}))
    stage = LinkTuning(clients, clients.trained)
    before = stage.streams
    stage.streams = LinkTuning(clients, clients.trained).streams
    first = stage._loss(Step(None))
    stage.streams = before  # the same other pairs
    assert not torch.equal(stage._loss(Step(None)), first)
    assert torch.equal(stage.scores(stage.params), stage.scores(stage.params))


def test_links_of_a_graph_that_has_them_by_a_rule_are_learnt(toy_graph: Graph) -> None:
    """Nodes are linked where their features are alike: an area far above one half, which no link could tell."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 4, toy_graph.num_nodes)
    alike = (group[:, None] == group[None]) & (rng.random((toy_graph.num_nodes,) * 2) < 0.5)
    upper = np.triu(alike, k=1).astype(np.float32)
    features = np.eye(4, toy_graph.num_features, dtype=np.float32)[group]
    kind = type(toy_graph.adjacency)
    graph = replace(toy_graph, adjacency=kind(upper + upper.T), features=kind(features))
    world = worlds.build("links", graph, "random", 3, validation=0.2, test=0.2)
    assert tuned(world, **{"protocol.link_tuning": 100})[1].accuracy > 0.8


def test_a_client_ends_as_it_would_among_others(toy_graph: Graph) -> None:
    world = world_of(toy_graph)
    (ours, mine), (theirs, strange) = tuned(world), tuned(tampered(world, 0))
    assert mine.clients[1:] == strange.clients[1:]
    for name, value in ours.best.items():
        assert torch.equal(value[1:], theirs.best[name][1:])
        assert not torch.equal(value[0], theirs.best[name][0])


def test_a_client_without_pairs_has_no_area(toy_graph: Graph) -> None:
    world = world_of(toy_graph)
    assert world.links is not None
    keep = world.links.test.owner(world.graph) > 0
    bare = Pairs(world.links.test.nodes[:, keep], world.links.test.linked[keep])
    found = tuned(replace(world, links=HeldLinks(world.links.validation, bare)))[1]
    assert found.clients[0] is None
    assert found.counts[0] == 0
    assert found.clients_mean == pytest.approx(np.mean(found.clients[1:]))
    assert found.pooled == pytest.approx(np.average(found.clients[1:], weights=found.counts[1:]))
    assert found.counts[1] != found.counts[2], "both means are the same: the test says nothing of the pooled one"
    keep = world.links.validation.owner(world.graph) > 0
    bare = Pairs(world.links.validation.nodes[:, keep], world.links.validation.linked[keep])
    clients = make_clients(replace(world, links=HeldLinks(bare, world.links.test)), make_config("local", "paper"))
    stage = LinkTuning(clients, clients.trained)
    assert stage.scores(stage.params)[0] == 0.5, "as good as guessing"


def test_a_run_ends_with_the_links(toy_graph: Graph) -> None:
    world = world_of(toy_graph)
    config = make_config("local", "paper", **QUICK | {"protocol.rounds": 1, "protocol.lr": 0.0})
    found = train(config.method, make_clients(world, config))
    assert list(found.phases) == ["link_tuning"]
    assert found.measured == {"links": tuned(world)[1]}


def test_what_is_tested_are_the_pairs_for_tests(toy_graph: Graph) -> None:
    world = world_of(toy_graph)
    assert world.links is not None
    stage, found = tuned(world)
    assert found.clients == stage.areas(stage.best, world.links.test).tolist()
    assert found.clients != stage.areas(stage.best, world.links.validation).tolist()
