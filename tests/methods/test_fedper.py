"""FedPer: what is shared and what is not."""

from __future__ import annotations

import pytest
import torch

from fgl_repro.config import build
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def test_fedper_keeps_the_classifier_at_home(world: World) -> None:
    """Without training, what the server sends replaces the base and leaves the classifier alone."""
    config = make_config("fedper", "release")
    clients = make_clients(world, config)
    method = config.method
    with torch.no_grad():
        for value in clients.params.values():
            value += torch.arange(3.0).view(3, *[1] * (value.dim() - 1))
    before = {name: value.detach().clone() for name, value in clients.params.items()}
    sent = method.upload(clients, None)
    assert set(sent.tensors()) == {"W1", "b1", "W2", "b2"}
    method.receive(clients, None, method.aggregate(clients, None, sent))
    for name, value in clients.params.items():
        kept = name in ("W3", "b3")
        expected = before[name] if kept else before[name].mean(0, keepdim=True).expand_as(value)
        torch.testing.assert_close(value.detach(), expected)


@pytest.mark.parametrize("model", ["sgc", "ssgc"])
def test_a_model_of_one_layer_has_nothing_to_share(model: str) -> None:
    with pytest.raises(UserError, match=f"model={model} cannot carry method=fedper: choose model=gcn or gcn2"):
        build(method="fedper", model=model)
