"""Measuring every probe."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import Probe, UnionGraph
from fgl_repro.fl import rounds
from fgl_repro.fl.probing import Prober
from fgl_repro.nn.models.model import Params
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import config_of_graphs, make_config


@pytest.mark.parametrize(("curves", "seconds"), [("validation", 20), ("all", 40)])
def test_what_is_measured_in_a_round_is_no_training(
    curves: str, seconds: int, toy_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every look at the probes takes ten seconds: one at the best round, one at the last, and one in each of two."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    metrics = Prober.metrics

    def slow(self: Prober, trained: Params) -> dict[str, dict[str, Any]]:
        now[0] += 10
        return metrics(self, trained)

    monkeypatch.setattr(Prober, "metrics", slow)
    config = make_config("fedavg", "release", **{"runtime.curves": curves})
    _, _, probing = federate(config, worlds.build("plain", toy_graph, "metis", 3), torch.device("cpu"))
    assert now == [probing] == [seconds], "none of it is left for training"


def test_what_is_recorded_is_what_the_best_rounds_models_say_and_the_lasts(
    toy_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four rounds the second is made the best; curves tell what each round's models say."""
    scores = iter([0.5, 0.9, 0.5, 0.5])
    monkeypatch.setattr(rounds, "accuracy", lambda *_: torch.tensor(next(scores)))
    config = make_config("local", "paper", **{"runtime.curves": "all", "protocol.rounds": 4, "protocol.lr": 0.1})
    training, found, _ = federate(config, worlds.build("plain", toy_graph, "metis", 3), torch.device("cpu"))
    curves = training.curves
    for which, number in (("best", 1), ("last", 3)):
        assert found["seen_graph"][which].accuracy == curves["seen_graph"][number]
        assert found["validation"][which].clients == [curves[f"validation/{k}"][number] for k in range(3)]
    assert found["seen_graph"]["best"] != found["seen_graph"]["last"]


def test_the_loss_on_test_graphs_is_a_mean_over_clients() -> None:
    world, config = worlds.of_graphs(worlds.graph_set()), config_of_graphs("local", "paper")
    clients = make_clients(world, config)
    with torch.no_grad():
        for name, value in clients.params.items():
            value += 0.3 * torch.randn(value.shape, generator=torch_rng(name, 0))
        (tests,) = world.probes
        logits = clients.model(clients.trained, clients.inputs.elsewhere(tests.graph, tests.rows))
    own = [
        F.cross_entropy(logits[k, : rows.sum()], torch.from_numpy(tests.graph.labels[tests.rows[rows]]))
        for k, rows in enumerate(tests.graph.owner[tests.rows] == k for k in range(clients.count))
    ]
    found = Prober(clients).accuracies(clients.trained)[f"loss/{tests.name}"]
    assert found == pytest.approx(float(torch.stack(own).mean()), rel=1e-5)


def test_clients_may_be_asked_about_different_nodes_of_a_graph_that_all_have(toy_graph: Graph) -> None:
    world = worlds.build("plain", toy_graph, "metis", 3)
    copies = UnionGraph.copies(toy_graph, 3)
    everything = [np.arange(toy_graph.num_nodes)] * 3
    rows = np.sort(np.concatenate([np.arange(5) + 3 * k + copies.ptr[k] for k in range(3)]))
    found = []
    for graph in (copies, UnionGraph.induced(toy_graph, everything)):
        clients = make_clients(
            replace(world, probes=(Probe("own", graph, rows, histogram=True),)), make_config("local", "paper")
        )
        with torch.no_grad():
            for name, value in clients.params.items():
                value += torch.randn(value.shape, generator=torch_rng(name, 0))
        found.append(Prober(clients).metrics(clients.trained)["own"])
    assert copies.once(rows)[0] is copies
    assert found[0] == found[1]


@pytest.mark.parametrize("extra", [0, 1])
def test_nodes_that_every_client_is_asked_about_are_those_of_one_copy(extra: int, toy_graph: Graph) -> None:
    copies = UnionGraph.copies(toy_graph, 3)
    rows = np.flatnonzero(copies.node % 2 == 0)
    graph, found = copies.once(asked := rows[: len(rows) - extra])
    assert graph is (copies if extra else copies.block), "the last client alone is asked about one less"
    assert np.array_equal(found, asked if extra else np.flatnonzero(np.arange(toy_graph.num_nodes) % 2 == 0))
    apart = UnionGraph.induced(toy_graph, [np.arange(4)] * 2)
    assert apart.once(np.arange(8))[0] is apart, "which are no copies"


def test_what_is_fine_tuned_is_measured_once(toy_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the best round's models and the last's are the same."""
    measured = list[int]()
    metrics = Prober.metrics
    monkeypatch.setattr(Prober, "metrics", lambda self, trained: measured.append(0) or metrics(self, trained))
    config = make_config("fedavg", "release", **{"protocol.fine_tuning": 1})
    _, found, _ = federate(config, worlds.build("plain", toy_graph, "metis", 3), torch.device("cpu"))
    assert len(measured) == 1
    assert found["seen_graph"]["best"] == found["seen_graph"]["last"]
