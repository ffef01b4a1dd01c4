"""The same run on a GPU, where there is one."""

from __future__ import annotations

import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.data.graph import Graph
from fgl_repro.runs.execute import federate
from support import worlds
from support.runs import methods_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("method", methods_of("node"))
@pytest.mark.parametrize("sparse_below", [0.0, 1.1], ids=["dense", "sparse"])
def test_cpu_and_gpu_agree(method: str, sparse_below: float, toy_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same initial weights, no dropout (each device has its own random stream): losses agree to rounding."""
    monkeypatch.setattr("fgl_repro.nn.view.SPARSE_BELOW", sparse_below)
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    overrides = {"protocol.rounds": 5, "model.dropout": 0.0, "model.hidden": 8}
    config = configs.build(dataset="cora", method=method, clients=3, overrides=overrides)
    cpu, gpu = (federate(config, world, torch.device(name))[0] for name in ("cpu", "cuda"))
    assert gpu.curves["loss"] == pytest.approx(cpu.curves["loss"], abs=1e-4)
    for name, value in cpu.last.items():
        torch.testing.assert_close(gpu.last[name].cpu(), value, atol=1e-3, rtol=1e-3)
