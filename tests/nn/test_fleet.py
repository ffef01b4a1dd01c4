"""Clients with different architectures: each trains as it would alone."""

from __future__ import annotations

import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import tampered

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
                same = [m["seen_graph"]["last"]["clients"][k] for m in (found, expected)]
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
    assert metrics["seen_graph"]["last"]["accuracy"] is not None


def test_what_cannot_be_is_refused_in_a_sentence(world: World) -> None:
    with pytest.raises(UserError, match="model=fleet cannot carry method=fedavg: its clients have different"):
        configs.build(dataset="cora", method="fedavg", setting="plain", model="fleet")
    with pytest.raises(UserError, match="choose setting=plain"):
        configs.build(dataset="cora", method="local", model="fleet")
    with pytest.raises(UserError, match="no single model"):
        config_of("local", ["auto"])
    with pytest.raises(UserError, match=r"model\.width does not exist"):
        config_of("local", ["gat width=3"])
    with pytest.raises(UserError, match="4 architectures: give partitioner"):
        federate(config_of("local", ["sgc"] * 4), world, CPU)
