"""Rounds, and megabytes of one client, until an accuracy is reached, from the curves of runs (FedLoG's Table 6).

The curve is one of *test* accuracy, as in the paper. It is looked at afterwards and chooses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fgl_repro.runs.store import Source
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.bytes import megabytes
from fgl_repro.tables.kinds.common import decimal, told
from fgl_repro.tables.results import Stat, grid_text
from fgl_repro.tables.spec import Cell, TableSpec

ROUNDS, COST = "rounds_to_reach_0.8", "communication_cost_to_reach_0.8"


@dataclass(frozen=True)
class Reached:
    """Rounds and megabytes over seeds; a run that never gets there counts with all it had.

    Attributes:
        seeds: Runs with a curve.
        there: How many of them got there.
        bare: Runs recorded without the curve.
    """

    rounds: Stat | None
    megabytes: Stat | None
    seeds: int
    there: int
    bare: int


def first(curve: Sequence[float | None], target: float) -> int | None:
    """The first round, counted from 1, with at least ``target``; None if there is none."""
    return next((n for n, value in enumerate(curve, 1) if value is not None and value >= target), None)


def reached(spec: TableSpec, cell: Cell, protocol: str, source: Source) -> Reached:
    """When the runs of a cell got to ``options.target``."""
    target = float(spec.option("target"))
    rounds, costs, there, bare = [], [], 0, 0
    for record in common.recorded(spec, cell, protocol, source):
        curve = source.curves(record.key).get(cell.panel.probe, [])
        if not curve:
            bare += 1
            continue
        at = first(curve, target)
        there += at is not None
        rounds.append(float(at or len(curve)))
        costs.append(megabytes(record, "rounds") * rounds[-1] / len(curve))
    return Reached(common.stat(rounds), common.stat(costs), len(rounds), there, bare)


def content(spec: TableSpec, protocol: str, source: Source) -> Content:
    """Methods down; rounds and megabytes beside the printed ones."""
    rows, grids, bare, wanted = [], [], 0, len(spec.seeds)
    file = spec.option("reference")
    printed = {metric: reference.numbers(file, "method", metric=metric) for metric in (ROUNDS, COST)}
    for title, cells in common.columns(spec):
        body = []
        for cell in cells:
            found = reached(spec, cell, protocol, source)
            bare += found.bare
            paper = [printed[metric].get(cell.row.name) for metric in (ROUNDS, COST)]
            shown = [told(found.rounds, 1, wanted), _there(found), decimal(paper[0], 0)]
            body.append([cell.row.label, *shown, told(found.megabytes, 2, wanted), decimal(paper[1], 2)])
            rows.append(common.head(spec, protocol, cell) | _numbers(spec, cell, found, paper))
        heads = ["method", "rounds", "reached by", "paper", "MB", "paper"]
        grids.append(f"### {title}\n\n{grid_text(heads, body)}")
    if bare:
        grids.append(common.without_curves(spec, bare))
    return Content(rows, "\n\n".join(grids), sum(row["n_seeds"] == wanted for row in rows), len(rows))


def _there(found: Reached) -> str:
    return f"{found.there} of {found.seeds}" if found.seeds else ""


def _numbers(spec: TableSpec, cell: Cell, found: Reached, paper: Sequence[float | None]) -> dict[str, object]:
    out: dict[str, object] = {"probe": cell.panel.probe, "target": spec.option("target")}
    for name, value in (("rounds", found.rounds), ("mb", found.megabytes)):
        out[name] = decimal(value.mean if value else None, 6)
        out[f"{name}_std"] = decimal(value.std if value else None, 6)
    out |= {"n_seeds": found.seeds, "n_reached": found.there, "wanted": len(spec.seeds), "without_curves": found.bare}
    return out | {"paper_rounds": decimal(paper[0], 0), "paper_mb": decimal(paper[1], 2)}
