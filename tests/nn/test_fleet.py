"""Clients with different architectures: each trains as it would alone."""

from __future__ import annotations

import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.methods.dense.server import DenseServer
from fgl_repro.methods.generated.method import weights_of
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients, tampered

CPU = torch.device("cpu")
MEMBERS = ["gcn2 hidden=8 dropout=0 layers=3", "gat hidden=4"]
RULES = {"protocol.rounds": 2, "protocol.lr": 0.01, "protocol.fine_tuning": 30, "protocol.check_every": 3}


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def config_of(method: str, members: list[str], **more: object) -> configs.Config:
    rules = {**RULES, "protocol.patience": 2, **more}
    built = configs.build(rules, dataset="cora", method=method, clients=3, setting="plain", model="fleet")
    built.model = type(built.model)(models=members)
    return built


def test_every_client_trains_as_in_a_fleet_of_its_own_architecture(world: World) -> None:
    """Also where the others stop earlier or later than it does."""
    mixed, found, _ = federate(config_of("local", MEMBERS), world, CPU)
    for c, text in enumerate(MEMBERS):
        alike, expected, _ = federate(config_of("local", [text]), world, CPU)
        who = list(range(c, 3, 2))
        own = {name: value for name, value in mixed.last.items() if name.startswith(f"{c}.")}
        assert len(own) == len(alike.last)
        for name, value in own.items():
            if c == 0:  # later architectures draw their first weights from where earlier ones left the stream
                torch.testing.assert_close(value, alike.last[f"0.{name[2:]}"][who], atol=1e-5, rtol=1e-4)
        if c == 0:
            for k in who:
                same = [m["seen_graph"]["last"].clients[k] for m in (found, expected)]
                assert same[0] == pytest.approx(same[1])


def test_a_client_hears_of_no_other(world: World) -> None:
    for change in ({}, {"model.dropout": 0.0}):
        plain, strange = (
            federate(config_of("local", MEMBERS, **change), w, CPU)[0] for w in (world, tampered(world, 0))
        )
        assert torch.equal(plain.last["0.W1"][1], strange.last["0.W1"][1])
        assert torch.equal(plain.last["1.W1"], strange.last["1.W1"])
        assert not torch.equal(plain.last["0.W1"][0], strange.last["0.W1"][0])


def test_one_shot_learning_runs_on_a_fleet(world: World) -> None:
    quick = {"method.iterations": 2, "method.epochs": 6, "method.links": 4, "protocol.rounds": 1}
    training, metrics, _ = federate(config_of("opfgl", MEMBERS, **quick), world, CPU)
    assert training.last["0.W1"].shape == (2, 16, 8)
    assert training.last["1.W1"].shape == (1, 16, 4)
    assert metrics["seen_graph"]["last"].accuracy is not None


def test_a_method_whose_networks_stay_at_home_is_the_same_in_a_fleet_of_one_architecture(world: World) -> None:
    mixed, found, _ = federate(config_of("fedspray", MEMBERS[:1]), world, CPU)
    plain = config_of("fedspray", MEMBERS[:1])
    plain.model = plain.model.member(MEMBERS[0])
    single, expected, _ = federate(plain, world, CPU)
    assert {name.removeprefix("0."): value.tolist() for name, value in mixed.last.items()} == {
        name: value.tolist() for name, value in single.last.items()
    }
    assert found["seen_graph"]["last"].clients == expected["seen_graph"]["last"].clients


@pytest.mark.parametrize("method", ["fedspray", "fedtad", "dense", "coboost"])
def test_servers_learn_from_a_fleet(method: str, world: World) -> None:
    quick = {f"method.{name}": value for name, value in registry.options("method")[method].quick.items()}
    training, metrics, _ = federate(config_of(method, MEMBERS, **quick), world, CPU)
    assert training.last["0.W1"].shape == (2, 16, 8)
    assert metrics["seen_graph"]["last"].accuracy is not None
    assert training.ledger.as_dict()["rounds"]["up"]


def test_each_client_of_a_fleet_has_a_student_of_its_own(world: World) -> None:
    """It starts as what the client trained, and learns what all say."""
    config = config_of("dense", MEMBERS, **{"method.nodes": 16, "method.epochs": 10, "method.lr_student": 0.01})
    clients = make_clients(world, config)
    server = DenseServer(config.method, clients)
    rng = torch_rng("own", 0)
    own = {name: value + 0.3 * torch.randn(value.shape, generator=rng) for name, value in clients.params.items()}
    learnt = server.distil(own, own)
    assert {name: value.shape for name, value in learnt.items()} == {n: v.shape for n, v in clients.params.items()}
    graph = server.pool[0].graph
    target = server.ensemble(server.teacher_logits(graph))
    before, after = ((graph.logits(clients.model, some, 3, None) - target).abs() for some in (own, learnt))
    assert (after.mean((1, 2)) < before.mean((1, 2))).all()


def test_bytes_of_a_fleet_are_those_of_each_clients_own_model(world: World) -> None:
    clients = make_clients(world, config_of("dense", MEMBERS, **{"method.nodes": 16}))
    sizes = weights_of(clients, clients.params).bytes_by_field()["weights"]
    by_cohort = [4 * sum(v[0].numel() for n, v in clients.params.items() if n.startswith(f"{c}.")) for c in (0, 1)]
    assert sizes.tolist() == [by_cohort[0], by_cohort[1], by_cohort[0]]


def test_what_cannot_be_is_refused_in_a_sentence(world: World) -> None:
    with pytest.raises(UserError, match="model=fleet cannot carry method=fedavg: its clients have different"):
        configs.build(dataset="cora", method="fedavg", setting="plain", model="fleet")
    with pytest.raises(UserError, match="choose setting=plain"):
        configs.build(dataset="cora", method="local", model="fleet")
    with pytest.raises(UserError, match="no single model"):
        config_of("local", ["auto"])
    with pytest.raises(UserError, match=r"model\.width does not exist"):
        config_of("local", ["gat width=3"])
    with pytest.raises(UserError, match=r"model\.models has 'gcn2 hidden=x', whose values no gcn2 takes"):
        config_of("local", ["gcn2 hidden=x"])
    with pytest.raises(UserError, match="model  does not exist"):
        config_of("local", [""])
    with pytest.raises(UserError, match="4 architectures: give partitioner"):
        federate(config_of("local", ["sgc"] * 4), world, CPU)


def test_a_member_draws_no_neighbours() -> None:
    for text in ("sage fanout=3", "gat"), ("graphsage test_fanout=2",):
        with pytest.raises(UserError, match=r"clients of a fleet look at all neighbours: leave (test_)?fanout out"):
            config_of("local", list(text))
