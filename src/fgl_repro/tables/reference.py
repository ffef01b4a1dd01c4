"""The printed numbers: ``reference/<paper>/*.csv``, one number a line, read here and nowhere else."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fgl_repro.core.errors import UserError
from fgl_repro.data.catalog import printed_as
from fgl_repro.fl.metrics import METRICS
from fgl_repro.tables.entries import Cell, Panel

FOLDER = Path(__file__).resolve().parent / "reference"

SUSPECT = "suspect"
"""The note of a number that is taken for a misprint has this word, alone or before what makes it one."""


@dataclass(frozen=True)
class Reference:
    """A printed number: a share as a fraction, an error as it is; ``std`` is None where the paper prints none."""

    mean: float
    std: float | None
    note: str
    error: bool = False

    @property
    def suspect(self) -> bool:
        """Whether it is taken for a misprint."""
        return SUSPECT in self.note

    @property
    def whole(self) -> float:
        """What a gap is divided by before it is told: 1 for a share (points), for an error itself (percent)."""
        return self.mean if self.error and self.mean else 1.0


def is_printed(paper: str) -> bool:
    """Tell whether a paper's printed numbers come with the code."""
    return (FOLDER / paper).is_dir()


@cache
def lines(file: str) -> tuple[dict[str, str], ...]:
    """Read every line of a file, its entries by column name.

    Args:
        file: Path below ``reference``; of a table without printed numbers it is empty, and so are the lines.

    Raises:
        UserError: There is no such file.
    """
    if not file:
        return ()
    path = FOLDER / file
    if not path.is_file():
        raise UserError(f"there are no printed numbers at {path}: correct 'reference' in the table's yaml.")
    with open(path, encoding="utf-8", newline="") as text:
        return tuple(csv.DictReader(text))


_KEYS: dict[str, Callable[[str], Any]] = {"dataset": str.lower, "n_clients": lambda text: int(text or 0), "class": int}


def numbers(file: str, *columns: str, value: str = "value", **only: str) -> dict[Any, float]:
    """Read printed numbers by the entries of ``columns``; lines without a number are left out.

    Args:
        columns: One, whose entries are the keys, or several, whose tuples are. Data sets are in lower case; the number
            of clients is 0 where one number is printed for all of them.
        value: Column of the numbers.
        only: Entries that other columns must have.
    """
    out = {}
    for line in lines(file):
        if line[value] and all(line[name] == text for name, text in only.items()):
            out[_key(line, columns)] = float(line[value])
    return out


def misprints(file: str, *columns: str) -> set[Any]:
    """Name the printed numbers that are taken for misprints, by the entries of ``columns`` as ``numbers`` has them."""
    return {_key(line, columns) for line in lines(file) if SUSPECT in line["note"]}


def _key(line: dict[str, str], columns: tuple[str, ...]) -> Any:
    key = tuple(_KEYS.get(column, str)(line[column]) for column in columns)
    return key if len(key) > 1 else key[0]


@cache
def accuracies(
    file: str, setting: str, name: str = "method", metric: str = "accuracy"
) -> dict[tuple[str, int, str], Reference]:
    """Read printed shares or errors by data set in lower case, clients (0: one number for all) and method as printed.

    Args:
        setting: Value of the ``setting`` column.
        name: Column that takes the method's place, where all lines are of one method; or several, as in
            ``method+variant``, whose words are joined by blanks.
    """
    if unknown := [column for column in name.split("+") if column not in lines(file)[0]]:
        raise UserError(f"{file} has no column {unknown[0]}: choose from {', '.join(lines(file)[0])}.")
    out = {}
    error = metric.lower() in METRICS and METRICS[metric.lower()].error
    chosen = [row for row in lines(file) if row["setting"] == setting and row["metric"] == metric and row["value"]]
    for row in chosen:
        unit = 100 if row["unit"] == "percent" else 1
        std = float(row["std"]) / unit if row["std"] else None
        method = " ".join(row[column] for column in name.split("+"))
        place = row["dataset"].lower(), int(row["n_clients"] or 0), method
        out[place] = Reference(float(row["value"]) / unit, std, row["note"], error)
    return out


def percent(file: str, setting: str, place: tuple[str, int, str]) -> float | None:
    """Give a printed mean in percent; None where nothing is printed, or a misprint is.

    Args:
        file, setting: As for ``accuracies``.
        place: Data set, clients, method.
    """
    found = accuracies(file, setting).get(place)
    return None if found is None or found.suspect else 100 * found.mean


def of_panel(panel: Panel) -> dict[tuple[str, int, str], Reference]:
    """Read the paper's numbers for a panel."""
    where = panel.reference
    return accuracies(where.file, where.setting or panel.probe, where.rows, where.metric) if where else {}


def names(dataset: str) -> tuple[str, str]:
    """Say what a data set may be called in the files of printed numbers."""
    return dataset, printed_as(dataset).lower()


def where(cell: Cell) -> tuple[str, int, str] | None:
    """Find data set, clients (0: one number for all) and method under which the paper prints a number for a cell."""
    found = of_panel(cell.panel)
    places = [(name, clients, cell.row.name) for name in names(cell.dataset) for clients in (cell.clients, 0)]
    return next((place for place in places if place in found), None)


def of(cell: Cell) -> Reference | None:
    """Give the paper's number for a cell; None where it prints none."""
    place = where(cell)
    return None if place is None else of_panel(cell.panel)[place]
