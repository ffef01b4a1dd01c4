"""Accuracy at given rounds beside the printed one, from the curves of runs (FED-PUB's Table 6).

Test accuracies, for looking at: nothing is chosen by them.
"""

from __future__ import annotations

from typing import Any

from fgl_repro.runs.store import Source
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.common import decimal, told
from fgl_repro.tables.kinds.curves import curve
from fgl_repro.tables.results import Stat, grid_text
from fgl_repro.tables.spec import TableSpec


def content(spec: TableSpec, protocol: str, source: Source) -> Content:
    """Rows down; ``options.rounds``, counted from 1, across, ours and printed, in percent."""
    rows: list[dict[str, Any]] = []
    grids, bare, wanted, rounds = [], 0, len(spec.seeds), [int(number) for number in spec.option("rounds")]
    paper = by_round(spec)
    for title, cells in common.columns(spec):
        body = []
        for cell in cells:
            name, texts = cell.row.name, []
            line = curve(spec, cell, protocol, source)
            bare += line.bare
            for number in rounds:
                at = line.points[number - 1] if len(line.points) >= number else None
                own = at and Stat(100 * at.mean, None if at.std is None else 100 * at.std, at.n)
                theirs = decimal(paper.get((name, number)), 2)
                texts += [told(own, 2, wanted), theirs]
                rows.append(
                    common.head(spec, protocol, cell)
                    | {"round": number, "accuracy": decimal(own.mean if own else None, 4)}
                    | {"std": decimal(own.std if own else None, 4), "n_seeds": own.n if own else 0}
                    | {"wanted": wanted, "printed": theirs}
                )
            body.append([name, *texts])
        heads = ["", *(head for number in rounds for head in (f"round {number}", "paper"))]
        grids.append(f"### {title}\n\n{grid_text(heads, body)}")
    if bare:
        grids.append(common.without_curves(spec, bare))
    return Content(rows, "\n\n".join(grids), sum(row["n_seeds"] == wanted for row in rows), len(rows))


def by_round(spec: TableSpec) -> dict[tuple[str, int], float]:
    """The paper's numbers by row and round; a row is named by its variant, or else by its method."""
    out = {}
    for line in reference.lines(spec.option("reference")):
        *which, number = line["variant"].split(";")
        out[which[0] if which else line["method"], int(number.removeprefix("epoch="))] = float(line["value"])
    return out
