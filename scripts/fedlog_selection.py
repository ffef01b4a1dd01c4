#!/usr/bin/env python3
"""Which round do FedLoG's printed numbers come from? The four closed-set panels under several ways to select one.

Reads runs that were recorded with runtime.curves=all and selects one round of each by

    best       best validation accuracy, pooled over validation nodes (ties: the later round): what tables print
    slipped    the same with clients weighted by their missing-class test nodes, as FedLoG's released code does
    smoothed   best mean of the validation accuracies of eleven rounds
    last       the last round
    nearest    the round nearest to the printed numbers, chosen on test data: no selection could explain more

then prints means over seeds, percent, beside the paper, with the mean absolute difference over the panels (gap) and the
mean std over seeds of the panels (spread; the printed spread is another trace of the rule), at the end over all cells.

    scripts/fedlog_selection.py --datasets cora,citeseer --clients 3,5,10 --methods fedlog
"""

from __future__ import annotations

import numpy as np

import grid
from fgl_repro import config as configs
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RecordStore
from fgl_repro.tables.reference import accuracies

PANELS = grid.FEDLOG_CLOSED_SET
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
    weights = np.array(record.metrics["missing_class"]["last"].counts, dtype=float)
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


def report(
    dataset: str,
    clients: int,
    method: str,
    seeds: list[int],
    store: RecordStore,
    all_cells: dict[str, list[list[float]]],
) -> list[str]:
    """Lines of one cell; a hint where its runs have no full curves.

    Args:
        all_cells: Takes gap, spread and mean round of each rule.
    """
    config = configs.build(dataset=dataset, clients=clients, method=method, protocol="fedlog_matched")
    cells = [
        accuracies(f"fedlog/table_{t}.csv", s).get((dataset, clients, config.method.display)) for s, t in PANELS.items()
    ]
    printed = np.array([np.nan if cell is None else cell.mean for cell in cells])
    stds = [100 * cell.std for cell in cells if cell is not None and cell.std is not None]
    spread = float(np.mean(stds)) if stds else np.nan
    found: dict[str, list[np.ndarray]] = {}
    for seed in seeds:
        chosen = grid.with_seed(config, seed)
        record, columns = grid.recorded(store, chosen), store.curves(configs.key_of(chosen))
        if record is None or "validation/0" not in columns:
            asked = (
                f"method={method} dataset={dataset} partitioner.clients={clients} protocol=fedlog_matched seed={seed}"
            )
            return [f"{dataset} {clients}: no full curves; fgl-train {asked} runtime.curves=all runtime.force=true"]
        curves = {name: np.array(values, dtype=float) for name, values in columns.items()}
        for rule, number in rounds(record, curves, printed).items():
            found.setdefault(rule, []).append(np.array([curves[name][number] for name in PANELS] + [number / 100]))
    heads = "".join(f"{name:>15}" for name in (*PANELS, "gap", "spread", "mean round"))
    lines = [f"{f'{dataset}, {clients} clients':<24}{heads}"]
    lines.append(
        f"{'  paper':<24}" + "".join(f"{value:>15.1f}" for value in 100 * printed) + f"{'':>15}{spread:>15.1f}"
    )
    for rule, values in found.items():
        mean, std = np.mean(values, axis=0), np.std(values, axis=0, ddof=config.protocol.ddof)
        numbers = [100 * np.nanmean(np.abs(mean[:-1] - printed)), 100 * float(np.mean(std[:-1])), 100 * mean[-1]]
        lines.append(f"{f'  {rule}':<24}" + "".join(f"{value:>15.1f}" for value in (*100 * mean[:-1], *numbers)))
        all_cells.setdefault(rule, []).append(numbers)
    all_cells.setdefault("paper", []).append([np.nan, spread, np.nan])
    return lines


def main() -> int:
    """Print every cell asked for."""
    args = grid.parser(__doc__, datasets="cora", clients="3", methods="fedlog", seeds="0,1,2").parse_args()
    store, all_cells = RecordStore(args.records), dict[str, list[list[float]]]()
    for dataset, clients, method in grid.cells(args):
        print("\n".join(report(dataset, clients, method, args.seeds, store, all_cells)))
    print(f"\n{'all cells':<24}" + "".join(f"{name:>15}" for name in ("gap", "spread", "mean round", "cells")))
    for rule, numbers in all_cells.items():
        known = [[value for value in column if value == value] for column in zip(*numbers, strict=True)]
        means = (f"{sum(column) / len(column):.1f}" if column else "-" for column in known)
        print(f"  {rule:<22}" + "".join(f"{mean:>15}" for mean in means) + f"{len(numbers):>15}")
    return 0


if __name__ == "__main__":
    grid.run(main)
