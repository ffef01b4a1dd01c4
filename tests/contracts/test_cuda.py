"""The same run on a GPU, where there is one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from fgl_repro import config as configs
from fgl_repro.config import Config
from fgl_repro.core import registry
from fgl_repro.core.device import prepare
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.nn.sparse import SparseOp
from fgl_repro.runs.execute import federate
from support import worlds
from support.runs import config_of_graphs, methods_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

MAGNIFYING = ("fedvn",)
"""Two rounds of wide steps make a tenth of the loss out of the last digit of its initial weights, on the CPU, too."""


@pytest.mark.parametrize("method", methods_of("node"))
@pytest.mark.parametrize("sparse_below", [0.0, 1.1], ids=["dense", "sparse"])
def test_cpu_and_gpu_agree(method: str, sparse_below: float, toy_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fgl_repro.nn.view.SPARSE_BELOW", sparse_below)
    config = configs.build(_said(method), dataset="cora", method=method, clients=3)
    agree(config, worlds.build("closed_set", toy_graph, "metis", 3, hops=2))


@pytest.mark.parametrize("kind", [{}, {"molecules": True, "numbers": True}], ids=["classes", "molecules"])
@pytest.mark.parametrize("method", methods_of("graph"))
def test_cpu_and_gpu_agree_on_graphs(method: str, kind: dict[str, bool]) -> None:
    said = {"model.dropout": 0.0, "protocol.lr": 1e-4 if method in MAGNIFYING else 0.05}
    config = config_of_graphs(method, methods_of("graph")[method].variants[0], **said)
    agree(config, worlds.of_graphs(worlds.graph_set(**kind)))


@pytest.mark.parametrize("model", registry.option("method", "opfgl").models)
def test_cpu_and_gpu_agree_for_every_network(model: str, toy_graph: Graph) -> None:
    clients, said = (10, {"protocol.rounds": 5}) if model == "fleet" else (3, _said("opfgl"))
    config = configs.build(said, dataset="cora", setting="plain", method="opfgl", clients=clients, model=model)
    agree(config, worlds.build("plain", toy_graph, "metis", clients))


def _said(method: str) -> dict[str, Any]:
    quick = {f"method.{name}": value for name, value in registry.options("method")[method].quick.items()}
    return {**quick, "protocol.rounds": 5, "model.dropout": 0.0, "model.hidden": 8}


class SameNumbers(TorchFunctionMode):
    """What is drawn on a GPU comes from streams of the same seeds on the CPU, so that rounding alone can differ."""

    def __init__(self) -> None:
        super().__init__()
        self.streams: dict[torch.Generator, torch.Generator] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        said = dict(kwargs or {})
        stream = said.get("generator")
        if stream is None or stream.device.type != "cuda":
            return func(*args, **said)
        if stream not in self.streams:
            self.streams[stream] = torch.Generator().manual_seed(stream.initial_seed())
        said |= {"generator": self.streams[stream]} | ({"device": "cpu"} if "device" in said else {})
        drawn = func(*tree_map(lambda value: value.cpu() if isinstance(value, Tensor) else value, args), **said)
        return args[0].copy_(drawn) if func.__name__.endswith("_") else drawn.to(stream.device)


def agree(config: Config, world: World) -> None:
    """Same initial weights, same random numbers: losses agree to rounding, and nearly all weights.

    Adam moves a weight whose gradient is nothing but rounding as far as any other.
    """
    cpu = federate(config, world, torch.device("cpu"))[0]
    with SameNumbers():
        gpu = federate(config, world, torch.device("cuda"))[0]
    assert gpu.curves["loss"] == pytest.approx(cpu.curves["loss"], abs=1e-4)
    close = [torch.isclose(gpu.last[name].cpu(), value, 1e-3, 1e-3).ravel() for name, value in cpu.last.items()]
    assert torch.cat(close).float().mean() > 0.97


@pytest.fixture
def fixed_order() -> Iterator[None]:
    """As ``runtime.deterministic=true`` sets it."""
    prepare(torch.device("cuda", 0), threads=1, deterministic=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("below", [0.0, 1.1], ids=["dense", "sparse"])
@pytest.mark.parametrize("method", ["fedavg", "fedpub", "fedlog", "fedgta", "opfgl"])
def test_deterministic_runs_repeat_to_the_bit(
    method: str, below: float, toy_graph: Graph, monkeypatch: pytest.MonkeyPatch, fixed_order: None
) -> None:
    monkeypatch.setattr("fgl_repro.nn.view.SPARSE_BELOW", below)
    config = configs.build(_said(method), dataset="cora", setting="plain", method=method, clients=3)
    world = worlds.build("plain", toy_graph, "metis", 3)
    first, again = (federate(config, world, torch.device("cuda"))[0] for _ in range(2))
    assert first.curves == again.curves
    assert all(torch.equal(value, again.last[name]) for name, value in first.last.items())


def test_products_of_long_rows_repeat_to_the_bit(fixed_order: None) -> None:
    """A hub's row is long enough for several blocks of a GPU to share it."""
    rng = np.random.default_rng(0)
    matrix = sp.vstack([sp.random(1000, 4000, 0.002, "csr", np.float32, rng), sp.csr_matrix(rng.random((4, 4000)))])
    op, dense = SparseOp.of(sp.csr_matrix(matrix), torch.device("cuda")), torch.randn(4000, 128, device="cuda")
    first = op(dense)
    assert all(torch.equal(op(dense), first) for _ in range(50))


def test_memory_is_measured_from_the_first_run_of_a_process() -> None:
    code = "import torch; from fgl_repro.core import memory; memory.begin(torch.device('cuda', 0))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
