"""FedProx against FedAvg."""

from __future__ import annotations

import pytest
import torch

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import config_of_graphs, make_config

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


def test_what_draws_back_is_how_far_a_client_of_graphs_has_gone() -> None:
    """SGD from the same start: step 1 is FedAvg's; in step 2 FedProx goes back by rate * mu of what step 1 went."""
    rules = {"protocol.batch": 99, "model.together": 0, "protocol.lr": 0.05, "model.dropout": 0.0}

    def after(name: str, epochs: int, **own: object) -> dict[str, torch.Tensor]:
        config = config_of_graphs(name, "release", **rules, **own)
        clients = make_clients(worlds.of_graphs(worlds.graph_set()), config)
        if epochs:
            config.method.fit(clients, config.method.state(clients), 0, epochs)
        return {name: value.detach().clone() for name, value in clients.params.items()}

    start, once, twice = (after("fedavg", epochs) for epochs in (0, 1, 2))
    mine = after("fedprox", 2, **{"method.mu": 2.0})
    for name, value in mine.items():
        expected = twice[name] - 0.05 * 2.0 * (once[name] - start[name])
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(mine["W5"], twice["W5"], rtol=1e-4, atol=1e-6)
