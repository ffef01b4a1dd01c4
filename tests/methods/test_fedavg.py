"""FedAvg: what it sends, as FedLoG counts it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.methods.fedavg import FedAvg
from fgl_repro.methods.local import Local
from fgl_repro.nn.models.gcn import GCN
from fgl_repro.runs.execute import execute, federate
from support import worlds
from support.runs import make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


def test_fedpub_and_fedavg_bytes_on_citeseer(real_graph: Callable[..., Graph]) -> None:
    """FedLoG's Table 5: 786.03 and 393.11 MB for 100 rounds, one client, both ways; counted, not computed.

    The second is 393.1184 MB: the paper cuts it off where it rounds the first.
    """
    real_graph("citeseer")
    for name, printed in (("fedavg", 393.11), ("fedpub", 786.03), ("fedntd", 393.11), ("feded", 393.11)):
        config = configs.build(dataset="citeseer", method=name, clients=3, overrides={"protocol.rounds": 1})
        rounds = execute(config).record.bytes["rounds"]
        model = sum(rounds[way].get(part, 0) for way in ("up", "down") for part in ("weights", "masks"))
        assert abs(100 * model / 1e6 - printed) < 0.01
        assert rounds["up"].get("embedding", 512) == 512


def test_bytes_add_up(world: World) -> None:
    """What the ledger says of a run equals rounds times the parameters that travel."""
    config = make_config("fedavg", "paper", **{"protocol.rounds": 3})
    training, _, _ = federate(config, world, CPU)
    single = sum(value[0].numel() for value in training.last.values())
    assert training.ledger.as_dict() == {"rounds": {"up": {"weights": 12 * single}, "down": {"weights": 12 * single}}}
    local, _, _ = federate(make_config("local", "paper"), world, CPU)
    assert local.ledger.as_dict() == {}


def test_a_start_can_be_the_mean_of_several_networks() -> None:
    """FedSage's code averages a model of each client before the first round."""
    one, two, many = (FedAvg(starts=starts).start(GCN(50, 7, 128), 3).weights["W1"] for starts in (1, 2, 400))
    assert torch.equal(one, Local().start(GCN(50, 7, 128), 3).weights["W1"])
    assert 18 < float(one.std() / many.std()) < 22, "the mean of independent draws shrinks by a root of their number"
    other = 2 * two - one
    assert 0.9 < float(other.std() / one.std()) < 1.1
    assert abs(float(torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1])) < 0.1
    assert not torch.equal(two, FedAvg(starts=2).start(GCN(50, 7, 128), 4).weights["W1"])


def test_a_method_with_a_start_of_its_own_refuses_the_mean_of_several() -> None:
    with pytest.raises(UserError, match=r"method.starts=2: ditto has a start of its own, drop it\."):
        configs.build(method="ditto", overrides={"method.starts": 2})
    with pytest.raises(UserError, match=r"method.starts=0 is out of range: give at least 1"):
        configs.build(method="fedavg", overrides={"method.starts": 0})
