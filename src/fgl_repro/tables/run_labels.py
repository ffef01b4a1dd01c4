"""What a run is called by the table that it is pushed for, so that charts average nothing but seeds.

A method and its variant are not enough where rows differ in other overrides or in the model, or panels in the world.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from fgl_repro.core.errors import UserError
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import needs
from fgl_repro.tables.entries import Cell, place
from fgl_repro.tables.spec import TableSpec

ROW, COLUMN, PLACED = "row", "column", "cell_name"
"""Entries of a logged run's config: its row (and panels), its data set and clients as the table has them, and both."""


def labels(spec: TableSpec, protocol: str, source: RunSource) -> dict[str, dict[str, str]]:
    """Name every run that the table prints and that can be named yet, by its key; a part names it as the whole does."""
    found: list[tuple[Cell, Sequence[str]]] = []
    for cell in replace(spec, rows=(spec.whole or spec).rows).planned():
        with suppress(UserError):  # of a row outside the part: what is pushed has been composed before
            found.append((cell, needs.chosen_keys(spec, cell, protocol, source)[0]))
    return named(found, len(spec.panels))


def named(cells: Iterable[tuple[Cell, Sequence[str]]], panels: int) -> dict[str, dict[str, str]]:
    """Name every run, by its key, from the cells that it stands in.

    Panels are told where a run does not serve all of them; one that several columns share stands in the first.
    """
    of_run: dict[str, list[Cell]] = {}
    for cell, keys in cells:
        for key in keys:
            of_run.setdefault(key, []).append(cell)
    return {key: _labels(own, panels) for key, own in of_run.items()}


def _labels(cells: Sequence[Cell], panels: int) -> dict[str, str]:
    """Name a run by its first cell, and what shares the run with it: no other run has this first cell."""
    first = cells[0]
    here = [cell for cell in cells if (cell.dataset, cell.clients) == (first.dataset, first.clients)]
    row = " = ".join(cell.row.id for cell in here if cell.panel == first.panel)
    own = [cell.panel.name for cell in here if cell.row == first.row]
    if len(own) < panels:
        row = f"{row} ({', '.join(own)})"
    column = place(first.dataset, first.clients)
    return {ROW: row, COLUMN: column, PLACED: f"{column}: {row}"}
