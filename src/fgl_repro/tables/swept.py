"""Rows of a table that sweeps: each row of its yaml, a line, with every combination of what is swept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from fgl_repro.tables.entries import Row
from fgl_repro.tables.spec import TableSpec


def with_lines(spec: TableSpec, lines: Sequence[Row]) -> TableSpec:
    """Add further lines to the table, each swept; one alone needs no name, as what is swept tells its rows apart."""
    every = (*spec.lines, *lines)
    named = every if len(every) > 1 else [replace(row, name="") for row in every]
    rows = [each for row in named for each in swept(row, spec.sweep, spec.around)]
    return replace(spec, rows=tuple(rows), lines=every)


def swept(row: Row, sweep: Mapping[str, Sequence[Any]], around: Mapping[str, Any] | None = None) -> list[Row]:
    """Repeat ``row`` with every combination of the values of ``sweep``, the last override moving fastest.

    Args:
        around: A value of each; combinations that leave it in more than one are left out.
    """
    rows = []
    for values in product(*sweep.values()):
        if around and sum(around[dotted] != value for dotted, value in zip(sweep, values, strict=True)) > 1:
            continue
        parts = [f"{dotted.rpartition('.')[2]} = {value}" for dotted, value in zip(sweep, values, strict=True)]
        overrides = row.overrides | dict(zip(sweep, values, strict=True))
        name = ", ".join([*filter(None, [row.name]), *parts])
        own = "-".join([row.id, *parts]).replace(" ", "")
        rows.append(replace(row, name=name, overrides=overrides, id=own, line=row.id))
    return rows


def added_lines(spec: TableSpec) -> tuple[str, ...]:
    """List the ids of rows that a user has added, each line by its own one instead of those of its swept rows."""
    ids = {line.id: {row.id for row in swept(line, spec.sweep, spec.around)} for line in spec.lines}
    return tuple(line for line, own in ids.items() if own <= {*spec.added_rows}) if ids else spec.added_rows


def line_of(spec: TableSpec, row: Row) -> Row:
    """Find the row of the yaml that was swept into ``row``."""
    return next(line for line in spec.lines if line.id == row.line)


def rows_by_line(spec: TableSpec) -> dict[Row, list[Row]]:
    """List the rows that there are of each line; a line of which none is left is not among them."""
    found = {line: [row for row in spec.rows if row.line == line.id] for line in spec.lines}
    return {line: rows for line, rows in found.items() if rows}
