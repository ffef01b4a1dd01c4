"""Every method and variant runs in every kind of world."""

from __future__ import annotations

import re
from dataclasses import fields

import numpy as np
import pytest
import torch

from fgl_repro.core import registry
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.runs.execute import federate
from support import worlds
from support.runs import VARIANTS, make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_two_rounds_on_a_toy_graph(name: str, variant: str, world: World) -> None:
    training, metrics, _ = federate(make_config(name, variant), world, CPU)
    assert training.last_round == 1
    assert set(metrics) == {"validation", "seen_graph", "unseen_node", "missing_class", "new_client"}
    assert all(np.isfinite(training.curves["loss"]))
    assert metrics["validation"]["best"].accuracy == pytest.approx(max(training.curves["validation"]))
    for probe in world.probes:
        assert sum(metrics[probe.name]["last"].counts) == len(probe.rows)


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_open_set_and_plain_worlds(name: str, variant: str, toy_graph: Graph) -> None:
    for kind, own in (("open_set", {"hops": 1, "crop": 0.2}), ("plain", {})):
        world = worlds.build(kind, toy_graph, "random", 3, **own)
        training, metrics, _ = federate(make_config(name, variant), world, CPU)
        assert all(np.isfinite(training.curves["loss"]))
        for probe in world.probes:
            assert sum(metrics[probe.name]["last"].counts) == len(probe.rows) > 0


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_clients_that_share_nodes(name: str, variant: str, toy_graph: Graph) -> None:
    world = worlds.build("plain", toy_graph, "overlap", 5)
    training, metrics, _ = federate(make_config(name, variant), world, CPU)
    assert all(np.isfinite(training.curves["loss"]))
    assert metrics["seen_graph"]["last"].counts == np.bincount(world.graph.owner[world.probes[0].rows]).tolist()


@pytest.mark.parametrize("name", registry.options("method"))
def test_every_hyper_parameter_is_explained(name: str) -> None:
    """Each stands in the list of attributes of its class, or of the class that it comes from."""
    cls = registry.option("method", name)
    lists = [base.__doc__.partition("Attributes:")[2] for base in cls.__mro__ if base.__doc__]
    entries = re.findall(r"^ *((?:\w+, )*\w+): \S", "\n".join(lists), flags=re.MULTILINE)
    assert {field.name for field in fields(cls)} <= {word for entry in entries for word in entry.split(", ")}


@pytest.mark.parametrize("name", registry.options("method"))
def test_who_names_variants_says_which_of_them_weigh_all_clients_alike(name: str) -> None:
    """Two methods may call a variant ``release``: FedAvg's is a plain mean, which another's need not be."""
    cls = registry.option("method", name)
    if not set(cls.variants) & set(getattr(cls, "uniform", ())):
        return
    where = [next(base for base in cls.__mro__ if word in vars(base)) for word in ("variants", "uniform")]
    assert where[0] is where[1], f"{where[0].__name__} has variants of its own, but {where[1].__name__}'s plain means"
