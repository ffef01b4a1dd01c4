"""FedProx against FedAvg."""

from __future__ import annotations

import pytest
import torch

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.runs.execute import federate
from support import worlds
from support.runs import make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def test_fedprox_is_fedavg_where_a_round_is_one_step(world: World) -> None:
    for epochs, equal in ((1, True), (2, False)):
        mine, plain = (
            federate(make_config(name, "release", **{"protocol.local_epochs": epochs, **fields}), world, CPU)[0]
            for name, fields in (("fedprox", {"method.mu": 1.0}), ("fedavg", {}))
        )
        assert torch.equal(mine.last["W1"], plain.last["W1"]) == equal
