"""Accuracy, or another curve, at given rounds beside the printed one (FED-PUB's Table 6).

Test accuracies, for looking at: nothing is chosen by them. ``options``: ``rounds``, counted from 1; ``reference``, the
printed numbers; ``beside``, what stands above those, and ``verdicts``, with whom ours are compared; ``curve`` and
``label`` as in ``curves``.
"""

from __future__ import annotations

from fgl_repro.runs.store import RunSource
from fgl_repro.tables import printed_pairs, reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.common import CellLines, stat_text
from fgl_repro.tables.kinds.curves import curve, quantity
from fgl_repro.tables.printed_pairs import PrintedPair
from fgl_repro.tables.printing import columns_of, decimal
from fgl_repro.tables.spec import TableSpec

CURVES, TRACED = "all", "validation"


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid: rows down, rounds across, ours and printed, as they are told."""
    kind = quantity(spec, spec.panels[0])
    rounds, wanted = [int(number) for number in spec.option("rounds")], len(spec.seeds)
    pairs: list[PrintedPair] = []
    digits, beside = 3 if kind.error else 2, str(spec.options.get("beside", "paper"))
    paper, found = by_round(spec), {cell: curve(spec, cell, protocol, source) for cell in spec.cells()}

    def line(cell: Cell) -> CellLines:
        texts: list[object] = [cell.row.name]
        rows = []
        for number in rounds:
            own = next((common.scaled(point, kind) for point in found[cell].points[number - 1 : number]), None)
            theirs = paper.get((cell.row.name, number))
            pairs.append(PrintedPair(f"{cell.row.name}, round {number}", own, theirs, 0.0 if kind.error else 100.0))
            texts += [stat_text(own, digits, wanted), decimal(theirs, digits)]
            row = common.head(spec, protocol, cell) | {"round": number}
            row |= columns_of(own, 4, kind.entry, "std", "n_seeds")
            rows.append(row | {"wanted": wanted, "printed": decimal(theirs, digits)})
        return texts, rows

    heads = ["", *(head for number in rounds for head in (f"round {number}", beside))]
    bare = [why for curve in found.values() for why in curve.bare]
    content = common.filled(spec, heads, line, wanted, bare)
    return printed_pairs.with_verdicts(content, pairs, str(spec.options.get("verdicts", "print")))


def by_round(spec: TableSpec) -> dict[tuple[str, int], float]:
    """Read the paper's numbers by row and round; a row is named by its variant, or else by its method."""
    out = {}
    for line in reference.lines(spec.printed_file):
        *which, number = line["variant"].split(";")
        out[which[0] if which else line["method"], int(number.removeprefix("epoch="))] = float(line["value"])
    return out
