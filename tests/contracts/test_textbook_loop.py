"""The stacked engine against K ordinary models, trained one after the other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from benchmarks import textbook, textbook_graphs

from fgl_repro import config as configs
from fgl_repro.data.graph import Graph
from fgl_repro.fl.rounds import train
from support import worlds
from support.isolation import make_clients
from support.runs import config_of_graphs

CPU = torch.device("cpu")


def test_fedavg_follows_separate_models(real_graph: Callable[..., Graph]) -> None:
    """Cora, K = 5, five rounds without dropout: weights, losses and validation as of K PyG models."""
    world = worlds.build("closed_set", real_graph("cora"), "published", 5, hops=2)
    config = configs.build({"model.dropout": 0.0, "protocol.rounds": 5}, dataset="cora", method="fedavg", clients=5)
    clients = make_clients(world, config)
    initial = config.method.start(clients.model, 0).weights
    separate = textbook.make_clients(world, initial, 128, 0.0, config.protocol.lr, config.protocol.weight_decay)
    training = train(config.method, clients)
    for number in range(5):
        loss, validation, local = textbook.round_of_fedavg(separate, torch.full((5,), 0.2))
        assert training.curves["loss"][number] == pytest.approx(loss, abs=1e-5)
        assert training.curves["validation"][number] == pytest.approx(validation, abs=1e-6)
    for k, weights in enumerate(local):
        for name, expected in weights.items():
            torch.testing.assert_close(training.last[name][k], expected, atol=1e-5, rtol=0)


def test_fedavg_on_whole_graphs_follows_separate_models() -> None:
    """Three clients, three rounds of a step on all graphs without dropout: losses and test accuracies as PyG's."""
    sizes = {"protocol.batch": 100, "model.together": 100, "model.dropout": 0.0, "protocol.rounds": 3}
    config = config_of_graphs("fedavg", "release", **sizes)
    world = worlds.of_graphs(worlds.graph_set()).selected_by_test()
    clients = make_clients(world, config)
    initial = config.method.start(clients.model, config.seed).weights
    separate = textbook_graphs.make_clients(world, initial, config.model.hidden, 0.0, 100, 100)
    curves = train(config.method, clients).curves
    for number in range(3):
        loss, accuracy = textbook_graphs.round_of_fedavg(separate, config.protocol.lr)
        assert curves["loss"][number] == pytest.approx(loss, abs=1e-5)
        assert curves["validation"][number] == pytest.approx(accuracy, abs=1e-6)
