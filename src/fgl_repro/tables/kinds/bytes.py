"""Megabytes one client sends and receives over a run, from the counter of its record (FedLoG's Table 5)."""

from __future__ import annotations

from typing import Any

from fgl_repro.runs.record import Record
from fgl_repro.runs.store import Source
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.common import decimal, told
from fgl_repro.tables.results import Stat, grid_text
from fgl_repro.tables.spec import Cell, TableSpec

DIRECTIONS = ("up", "down")
METRIC = "communication_cost"


def megabytes(record: Record, phase: str, directions: tuple[str, ...] = DIRECTIONS) -> float:
    """Megabytes (10^6) of one client in the ``rounds``, or in the ``setup``: all phases before; over all fields."""
    counted = [sent for name, sent in record.bytes.items() if (name == "rounds") == (phase == "rounds")]
    return sum(sum(sent.get(direction, {}).values()) for sent in counted for direction in directions) / 1e6


def content(spec: TableSpec, protocol: str, source: Source) -> Content:
    """A grid a data set: up, down, both, printed, ratio, and what was sent once before round 0."""
    rows, grids, done = [], [], 0
    for title, cells in common.columns(spec):
        body = []
        for cell in cells:
            line = _line(spec, protocol, cell, source)
            done += line["found"]["both"] is not None
            rows.append(_csv(spec, protocol, cell, line))
            body.append([cell.row.label, *_shown(line, len(spec.seeds))])
        heads = ["method", "up", "down", "both", "paper", "ours / paper", "set-up"]
        grids.append(f"### {title}\n\n{grid_text(heads, body)}")
    return Content(rows, "\n\n".join(grids), done, len(rows))


def _line(spec: TableSpec, protocol: str, cell: Cell, source: Source) -> dict[str, Any]:
    records = common.recorded(spec, cell, protocol, source)
    sums = {"up": ("rounds", ("up",)), "down": ("rounds", ("down",)), "both": ("rounds", DIRECTIONS)}
    sums["setup"] = ("setup", DIRECTIONS)
    found = {name: common.stat([megabytes(r, *part) for r in records]) for name, part in sums.items()}
    return {
        "found": found,
        "paper": reference.numbers(spec.option("reference"), "method", metric=METRIC).get(cell.row.name),
    }


def _ratio(ours: Stat | None, theirs: float | None) -> float | None:
    return ours.mean / theirs if ours and theirs else None


def _shown(line: dict[str, Any], wanted: int) -> list[str]:
    found, paper = line["found"], line["paper"]
    values = [told(found[name], 2, wanted) for name in ("up", "down", "both")]
    return [*values, decimal(paper, 2), decimal(_ratio(found["both"], paper), 3), told(found["setup"], 2, wanted)]


def _csv(spec: TableSpec, protocol: str, cell: Cell, line: dict[str, Any]) -> dict[str, Any]:
    found, paper = line["found"], line["paper"]
    out = common.head(spec, protocol, cell)
    for name, value in found.items():
        out[f"{name}_mb"] = decimal(value.mean if value else None, 6)
    both = found["both"]
    out |= {"both_std": decimal(both.std if both else None, 6), "n_seeds": both.n if both else 0}
    return out | {"wanted": len(spec.seeds), "paper_mb": decimal(paper, 2), "ratio": decimal(_ratio(both, paper), 4)}
