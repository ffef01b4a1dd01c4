"""Every method on a device that is not the CPU, without one: to the bit as on the CPU, and waited for once a round.

The device computes on the CPU and refuses to meet its tensors (tests/support/second_device.py): what passes here names
its devices as a GPU needs it. It lives in a process of its own, as a backend stays registered.

What it cannot see, and ``test_cuda.py`` is for: the order in which a GPU sums, its precision, kernels that CUDA lacks,
``torch.cuda`` itself and its memory. Copies from the host are no waits here, as those of pinned memory are none.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.core import registry
from fgl_repro.data.graph import Graph
from support import second_device, worlds
from support.runs import config_of_graphs, methods_of

pytestmark = pytest.mark.skipif(
    not second_device.available(), reason=f"torch {torch.__version__} registers no backend written in Python"
)

EVERY = [(name, variant) for name, cls in methods_of("node").items() for variant in cls.variants]

OF_GRAPHS = [(name, variant) for name, cls in methods_of("graph").items() for variant in cls.variants]

SETUP = {
    ("fedlog", "release"): 3,  # validation accuracies decide after each of two epochs of the warm-up who stops
    ("fedlog", "paper"): 4,  # weights of nodes by their clients' sizes; curves of two epochs of pretraining
    ("fedsageplus", "paper"): 70,  # how many neighbours a node gets decides the sizes of all that follows: 4 steps of
    ("fedsageplus", "release"): 90,  # the generators, with other clients in 2 of them
    ("locsageplus", "paper"): 70,
    ("fedgm", "release"): 4,  # last losses of the condensations of three clients
    ("fedgm", "paper"): 4,
    ("ghost", "release"): 6,  # losses of two steps of the generators and of each client's graphs at the server
    ("ghost", "paper"): 6,
    ("opfgl", "release"): 7,  # sizes of the surrogate's classes and links; one loss of the condensation; two checks
    ("opfgl", "paper"): 7,
    ("locsageplus", "release"): 70,
}
"""Waits of the host up to the end of the first round; 1 where nothing is said."""

SECOND = {"fedala": 4}
"""Waits in the second round; 1 where nothing is said. Losses of three epochs say who has learned to mix models."""

FURTHER: dict[str, tuple[str, dict[str, Any], int]] = {
    "FedAvg, a mean that is judged": ("fedavg", {"protocol.judged": "server"}, 1),
    "FedED on mini-batches": ("feded", {"protocol.batch": 8, "protocol.local_epochs": 2}, 1),
    "FedLoG, judged crosswise": ("fedlog", {"protocol.judged": "crosswise"}, 3),
    "FedLoG, shares disturbed": ("fedlog", {"method.noise": 0.1, "method.permute": True}, 3),
    "FED-PUB by changes of weights": ("fedpub", {"method.similarity": "updates"}, 1),
    "FED-PUB on the clients' own graphs": ("fedpub", {"method.random_graph": "feature"}, 1),
    # Norms of a cluster's updates decide whether it is divided (in the first round here), similarities of clients how.
    "GCFL, dividing": ("gcfl", {"method.warmup": 0, "method.ratio": 0.99}, 3),
    "GCFL+, dividing": ("gcflplus", {"method.warmup": 0, "method.ratio": 0.99, "method.length": 1}, 3),
    "FedSage, drawn neighbours": ("fedavg", {"model": "sage_halves", "model.fanout": 3, "protocol.batch": 8}, 1),
    "FedSage+, drawn neighbours": ("fedsageplus", {"model.fanout": 3, "protocol.batch": 8}, 70),
}
"""Method, overrides, and waits of the host up to the end of the first round."""


@pytest.fixture(scope="module")
def process() -> Iterator[ProcessPoolExecutor]:
    """On Intel's processors MKL sums in an order that hangs on where in memory a tensor lies, unless told not to."""
    spawn = multiprocessing.get_context("spawn")
    with pytest.MonkeyPatch.context() as patch, ProcessPoolExecutor(1, mp_context=spawn) as pool:
        patch.setenv("MKL_CBWR", "COMPATIBLE")
        yield pool


