"""A loss or a validation that is no number ends a run, in whichever phase it comes up."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from fgl_repro.core.errors import DivergenceError
from fgl_repro.data.graph import Graph
from fgl_repro.data.graphset import GraphSet
from fgl_repro.federation.world import World
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.phase import Phase, Turn
from fgl_repro.runs.execute import federate
from support import worlds
from support.runs import config_of_graphs, make_config

CPU = torch.device("cpu")


@pytest.mark.parametrize("curve", ["loss", "validation"])
@pytest.mark.parametrize("point", [math.nan, math.inf])
def test_a_phase_ends_where_a_curve_is_no_number(curve: str, point: float) -> None:
    phase = Phase("somewhere", 3, lambda number, _: Turn({"loss": 1.0} | {curve: 1.0 if number < 1 else point}))
    with pytest.raises(DivergenceError, match=f"the {curve} is {point} in round 1 of somewhere"):
        phase.run(2, Ledger())


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_validation_that_is_no_number_ends_the_run(number: float) -> None:
    """Where numbers are predicted a loss can be finite and the error on other graphs not; no round is the best then."""
    config = config_of_graphs(
        "fedavg", "release", **{"protocol.selected_by": "validation", "protocol.split": [0.6, 0.2, 0.2]}
    )
    with pytest.raises(DivergenceError, match=rf"the validation is {number} in round 0: lower protocol\.lr"):
        federate(config, _with_validation(worlds.of_graphs(worlds.graph_set(numbers=True)), number), CPU)


def _with_validation(world: World, number: float) -> World:
    """The same where the answers of validation graphs are this number, so that the error is none."""
    base = world.graph.base
    assert isinstance(base, GraphSet)
    assert base.targets is not None
    targets = base.targets.copy()
    targets[world.graph.node[world.validation.rows]] = number
    graph = replace(world.graph, base=replace(base, targets=targets))
    probes = tuple(replace(probe, graph=graph) for probe in world.probes)
    return replace(world, graph=graph, validation=replace(world.validation, graph=graph), probes=probes)


@pytest.mark.parametrize(
    ("method", "settings", "where"),
    [
        (
            "fedavg",
            {"protocol.fine_tuning": 9, "protocol.check_every": 3, "protocol.fine_tuning_lr": 1e38},
            "fine_tuning",
        ),
        ("opfgl", {"protocol.fine_tuning": 9, "method.lr_tuning": 1e38, "method.epochs": 2}, "fine_tuning"),
        ("opfgl", {"method.lr": 1e38, "method.epochs": 900}, "generalisation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_training_after_and_before_the_rounds_is_watched(
    method: str, settings: dict[str, object], where: str, toy_graph: Graph
) -> None:
    """A model of NaN answers class 0 everywhere, which would look like an accuracy."""
    world = worlds.build("plain", toy_graph, "metis", 3)
    with pytest.raises(DivergenceError, match=where):
        federate(make_config(method, "release", **settings), world, CPU)
