"""The same config gives the same numbers, and another seed others: every method and variant."""

from __future__ import annotations

import pytest
import torch

from fgl_repro import config as configs
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
def test_same_seed_same_numbers(name: str, variant: str, world: World) -> None:
    config = make_config(name, variant)
    first, second = (federate(config, world, CPU) for _ in range(2))
    assert first[1] == second[1]
    assert first[0].curves == second[0].curves
    other = federate(configs.override(config, {"seed": 1}), world, CPU)
    assert other[0].curves["loss"] != first[0].curves["loss"]
