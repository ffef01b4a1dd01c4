"""A loss that is no number ends a run, in whichever phase it comes up."""

from __future__ import annotations

import math

import pytest
import torch

from fgl_repro.core.errors import DivergenceError
from fgl_repro.data.graph import Graph
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.phase import Phase, Turn
from fgl_repro.runs.execute import federate
from support import worlds
from support.runs import make_config

CPU = torch.device("cpu")


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_phase_ends_where_its_loss_is_no_number(loss: float) -> None:
    phase = Phase("somewhere", 3, lambda number, _: Turn({"loss": 1.0 if number < 1 else loss}))
    with pytest.raises(DivergenceError, match=f"{loss} in round 1 of somewhere"):
        phase.run(2, Ledger())


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
