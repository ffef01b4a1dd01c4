"""Tables of numbers beside print, from their published CSVs, as the data of an interactive page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fgl_repro.fl.metrics import METRICS
from fgl_repro.tables.entries import ACCURACY, place
from fgl_repro.tables.published import Words, lines_of
from fgl_repro.tables.results import Stat
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.verdict import LEVEL
from fgl_repro.web.runs import Runs

WHO = ("panel", "dataset", "clients", "method", "name", "variant")
"""Columns that name a cell."""


def data(spec: TableSpec, folder: Path, runs: Runs) -> dict[str, Any]:
    """Collect what the page of a table shows: a line a cell, at the round that the protocol prints.

    Args:
        folder: Where ``table_*.csv`` and ``compare_*.csv`` lie.
        runs: Where the runs behind a number are found.
    """
    beside = {_who(line): line for line in lines_of(folder / f"compare_{spec.table}.csv")}
    own = {_who(line): line for line in lines_of(folder / f"{spec.stem}.csv") if line["printed"] == "1"}
    kinds = {panel.name: METRICS[spec.metric_name(panel)] for panel in spec.panels}
    cells = []
    for who, line in beside.items():
        kind = kinds.get(line["panel"], METRICS[ACCURACY])
        cells.append(_cell(line, own[who], kind.scale, runs))
    panels = {panel.name: panel for panel in spec.panels}
    return {
        "panels": [
            {"name": name, "title": panels[name].title, "error": kinds[name].error}
            for name in dict.fromkeys(line["panel"] for line in beside.values())
        ],
        "columns": {f"{line['dataset']},{line['clients']}": _column(line) for line in beside.values()},
        "methods": list(dict.fromkeys(_label(line) for line in beside.values())),
        "proposed": spec.proposed,
        "cells": cells,
        "beat": _to_beat(cells, {name: kind.error for name, kind in kinds.items()}, own),
    }


def _who(line: Words) -> tuple[str, ...]:
    return tuple(line[name] for name in WHO)


def _label(line: Words) -> str:
    return f"{line['name']} ({line['variant']})" if line["variant"] else line["name"]


def _column(line: Words) -> str:
    return place(line["dataset"], int(line["clients"]))


def _number(text: str, scale: float = 1.0) -> float | None:
    return round(scale * float(text), 4) if text else None


def _cell(line: Words, own: Words, scale: int, runs: Runs) -> dict[str, Any]:
    at = line["printed_selection"]
    keys = own["runs"].split()
    return {
        **{"panel": line["panel"], "column": f"{line['dataset']},{line['clients']}", "method": _label(line)},
        **{"id": line["method"], "probe": own["probe"], "selection": at, "metric": own["metric"]},
        **{"mean": _number(own["mean"], scale), "std": _number(own["std"], scale), "status": own["status"]},
        **{"seeds": int(own["n_seeds"]), "wanted": int(own["wanted"]), "chosen": own["chosen"]},
        **{"paper": _number(line["paper_mean"], scale), "paper_std": _number(line["paper_std"], scale)},
        **{"suspect": line["suspect"] == "1", "note": line["note"], "fitted": line["fitted"] == "1"},
        **{"gap": _number(line[f"{at}_points"]), "half": _number(line[f"{at}_half"])},
        **{"verdict": line[f"{at}_verdict"], "why": line[f"{at}_silent"], "old": line[f"{at}_old_rule"]},
        **{"keys": keys, "files": runs.files(keys)},
    }


def _to_beat(
    cells: list[dict[str, Any]], errors: Mapping[str, bool], own: Mapping[tuple[str, ...], Words]
) -> dict[str, dict[str, Any]]:
    """Find in every column the best of our rows and of print, and the mean from which a new row would be told apart.

    Told apart: a t-test between two rows of as many runs and the same std, two-sided, at the level of the verdicts.
    """
    from scipy.stats import t

    ddof = next((int(line["ddof"]) for line in own.values() if line["ddof"]), 1)
    out: dict[str, dict[str, Any]] = {}
    for where in dict.fromkeys((cell["panel"], cell["column"]) for cell in cells):
        sign = -1 if errors.get(where[0]) else 1
        there = [cell for cell in cells if (cell["panel"], cell["column"]) == where]
        ours = max((c for c in there if c["mean"] is not None), key=lambda c: sign * c["mean"], default=None)
        printed = [c for c in there if c["paper"] is not None and not c["suspect"]]
        paper = max(printed, key=lambda c: sign * c["paper"], default=None)
        found: dict[str, Any] = {}
        if ours is not None:
            found = {"method": ours["method"], "mean": ours["mean"], "std": ours["std"], "seeds": ours["seeds"]}
            over_seeds = Stat(ours["mean"], ours["std"], n := ours["seeds"])
            if n > 1 and (std := over_seeds.restated(ddof, 1).std) is not None:
                found["needed"] = round(
                    ours["mean"] + sign * t.ppf(1 - LEVEL / 2, 2 * n - 2) * std * math.sqrt(2 / n), 4
                )
        if paper is not None:
            found |= {"printed": paper["method"], "paper": paper["paper"]}
        out["|".join(where)] = found
    return out
