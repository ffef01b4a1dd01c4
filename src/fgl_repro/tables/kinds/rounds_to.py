"""Rounds, and megabytes of one client, until an accuracy is reached, from the curves of runs (FedLoG's Table 6).

The curve is one of *test* accuracy, as in the paper. It is looked at afterwards and chooses nothing. ``options.target``
is the accuracy, a fraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fgl_repro.runs.store import RunSource
from fgl_repro.tables import printed_pairs, reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.bytes import megabytes
from fgl_repro.tables.kinds.common import CellLines, stat_text
from fgl_repro.tables.printed_pairs import PrintedPair
from fgl_repro.tables.printing import columns_of, decimal
from fgl_repro.tables.results import Stat
from fgl_repro.tables.spec import TableSpec

CURVES = "all"
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
    """Find the first round, counted from 1, with at least ``target``; None if there is none."""
    return next((n for n, value in enumerate(curve, 1) if value is not None and value >= target), None)


def reached(spec: TableSpec, cell: Cell, protocol: str, source: RunSource) -> Reached:
    """Tell when the runs of a cell got to ``options.target``."""
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


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid: methods down; rounds and megabytes beside the printed ones; verdicts are on rounds."""
    file, wanted = spec.printed_file, len(spec.seeds)
    printed = [reference.numbers(file, "method", metric=metric) for metric in (ROUNDS, COST)]
    pairs: list[PrintedPair] = []
    reach = {cell: reached(spec, cell, protocol, source) for cell in spec.cells()}

    def line(cell: Cell) -> CellLines:
        found = reach[cell]
        rounds, cost = (numbers.get(cell.row.name) for numbers in printed)
        there = f"{found.there} of {found.seeds}" if found.seeds else ""
        words = [cell.row.label, stat_text(found.rounds, 1, wanted), there, decimal(rounds, 0)]
        pairs.append(PrintedPair(f"rounds of {cell.row.label}", found.rounds, rounds, whole=0, step=1))
        row = common.head(spec, protocol, cell) | {"probe": cell.panel.probe, "target": spec.option("target")}
        row |= columns_of(found.rounds, 6, "rounds", "rounds_std")
        row |= columns_of(found.megabytes, 6, "mb", "mb_std")
        row |= {"n_seeds": found.seeds, "n_reached": found.there, "wanted": wanted, "without_curves": found.bare}
        row |= {"paper_rounds": decimal(rounds, 0), "paper_mb": decimal(cost, 2)}
        return [*words, stat_text(found.megabytes, 2, wanted), decimal(cost, 2)], [row]

    heads = ["method", "rounds", "reached by", "paper", "MB", "paper"]
    bare = [common.UNASKED] * sum(found.bare for found in reach.values())
    content = common.filled(spec, heads, line, wanted, bare)
    return printed_pairs.with_verdicts(content, pairs)
