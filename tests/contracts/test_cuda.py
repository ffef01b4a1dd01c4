"""The same run on a GPU, where there is one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.config import Config
from fgl_repro.core import registry
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.runs.execute import federate
from support import worlds
from support.runs import config_of_graphs, methods_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

MODELS = ("gcn2", "graphsage", "gat", "sgc", "ssgc", "appnp", "sign", "fleet")


@pytest.mark.parametrize("method", methods_of("node"))
@pytest.mark.parametrize("sparse_below", [0.0, 1.1], ids=["dense", "sparse"])
def test_cpu_and_gpu_agree(method: str, sparse_below: float, toy_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fgl_repro.nn.view.SPARSE_BELOW", sparse_below)
    config = configs.build(_said(method), dataset="cora", method=method, clients=3)
    agree(config, worlds.build("closed_set", toy_graph, "metis", 3, hops=2))


@pytest.mark.parametrize("kind", [{}, {"molecules": True, "numbers": True}], ids=["classes", "molecules"])
@pytest.mark.parametrize("method", methods_of("graph"))
def test_cpu_and_gpu_agree_on_graphs(method: str, kind: dict[str, bool]) -> None:
    config = config_of_graphs(method, methods_of("graph")[method].variants[0], **{"model.dropout": 0.0})
    agree(config, worlds.of_graphs(worlds.graph_set(**kind)))


@pytest.mark.parametrize("model", MODELS)
def test_cpu_and_gpu_agree_for_every_network(model: str, toy_graph: Graph) -> None:
    clients, said = (10, {"protocol.rounds": 5}) if model == "fleet" else (3, _said("opfgl"))
    config = configs.build(said, dataset="cora", setting="plain", method="opfgl", clients=clients, model=model)
    agree(config, worlds.build("plain", toy_graph, "metis", clients))


def _said(method: str) -> dict[str, Any]:
    quick = {f"method.{name}": value for name, value in registry.options("method")[method].quick.items()}
    return {**quick, "protocol.rounds": 5, "model.dropout": 0.0, "model.hidden": 8}


def agree(config: Config, world: World) -> None:
    """Same initial weights, no dropout (each device has its own random stream): losses agree to rounding."""
    cpu, gpu = (federate(config, world, torch.device(name))[0] for name in ("cpu", "cuda"))
    assert gpu.curves["loss"] == pytest.approx(cpu.curves["loss"], abs=1e-4)
    for name, value in cpu.last.items():
        torch.testing.assert_close(gpu.last[name].cpu(), value, atol=1e-3, rtol=1e-3)