@pytest.fixture
def compared(process: ProcessPoolExecutor, toy_graph: Graph) -> Callable[..., second_device.Comparison]:
    """Runs a method on both devices for three rounds, on a toy graph of three clients."""

    def compare(
        method: str, overrides: dict[str, Any], clients: int = 3, part: str = "metis", sparse_below: float | None = None
    ) -> second_device.Comparison:
        world = worlds.build("closed_set", toy_graph, part, clients, hops=2)
        quick = {f"method.{name}": value for name, value in registry.options("method")[method].quick.items()}
        if method in ("fedsageplus", "locsageplus"):
            quick["method.warmup"] = 2
        said = {"protocol.rounds": 3, "model.hidden": 8, **quick, **overrides}
        model = said.pop("model", "auto")
        config = configs.build(said, dataset="cora", method=method, clients=clients, model=model)
        return process.submit(second_device.compare, config, world, sparse_below).result()

    return compare


@pytest.mark.parametrize(("method", "variant"), EVERY, ids=[" ".join(pair) for pair in EVERY])
def test_every_method_runs_as_on_the_cpu(method: str, variant: str, compared: Any) -> None:
    found = compared(method, {"method.variant": variant})
    check(found, SETUP.get((method, variant), 1), SECOND.get(method, 1))


@pytest.mark.parametrize("kind", [{}, {"molecules": True, "numbers": True}], ids=["classes", "molecules"])
@pytest.mark.parametrize(("method", "variant"), OF_GRAPHS, ids=[" ".join(pair) for pair in OF_GRAPHS])
def test_every_method_of_graphs_runs_as_on_the_cpu(
    method: str, variant: str, kind: dict[str, bool], process: ProcessPoolExecutor
) -> None:
    config = config_of_graphs(method, variant, **{"protocol.rounds": 3})
    world = worlds.of_graphs(worlds.graph_set(**kind), graphs=9)  # two batches of each client
    found = process.submit(second_device.compare, config, world).result()
    check(found, SECOND.get(method, 1))  # who is judged by what the server sends learns in the first round


@pytest.mark.parametrize("name", FURTHER)
def test_further_ways_run_as_on_the_cpu(name: str, compared: Any) -> None:
    method, overrides, setup = FURTHER[name]
    check(compared(method, overrides), setup)


def test_links_are_predicted_as_on_the_cpu(process: ProcessPoolExecutor, toy_graph: Graph) -> None:
    world = worlds.build("links", toy_graph, "metis", 3, validation=0.2, test=0.2)
    said = {"protocol.rounds": 3, "protocol.link_tuning": 6, "protocol.check_every": 2, "model.hidden": 8}
    config = configs.build(said, dataset="cora", method="fedavg", clients=3, model="gcn2")
    check(process.submit(second_device.compare, config, world).result(), 1)


def check(found: second_device.Comparison, setup: int, second: int = 1) -> None:
    """Equal to the bit; the loss, the score and a method's curves of a later round are fetched together."""
    assert found.differing == []
    assert found.setup.total <= setup, found.setup
    assert [counts.total for counts in found.rounds] == [second, 1], found.rounds


@pytest.mark.parametrize(
    ("method", "variant"), [("fedavg", "paper"), ("fedgcn", "paper"), ("fedlog", "paper"), ("fedsageplus", "release")]
)
def test_thin_features_run_as_on_the_cpu(method: str, variant: str, compared: Any) -> None:
    assert compared(method, {"method.variant": variant}, sparse_below=1.1).differing == []


@pytest.mark.parametrize("method", ["local", "fedavg", "fedprox", "fedntd", "feded", "fedpub"])
def test_a_round_starts_as_many_kernels_whatever_the_number_of_clients(method: str, compared: Any) -> None:
    few, many = (compared(method, {}, clients, "random").rounds for clients in (2, 4))
    assert [counts.kernels for counts in few] == [counts.kernels for counts in many]


def test_the_device_refuses_what_a_gpu_refuses(process: ProcessPoolExecutor) -> None:
    found = process.submit(second_device.refusals).result()
    assert found == {
        "a sum of both": "DeviceMixError",
        "a sum with a number": "",
        "a product into the other": "DeviceMixError",
        "a stream of the other": "DeviceMixError",
        "its numbers as an array": "RuntimeError",
        "a copy on the host": "",
    }
