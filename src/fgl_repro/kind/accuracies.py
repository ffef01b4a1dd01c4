"""Accuracies of variants of a method over probes, for figures that a grid of numbers stands behind."""

from __future__ import annotations

from fgl_repro import tables
from fgl_repro.records import Source
from fgl_repro.tables import SAID, Table, grid_text, shown
from fgl_repro.tablespec import Cell, TableSpec, spelled


def filled(spec: TableSpec, protocol: str, source: Source) -> Table:
    """The grid, as for a table."""
    return tables.fill(spec, protocol, source)


def body(table: Table) -> str:
    """Rows down, panels across, a grid for each data set and client count, at the protocol's round."""
    spec, grids = table.spec, []
    heads = ["", *(panel.title for panel in spec.panels)]
    for dataset in spec.datasets:
        for clients in spec.clients:
            lines = [
                [
                    row.label,
                    *(
                        shown(table.results[Cell(panel, row, dataset, clients)], table.selection, spec.format)
                        for panel in spec.panels
                    ),
                ]
                for row in spec.rows
            ]
            grids.append(f"### {spelled(dataset)}, {clients} clients\n\n{grid_text(heads, lines)}")
    return f"Accuracy in percent, {SAID[table.selection]}, mean and std over seeds.\n\n" + "\n\n".join(grids)


def tally(table: Table) -> tuple[int, int]:
    """Complete cells, and all."""
    return sum(found.status == "complete" for found in table.results.values()), len(table.results)


def point(table: Table, cell: Cell, x: float) -> list[tuple[float, float, float]]:
    """The cell at the protocol's round as a point of a chart (x, mean, std in percent), none where nothing ran."""
    found = table.results[cell].at(table.selection)
    return [] if found is None else [(x, 100 * found.mean, 100 * (found.std or 0.0))]
