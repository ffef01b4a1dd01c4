"""Milliseconds a round: the stacked engine against the textbook loop, in one process, same losses, same numbers.

Both train FedAvg for one local epoch a round and validate every round. Timed rounds alternate in blocks, so that a
slow moment of the machine hits both; the ratio of medians is what counts. Before timing, both run a few rounds without
dropout and must agree.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from benchmarks import textbook
from fgl_repro import config as configs
from fgl_repro import data
from fgl_repro.core.device import prepare
from fgl_repro.federation.partitioners.metis import Published
from fgl_repro.federation.settings.plain import Plain
from fgl_repro.federation.split import Split
from fgl_repro.federation.world import World
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.rounds import train
from fgl_repro.nn.models.gcn import GCN
from fgl_repro.nn.view import Views

CASES = (("cora", 10), ("cora", 20), ("pubmed", 10))
BLOCK = 5


def world_of(dataset: str, clients: int) -> World:
    """Plain METIS parts: no class removed, so that every client count that is stored can be used."""
    graph = data.load(dataset, Path(os.environ.get("FGL_CACHE", "cache")))
    return Plain().build(graph, Published(clients), Split((0.4, 0.3, 0.3), 0))


class Stacked:
    """The engine under test; ``rounds(n)`` advances n rounds and returns their losses and validation accuracies."""

    def __init__(self, world: World, config: configs.Config, dropout: float) -> None:
        base, views = world.graph.base, Views(torch.device("cpu"))
        model = GCN(base.num_features, base.num_classes, config.model.hidden, dropout)
        self.clients = Clients(config.method, model, world, config.protocol, config.seed, views)
        self.method = config.method

    def rounds(self, number: int) -> list[tuple[float, float]]:
        curves = train(self.method, self.clients, number, 1).curves
        return list(zip(curves["loss"], curves["validation"], strict=True))


class Textbook:
    """The yardstick, from the same initial weights and with the same client shares."""

    def __init__(self, world: World, config: configs.Config, dropout: float) -> None:
        base, protocol = world.graph.base, config.protocol
        model = GCN(base.num_features, base.num_classes, config.model.hidden, dropout)
        initial = config.method.start(model, config.seed).weights
        self.clients = textbook.make_clients(
            world, initial, config.model.hidden, dropout, protocol.lr, protocol.weight_decay
        )
        self.share = torch.full((world.num_clients,), 1 / world.num_clients)

    def rounds(self, number: int) -> list[tuple[float, float]]:
        return [textbook.round_of_fedavg(self.clients, self.share)[:2] for _ in range(number)]


def check(world: World, config: configs.Config) -> float:
    """Largest difference of loss over three rounds without dropout; raises when the two are not the same algorithm."""
    ours, theirs = Stacked(world, config, 0.0).rounds(3), Textbook(world, config, 0.0).rounds(3)
    gap = max(abs(a[0] - b[0]) for a, b in zip(ours, theirs, strict=True))
    if gap > 1e-4:
        raise SystemExit(f"the two implementations disagree: losses differ by {gap:.1e}")
    return gap


def blocks(run: Callable[[int], object], count: int) -> Iterator[float]:
    """Seconds a round of each timed block."""
    for _ in range(count):
        start = time.perf_counter()
        run(BLOCK)
        yield (time.perf_counter() - start) / BLOCK


def compare(dataset: str, clients: int, count: int) -> str:
    """One line of the report."""
    world = world_of(dataset, clients)
    config = configs.build(dataset=dataset, method="fedavg", clients=clients)
    gap = check(world, config)
    ours, theirs = Stacked(world, config, 0.5), Textbook(world, config, 0.5)
    ours.rounds(2), theirs.rounds(2)
    pairs = list(zip(blocks(ours.rounds, count), blocks(theirs.rounds, count), strict=True))
    fast, slow = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return f"{dataset:<10}{clients:>8}{slow:>13.1f}{fast:>12.1f}{ratio:>8.1f}x{peak:>11.0f}{gap:>12.1e}"


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=8, help="timed blocks of five rounds for each implementation")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cases", default=",".join(f"{d}:{k}" for d, k in CASES), help="dataset:clients, ...")
    args = parser.parse_args()
    prepare(torch.device("cpu"), args.threads, deterministic=False)
    print(f"FedAvg, 128-128-linear GCN, {args.threads} threads; milliseconds a round, medians of {args.blocks} blocks")
    heads = f"{'data set':<10}{'clients':>8}{'textbook ms':>13}{'stacked ms':>12}"
    print(f"{heads}{'ratio':>9}{'peak MB':>11}{'loss gap':>12}")
    for case in args.cases.split(","):
        dataset, clients = case.split(":")
        print(compare(dataset, int(clients), args.blocks), flush=True)


if __name__ == "__main__":
    main()
