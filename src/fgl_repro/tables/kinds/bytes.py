"""Megabytes one client sends and receives over a run, from the counter of its record (FedLoG's Table 5)."""

from __future__ import annotations

from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.common import CellLines, stat_text
from fgl_repro.tables.printing import columns_of, decimal
from fgl_repro.tables.spec import TableSpec

DIRECTIONS = ("up", "down")
METRIC = "communication_cost"


def megabytes(record: Record, phase: str, directions: tuple[str, ...] = DIRECTIONS) -> float:
    """Count megabytes (10^6) of a client in the ``rounds``, or in the ``setup``: all other phases; over all fields."""
    counted = [sent for name, sent in record.bytes.items() if (name == "rounds") == (phase == "rounds")]
    return sum(sum(sent.get(direction, {}).values()) for sent in counted for direction in directions) / 1e6


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid a data set: up, down, both, printed, ratio, and what was sent once before round 0."""
    printed, wanted = reference.numbers(spec.printed_file, "method", metric=METRIC), len(spec.seeds)

    def line(cell: Cell) -> CellLines:
        records, theirs = common.recorded(spec, cell, protocol, source), printed.get(cell.row.name)
        sums = (("rounds", ("up",)), ("rounds", ("down",)), ("rounds", DIRECTIONS), ("setup", DIRECTIONS))
        up, down, both, setup = (common.stat([megabytes(record, *part) for record in records]) for part in sums)
        ratio = both.mean / theirs if both and theirs else None
        words = [stat_text(value, 2, wanted) for value in (up, down, both)]
        words += [decimal(theirs, 2), decimal(ratio, 3), stat_text(setup, 2, wanted)]
        row = common.head(spec, protocol, cell)
        row |= columns_of(up, 6, "up_mb") | columns_of(down, 6, "down_mb") | columns_of(both, 6, "both_mb")
        row |= columns_of(setup, 6, "setup_mb") | columns_of(both, 6, "both_mb", "both_std", "n_seeds")
        row |= {"wanted": wanted, "paper_mb": decimal(theirs, 2), "ratio": decimal(ratio, 4)}
        return [cell.row.label, *words], [row]

    heads = ["method", "up", "down", "both", "paper", "ours / paper", "set-up"]
    return common.filled(spec, heads, line, 1)
