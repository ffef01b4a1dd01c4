#!/usr/bin/env python3
"""What did the paper run? FedLoG's closed-set rows under other settings, beside the printed ones.

Every KEY=V1,V2 is a configuration key and the values to try; all combinations run (or are found among the records).
Printed and measured accuracies are percent for seen graph / unseen node / missing class / new client, at the best
validation round, followed by the mean absolute difference over the four.

    scripts/against_paper.py --datasets cora,pubmed --clients 3 --methods local,fedpub protocol.lr=0.001,0.01
    scripts/against_paper.py --datasets photo --methods fedntd protocol.lr=0.001 protocol.local_epochs=1,3,11
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from pathlib import Path

from fgl_repro import config as configs
from fgl_repro.config import Config
from fgl_repro.core.errors import UserError
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.sweep import run_all
from fgl_repro.tables.compare import printed_mean

PANELS = {"seen_graph": "1", "unseen_node": "2a", "missing_class": "2b", "new_client": "2c"}


def printed(dataset: str, clients: int, display: str) -> list[float | None]:
    """The paper's four numbers of one cell, percent."""
    place = dataset, clients, display
    return [printed_mean(f"fedlog/table_{table}.csv", setting, place) for setting, table in PANELS.items()]


def measured(config: Config, seeds: list[int], store: RecordStore) -> list[float | None]:
    """Means over the seeds of our four numbers, percent."""
    records = [store.load(configs.key_of(configs.override(config, {"seed": seed}))) for seed in seeds]
    found = [r for r in records if r is not None]
    values = [[r.metrics[panel]["best"].accuracy for r in found] for panel in PANELS]
    return [100 * sum(column) / len(column) if column and None not in column else None for column in values]


def line(name: str, numbers: list[float | None], paper: list[float | None] | None = None) -> str:
    """One row of the report."""
    text = f"{name:<58}" + "".join(f"{'-' if n is None else format(n, '.1f'):>8}" for n in numbers)
    if paper is not None:
        gaps = [abs(a - b) for a, b in zip(numbers, paper, strict=True) if a is not None and b is not None]
        text += f"{sum(gaps) / len(gaps):>10.1f}" if gaps else f"{'-':>10}"
    return text


def main() -> int:
    """Run what is missing, then print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for axis, default in (("datasets", "cora"), ("clients", "3"), ("methods", "local,fedavg,fedpub"), ("seeds", "0")):
        parser.add_argument(f"--{axis}", default=default, help=f"comma-separated; default {default}")
    parser.add_argument("--protocol", default="fedlog", help="where all else comes from; default fedlog")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--records", type=Path, default=Path(os.environ.get("FGL_RECORDS", "results/records")))
    parser.add_argument("values", nargs="*", metavar="KEY=V1,V2")
    args = parser.parse_args()
    tried = [[(key, value) for value in values.split(",")] for key, values in (v.split("=", 1) for v in args.values)]
    seeds, store = [int(s) for s in args.seeds.split(",")], RecordStore(args.records)
    cells = list(
        itertools.product(args.datasets.split(","), map(int, args.clients.split(",")), args.methods.split(","))
    )
    grid: dict[tuple[str, int, str], list[tuple[str, Config]]] = {}
    for dataset, clients, method in cells:
        base = configs.build(dataset=dataset, method=method, clients=clients, protocol=args.protocol)
        grid[dataset, clients, method] = [
            (" ".join(f"{k.split('.')[-1]}={v}" for k, v in chosen), configs.override(base, dict(chosen)))
            for chosen in itertools.product(*tried)
        ]
    every = [configs.override(c, {"seed": s}) for rows in grid.values() for _, c in rows for s in seeds]
    ok = run_all(every, args.jobs, store).ok
    print(line("", []) + "    seen  unseen missing     new mean |diff|")
    for (dataset, clients, method), rows in grid.items():
        display = configs.method_classes()[method].display
        paper = printed(dataset, clients, display)
        print(line(f"{dataset} K={clients} {display}, printed", paper))
        for name, config in rows:
            print(line(f"    {name}", measured(config, seeds, store), paper))
    return 0 if ok else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        print(f"against_paper: {error}", file=sys.stderr)
        sys.exit(2)
