"""Does the method that a paper proposes win, as it does in print? Counted over the columns of a panel."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_repro.tables import reference
from fgl_repro.tables.results import Grid
from fgl_repro.tables.spec import Cell, Panel, Row, TableSpec


@dataclass(frozen=True)
class Wins:
    """One row of the proposed method (a variant of it) against every baseline that ran.

    Attributes:
        row: The proposed method's.
        columns: Data set and client counts where it and at least one baseline have a number.
        above: How many of them it leads, all baselines strictly below.
        best: Label of the row with the highest mean over the columns that all compared rows have; empty without any.
    """

    row: Row
    columns: int
    above: int
    best: str


def wins(table: Grid, panel: Panel, selection: str) -> list[Wins]:
    """A line for each row of the paper's own method; none where the table does not say which that is."""
    spec = table.spec
    rivals = [row for row in spec.rows if row.name != spec.proposed]
    return [_wins(table, panel, selection, row, rivals) for row in spec.rows if row.name == spec.proposed]


def _wins(table: Grid, panel: Panel, selection: str, own: Row, rivals: list[Row]) -> Wins:
    grid = {row: _means(table, panel, row, selection) for row in [own, *rivals]}
    grid = {row: means for row, means in grid.items() if means}
    others = [means for row, means in grid.items() if row != own]
    columns = above = 0
    for place, value in grid.get(own, {}).items():
        against = [means[place] for means in others if place in means]
        columns += bool(against)
        above += bool(against) and value > max(against)
    if not columns:
        return Wins(own, 0, 0, "")
    shared = set.intersection(*(set(means) for means in grid.values()))
    sums = {row.label: sum(means[place] for place in shared) for row, means in grid.items()}
    return Wins(own, columns, above, max(sums, key=lambda label: sums[label]) if shared else "")


def _means(table: Grid, panel: Panel, row: Row, selection: str) -> dict[tuple[str, int], float]:
    out = {}
    for dataset in table.spec.datasets:
        for clients in table.spec.clients:
            found = table.results[Cell(panel, row, dataset, clients)].at(selection)
            if found is not None:
                out[dataset, clients] = found.mean
    return out


def in_print(spec: TableSpec, panel: Panel) -> tuple[int, int]:
    """Columns in which the paper prints its own method above every other (misprints aside), and all columns."""
    numbers = reference.of_panel(panel)
    above = columns = 0
    for (dataset, clients, name), own in numbers.items():
        if name == spec.proposed and dataset in spec.datasets and clients in spec.clients:
            columns += 1
            others = (v for (d, k, n), v in numbers.items() if d == dataset and k in (clients, 0) and n != name)
            above += all(own.mean > other.mean for other in others if not other.suspect)
    return above, columns
