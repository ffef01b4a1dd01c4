"""Milliseconds a round: the stacked engine against the textbook loop, in one process, same losses, same numbers.

Both train FedAvg for one local epoch a round and validate every round (test, on whole graphs). Timed rounds alternate
in blocks, so that a slow moment of the machine hits both; the ratio of medians is what counts. Before timing, both run
a few rounds without dropout and must agree.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from types import ModuleType

import torch

from benchmarks import graphs, nodes
from fgl_repro.config import unchecked
from fgl_repro.core.device import prepare

CASES = (("cora", 10), ("cora", 20), ("pubmed", 10), ("motif_basis", 5))
TOLERANCE = 1e-4


def contest(dataset: str) -> ModuleType:
    """Who competes on a data set: ``Stacked``, ``Textbook`` and ``check``, which all need its ``world_of``."""
    return graphs if unchecked(None, dataset=dataset).dataset.unit == "graph" else nodes


def blocks(run: Callable[[int], object], rounds: int, count: int) -> Iterator[float]:
    """Seconds a round of each timed block of ``rounds``."""
    for _ in range(count):
        start = time.perf_counter()
        run(rounds)
        yield (time.perf_counter() - start) / rounds


def compare(dataset: str, clients: int, count: int) -> str:
    """One line of the report."""
    sides = contest(dataset)
    world = sides.world_of(dataset, clients)
    gap = sides.check(world, dataset)
    if gap > TOLERANCE:
        raise SystemExit(f"the two implementations disagree on {dataset}: losses differ by {gap:.1e}")
    ours, theirs = sides.Stacked(world, dataset, 0.5), sides.Textbook(world, dataset, 0.5)
    ours.rounds(2), theirs.rounds(2)
    pairs = list(zip(*(blocks(one.rounds, sides.BLOCK, count) for one in (ours, theirs)), strict=True))
    fast, slow = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return f"{dataset:<14}{clients:>8}{slow:>13.1f}{fast:>12.1f}{ratio:>8.1f}x{peak:>11.0f}{gap:>12.1e}"


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=8, help="timed blocks of rounds for each implementation")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cases", default=",".join(f"{d}:{k}" for d, k in CASES), help="dataset:clients, ...")
    args = parser.parse_args()
    prepare(torch.device("cpu"), args.threads, deterministic=False)
    print(f"FedAvg, {args.threads} threads; milliseconds a round, medians of {args.blocks} blocks")
    print(f"nodes: {nodes.MODEL}; graphs: {graphs.MODEL}")
    heads = f"{'data set':<14}{'clients':>8}{'textbook ms':>13}{'stacked ms':>12}"
    print(f"{heads}{'ratio':>9}{'peak MB':>11}{'loss gap':>12}")
    for case in args.cases.split(","):
        dataset, clients = case.split(":")
        print(compare(dataset, int(clients), args.blocks), flush=True)


if __name__ == "__main__":
    main()
