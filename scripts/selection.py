#!/usr/bin/env python3
"""Which round do the printed numbers come from? The four closed-set panels under several ways to select one.

Reads runs that were recorded with runtime.curves=all and selects one round of each by

    best       best validation accuracy, pooled over validation nodes (ties: the later round): what tables print
    slipped    the same with clients weighted by their missing-class test nodes, as FedLoG's released code does
    smoothed   best mean of the validation accuracies of eleven rounds
    last       the last round
    nearest    the round nearest to the printed numbers, chosen on test data: no selection could explain more

then prints means over seeds, percent, beside the paper, with the mean absolute difference over the panels.

    scripts/selection.py --datasets cora,citeseer --clients 3,5,10 --methods fedlog
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from fgl_repro import config as configs
from fgl_repro.compare import reference
from fgl_repro.errors import UserError
from fgl_repro.records import Record, RecordStore

PANELS = {"seen_graph": "1", "unseen_node": "2a", "missing_class": "2b", "new_client": "2c"}
AROUND = 5


def latest_best(score: np.ndarray) -> int:
    """Round of the highest score, the later of equals."""
    return len(score) - 1 - int(np.argmax(score[::-1]))


def smoothed(score: np.ndarray) -> np.ndarray:
    """Mean over the rounds at most ``AROUND`` away."""
    return np.array([score[max(0, i - AROUND) : i + AROUND + 1].mean() for i in range(len(score))])


def rounds(record: Record, curves: dict[str, np.ndarray], printed: np.ndarray) -> dict[str, int]:
    """Round that each rule selects.

    Args:
        curves: Accuracy of every round by probe, and of each client's validation nodes (``validation/0``, ...).
        printed: The paper's four numbers.
    """
    weights = np.array(record["metrics"]["missing_class"]["last"]["counts"], dtype=float)
    weights /= weights.sum()
    slipped = sum(w * np.nan_to_num(curves[f"validation/{k}"]) for k, w in enumerate(weights))
    panels = np.stack([curves[name] for name in PANELS], 1)
    return {
        "best": latest_best(curves["validation"]),
        "slipped": latest_best(np.asarray(slipped)),
        "smoothed": latest_best(smoothed(curves["validation"])),
        "last": len(panels) - 1,
        "nearest": int(np.argmin(np.abs(panels - printed).mean(1))),
    }


def report(dataset: str, clients: int, method: str, seeds: list[int], store: RecordStore) -> list[str]:
    """Lines of one cell; a hint where its runs have no full curves."""
    config = configs.build(dataset=dataset, clients=clients, method=method, protocol="fedlog_matched")
    cells = [
        reference(f"fedlog/table_{t}.csv", s).get((dataset, clients, config.method.display)) for s, t in PANELS.items()
    ]
    printed = np.array([np.nan if cell is None else cell.mean for cell in cells])
    found: dict[str, list[np.ndarray]] = {}
    for seed in seeds:
        key = configs.key_of(configs.override(config, {"seed": seed}))
        record, columns = store.load(key), store.curves(key)
        if record is None or "validation/0" not in columns:
            asked = (
                f"method={method} dataset={dataset} partitioner.clients={clients} protocol=fedlog_matched seed={seed}"
            )
            return [f"{dataset} {clients}: no full curves; fgl-train {asked} runtime.curves=all runtime.force=true"]
        curves = {name: np.array(values, dtype=float) for name, values in columns.items()}
        for rule, number in rounds(record, curves, printed).items():
            found.setdefault(rule, []).append(np.array([curves[name][number] for name in PANELS] + [number / 100]))
    lines = [f"{dataset}, {clients} clients" + "".join(f"{name:>15}" for name in PANELS) + "        gap   mean round"]
    lines.append(f"{'  paper':<18}" + "".join(f"{100 * value:>15.1f}" for value in printed))
    for rule, values in found.items():
        mean = np.mean(values, axis=0)
        gap = 100 * np.nanmean(np.abs(mean[:-1] - printed))
        lines.append(
            f"  {rule:<16}" + "".join(f"{100 * v:>15.1f}" for v in mean[:-1]) + f"{gap:>11.1f}{100 * mean[-1]:>13.0f}"
        )
    return lines


def main() -> int:
    """Print every cell asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for axis, default in (("datasets", "cora"), ("clients", "3"), ("methods", "fedlog"), ("seeds", "0,1,2")):
        parser.add_argument(f"--{axis}", default=default, help=f"comma-separated; default {default}")
    parser.add_argument("--records", type=Path, default=Path("results/records"), metavar="DIR")
    args = parser.parse_args()
    store = RecordStore(args.records)
    try:
        for method in args.methods.split(","):
            for dataset in args.datasets.split(","):
                for clients in map(int, args.clients.split(",")):
                    print("\n".join(report(dataset, clients, method, list(map(int, args.seeds.split(","))), store)))
    except UserError as error:
        print(f"selection: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
