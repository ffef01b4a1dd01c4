"""Oracle: one client with everything."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


@pytest.mark.parametrize("variant", ["whole", "clients"])
def test_oracle_is_one_client_with_everything(toy_graph: Graph, world: World, variant: str) -> None:
    """The same weights as Local with a single client, and predictions in the graph the variant names."""
    config = make_config("oracle", variant)
    training, found, _ = federate(config, world, CPU)
    alone = worlds.build("plain", toy_graph, "random", 1)
    local, measured, _ = federate(make_config("local", "paper"), alone, CPU)
    assert all(torch.equal(training.last[name], value) for name, value in local.last.items())
    counts = found["seen_graph"]["last"].counts
    assert counts == np.bincount(world.graph.owner[world.probes[0].rows], minlength=3).tolist()
    if variant == "whole":
        assert found["seen_graph"]["last"].pooled == pytest.approx(measured["seen_graph"]["last"].pooled)


def test_test_nodes_are_met_in_the_graph_that_the_variant_names(toy_graph: Graph, world: World) -> None:
    met = {v: make_clients(world, make_config("oracle", v)).world.probes[0].graph for v in ("whole", "clients")}
    assert met["whole"].num_nodes == 3 * toy_graph.num_nodes
    assert met["clients"] is world.graph


@pytest.mark.parametrize("variant", ["whole", "clients"])
def test_accuracies_are_weighted_by_the_clients_own_nodes(world: World, variant: str) -> None:
    _, found, _ = federate(make_config("oracle", variant, **{"protocol.average": "nodes"}), world, CPU)
    tested = found["seen_graph"]["last"]
    expected = np.average(tested.clients, weights=np.diff(world.graph.ptr))
    assert tested.accuracy == tested.nodes_mean == pytest.approx(expected)
    assert expected != pytest.approx(tested.clients_mean)


@pytest.mark.parametrize("variant", ["whole", "clients"])
def test_one_model_answers_for_all_on_the_global_graph(toy_graph: Graph, variant: str) -> None:
    world = worlds.build("global_graph", toy_graph, "metis", 3)
    _, found, _ = federate(make_config("oracle", variant), world, CPU)
    tested = found["global_graph"]["last"]
    assert len(set(tested.clients)) == 1
    assert tested.counts == world.probes[0].counts.sum(1).tolist()
