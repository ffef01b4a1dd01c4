"""What a terminal shows: a bar of what goes on, and text, whose tables are shown in parts where they are wider."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")

LEAST = 20
"""Letters of a shortened column, so that its words are still told apart."""


def write(text: str) -> None:
    """Print text; on a terminal no table is wider than that, to a file or another program everything is as it is."""
    print(cut_to_width(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text)


def watched(items: Sequence[T]) -> Iterable[T]:
    """Pass on the items, with a bar on a terminal's standard error if they take more than two seconds."""
    bar: Iterable[T] = tqdm(items, unit="table", delay=2, leave=False, disable=None)
    return bar


def cut_to_width(text: str, width: int) -> str:
    """Cut tables that are wider than ``width`` letters into parts that each begin with what names the rows."""
    parts = []
    for is_table, lines in groupby(text.split("\n"), lambda line: line.startswith("|") and line.endswith("|")):
        found = list(lines)
        parts += _cut(found, width) if is_table and len(found[0]) > width else found
    return "\n".join(parts)


def _cut(lines: Sequence[str], width: int) -> list[str]:
    """Write a table in parts, with an empty line between them.

    The columns at the left that are aligned to the left name its rows. Where they leave no room for another one, the
    widest of them is shortened; where too little of it would be left, the first names the rows alone.
    """
    grid = [line[1:-1].split("|") for line in lines]
    names = next((at for at, cell in enumerate(grid[1]) if cell.endswith(":")), len(grid[1]))
    across = _widths(grid)
    over = 1 + sum(across[:names]) + max(across[names:], default=0) - width
    if over > 0:
        widest = max(range(names), key=lambda at: across[at])
        if across[widest] - over < LEAST:
            names = 1
        else:
            grid = [[*line[:widest], _shortened(line[widest], over), *line[widest + 1 :]] for line in grid]
            across = _widths(grid)
    out: list[str] = []
    shown = list(range(names))
    for at in range(names, len(across)):
        if len(shown) > names and 1 + sum(across[each] for each in [*shown, at]) > width:
            out += [*_of(grid, shown), ""]
            shown = list(range(names))
        shown.append(at)
    return [*out, *_of(grid, shown)]


def _widths(grid: Sequence[Sequence[str]]) -> list[int]:
    """Measure columns, each with the line at its right."""
    return [len(cell) + 1 for cell in grid[0]]


def _shortened(cell: str, by: int) -> str:
    """Take letters or spaces from the end of a cell."""
    kept = cell[:-by]
    return kept if not cell[-by - 1 :].strip() or cell.endswith("-") else f"{kept[:-2]}… "


def _of(grid: Sequence[Sequence[str]], columns: Sequence[int]) -> list[str]:
    return [f"|{'|'.join(line[at] for at in columns)}|" for line in grid]
