#!/usr/bin/env python3
"""What did FedLoG's authors run? Their closed-set rows under other settings, beside the printed ones.

Every KEY=V1,V2 is a configuration key and the values to try; all combinations run (or are found among the records).
Printed and measured accuracies are percent for seen graph / unseen node / missing class / new client, at the best
validation round, followed by the mean absolute difference over the four.

    scripts/fedlog_against_paper.py --datasets cora,pubmed --clients 3 --methods local,fedpub protocol.lr=0.001,0.01
    scripts/fedlog_against_paper.py --datasets photo --methods fedntd protocol.lr=0.001 protocol.local_epochs=1,3,11
"""

from __future__ import annotations

import itertools

import grid
from fgl_repro import config as configs
from fgl_repro.config import Config
from fgl_repro.core import registry
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.sweep import run_all

PANELS = grid.FEDLOG_CLOSED_SET


def measured(config: Config, seeds: list[int], store: RecordStore) -> list[float | None]:
    """Means over the seeds of our four numbers, percent."""
    records = [grid.recorded(store, grid.with_seed(config, seed)) for seed in seeds]
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
    parser = grid.parser(__doc__, datasets="cora", clients="3", methods="local,fedavg,fedpub", seeds="0")
    parser.add_argument("--protocol", default="fedlog", help="where all else comes from; default fedlog")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("values", nargs="*", metavar="KEY=V1,V2")
    args = parser.parse_args()
    tried = [[(key, value) for value in values.split(",")] for key, values in (v.split("=", 1) for v in args.values)]
    store = RecordStore(args.records)
    rows: dict[tuple[str, int, str], list[tuple[str, Config]]] = {}
    for dataset, clients, method in grid.cells(args):
        base = configs.build(dataset=dataset, method=method, clients=clients, protocol=args.protocol)
        rows[dataset, clients, method] = [
            (" ".join(f"{k.split('.')[-1]}={v}" for k, v in chosen), configs.override(base, dict(chosen)))
            for chosen in itertools.product(*tried)
        ]
    every = [grid.with_seed(config, seed) for cell in rows.values() for _, config in cell for seed in args.seeds]
    ok = run_all(every, args.jobs, store).ok
    print(line("", []) + "    seen  unseen missing     new mean |diff|")
    for (dataset, clients, method), cell in rows.items():
        display = registry.options("method")[method].display
        paper = [grid.printed(dataset, clients, display, table, probe) for probe, table in PANELS.items()]
        print(line(f"{dataset} K={clients} {display}, printed", paper))
        for name, config in cell:
            print(line(f"    {name}", measured(config, args.seeds, store), paper))
    return 0 if ok else 1


if __name__ == "__main__":
    grid.run(main)
