#!/usr/bin/env python3
"""What is one split worth? FedLoG's panels on several splits, beside the printed ones, which stem from one.

Tables vary the run seed on split seed 0. Here the run seed stays 0 and ``protocol.split_seed`` varies: training,
validation and test nodes, and in the open set the cropped nodes and with them every part. Says for each panel where the
printed mean lies among ours, and counts the cells whose printed mean is within max(2 points, two std over splits) of
our mean. Writes what it prints to splits.csv and draws it: bars from the lowest to the highest split, a tick for the
printed mean. Cells not asked for leave the file: ask for all with --recorded once the runs are there.

    scripts/fedlog_splits.py --datasets cora,citeseer --methods fedavg,fedpub --splits 0,1,2,3,4 --jobs 2
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import grid
from fgl_repro import config as configs
from fgl_repro.config import Config
from fgl_repro.core.errors import UserError
from fgl_repro.core.files import write_atomic
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.sweep import run_all
from fgl_repro.tables.entries import spelled
from fgl_repro.tables.figures import charts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {
    "seen graph": ("seen_graph", "seen_graph", "1"),
    "unseen nodes": ("seen_graph", "unseen_node", "2a"),
    "missing classes": ("seen_graph", "missing_class", "2b"),
    "new client": ("seen_graph", "new_client", "2c"),
    "open set, unseen nodes": ("open_set", "unseen_node", "9a"),
    "open set, missing classes": ("open_set", "missing_class", "9b"),
}
"""Name here: setting whose runs have it, probe, printed table."""


def row(panel: str, configs_: list[Config], store: RecordStore, selection: str) -> dict[str, object] | None:
    """One line of the CSV: our accuracies over splits, percent, and the printed mean; None with fewer than two runs."""
    first = configs_[0]
    dataset, clients, display = first.dataset.name, first.partitioner.clients, first.method.display
    records = [grid.recorded(store, config) for config in configs_]
    found = [r.metrics[PANELS[panel][1]][selection].accuracy for r in records if r is not None]
    values = [100 * value for value in found if value is not None]
    if len(values) < 2:
        return None
    setting, probe, table = PANELS[panel]
    name = f"open_{probe}" if setting == "open_set" else probe
    paper = grid.printed(dataset, clients, display, table, name)
    mean, std = float(np.mean(values)), float(np.std(values))
    return {
        "panel": panel,
        "dataset": dataset,
        "clients": clients,
        "method": display,
        "selection": selection,
        "splits": len(values),
        "mean": round(mean, 2),
        "std": round(std, 2),
        "lowest": round(min(values), 2),
        "highest": round(max(values), 2),
        "printed": None if paper is None else round(paper, 2),
        "agrees": None if paper is None else abs(mean - paper) <= max(2.0, 2 * std),
    }


def draw(table: pd.DataFrame) -> Callable[[Figure], None]:
    """A chart a panel: one bar a cell and method from the lowest split to the highest, the printed mean across it."""

    def on(figure: Figure) -> None:
        panels = list(dict.fromkeys(table["panel"]))
        cells = list(dict.fromkeys(zip(table["dataset"], table["clients"], strict=True)))
        methods = list(dict.fromkeys(table["method"]))
        figure.set_size_inches(2 + 0.75 * len(cells), 1 + 1.9 * len(panels))
        for chart, panel in zip(np.atleast_1d(figure.subplots(len(panels), 1, sharex=True)), panels, strict=True):
            for number, method in enumerate(methods):
                color, mark, _ = charts.style(number)
                own = table[(table["panel"] == panel) & (table["method"] == method)]
                at = [cells.index(cell) for cell in zip(own["dataset"], own["clients"], strict=True)]
                x = np.array(at) + (number - (len(methods) - 1) / 2) * 0.8 / len(methods)
                chart.vlines(x, own["lowest"], own["highest"], color=color, lw=5, alpha=0.35)
                chart.scatter(x, own["mean"], color=color, marker=mark, s=16, label=f"{method}, mean over splits")
                label = "printed" if number == 0 else None
                chart.scatter(x, own["printed"].astype(float), color="black", marker="_", s=90, lw=1.6, label=label)
            charts.tidy(chart, "", "accuracy in %", panel)
            chart.set_xticks(
                range(len(cells)), [f"{spelled(dataset)}\nK = {clients}" for dataset, clients in cells], fontsize=8
            )
        charts.legend(figure)

    return on


def main() -> int:
    """Run what is missing, print, write and draw."""
    parser = grid.parser(__doc__, datasets="cora", clients="3,5,10", methods="fedavg", splits="0,1,2,3,4")
    parser.add_argument("--settings", default="seen_graph,open_set", help="closed set, open set or both")
    parser.add_argument("--protocol", default="fedlog_matched", help="default fedlog_matched")
    parser.add_argument("--recorded", action="store_true", help="run nothing, show what is recorded")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    store = RecordStore(args.records)
    runs = {
        (setting, dataset, clients, method): [
            configs.override(
                configs.build(dataset=dataset, clients=clients, method=method, setting=setting, protocol=args.protocol),
                {"protocol.split_seed": split},
            )
            for split in args.splits
        ]
        for setting in grid.words(args.settings)
        for dataset, clients, method in grid.cells(args)
    }
    if not args.recorded and not run_all([config for cell in runs.values() for config in cell], args.jobs, store).ok:
        return 1
    rows = [
        found
        for panel, (setting, _, _) in PANELS.items()
        for key, cell in runs.items()
        if key[0] == setting
        for selection in ("best", "last")
        if (found := row(panel, cell, store, selection)) is not None
    ]
    if not rows:
        raise UserError("no cell has runs of two splits: leave out --recorded, or give the --records they are in.")
    table = pd.DataFrame(rows)
    folder = args.results / "fedlog" / args.protocol
    write_atomic(folder / "splits.csv", table.to_csv(index=False))
    charts.save(
        draw(table[table["selection"] == "best"]),
        "Each cell over splits, lowest to highest, and the printed mean",
        folder,
        "splits",
        ("png",),
    )
    print(table.drop(columns="selection")[table["selection"] == "best"].to_string(index=False))
    known = table.dropna(subset="printed")
    print(known.groupby(["method", "selection", "panel"])["agrees"].agg(["sum", "count"]).to_string())
    return 0


if __name__ == "__main__":
    grid.run(main)
