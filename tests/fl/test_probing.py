"""Measuring every probe."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from fgl_repro.data.graph import Graph
from fgl_repro.fl.probing import Prober
from fgl_repro.nn.models.model import Params
from fgl_repro.runs.execute import federate
from support import worlds
from support.runs import make_config


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
