"""How numbers, cells and grids are written, in markdown and in CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from tabulate import tabulate

from fgl_repro.tables.results import NO_RESULT, Result, Stat


def number(value: Stat | None, form: str) -> str:
    """Write ``86.01 ± 1.18`` (percent), ``0.5442 ± 0.0146`` (error), ``0.8601 (0.0118)`` (fraction); blank for None."""
    if value is None:
        return ""
    scale, digits = (100, 2) if form == "percent" else (1, 4)
    mean, std = f"{scale * value.mean:.{digits}f}", f"{scale * (value.std or 0.0):.{digits}f}"
    if value.std is None:
        return mean
    return f"{mean} ({std})" if form == "fraction" else f"{mean} ± {std}"


def cell_text(found: Result, selection: str, form: str, costs: bool = False) -> str:
    """Write a cell as tables print it: number and, where seeds are missing, how many there are; or why there is none.

    Args:
        costs: Whether it also tells what the missing seeds would take.
    """
    if found.status in NO_RESULT:
        return NO_RESULT[found.status]
    if found.status == "empty":
        return "no rows"
    value = found.at(selection)
    text = number(value, form)
    counts = ", ".join(filter(None, (f"{value.n} of {found.wanted}" if value else "", found.lost)))
    few = f"[{counts}]" if value is not None and value.n < found.wanted else ""
    return " ".join(filter(None, (text, few, found.to_run if costs else "")))


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """Write CSV with unix line ends, so that equal numbers are equal bytes everywhere; columns as in the first row."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def decimal(value: float | None, digits: int) -> str:
    """Write a number of a CSV, blank for None."""
    return "" if value is None else f"{value:.{digits}f}"


def columns_of(value: Stat | None, digits: int, *names: str) -> dict[str, Any]:
    """Give mean, std and count of seeds as columns of a CSV that have these names; a third name may be left out."""
    parts = ("", "", 0) if value is None else (decimal(value.mean, digits), decimal(value.std, digits), value.n)
    return dict(zip(names, parts, strict=False))


def signed(value: float | None) -> str:
    """Write points with their sign, blank for None."""
    return "" if value is None else f"{value:+.2f}"


def seed_range(counts: Iterable[int]) -> str:
    """Say over how many seeds numbers are: ``3 seeds``, ``1 to 3 seeds``; blanks (0) are left out."""
    ran = {int(count) for count in counts} - {0}
    if len(ran) < 2:
        return f"{max(ran, default=0)} seed{'' if ran == {1} else 's'}"
    return f"{min(ran)} to {max(ran)} seeds"


def grid_text(heads: Sequence[str], rows: Sequence[Sequence[object]], numbers_from: int = 1) -> str:
    """Write a markdown table, aligned so that it also reads well as plain text."""
    align = ["left" if i < numbers_from else "right" for i in range(len(heads))]
    return tabulate(rows, heads, tablefmt="pipe", colalign=align, disable_numparse=True)
