"""A method of one's own, or any other, as a further row of a paper's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fgl_repro.config import options
from fgl_repro.config.refused import unknown_option
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.tables.entries import Row
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.swept import with_lines


def compares_methods(spec: TableSpec) -> bool:
    """Tell whether the table's rows are methods, and not variations of one."""
    return len({row.method for row in spec.rows}) > 1


def with_rows(spec: TableSpec, words: Sequence[str]) -> TableSpec:
    """Return the table with a row more for each of ``words``: a method, ``method:variant`` or ``method-variant``.

    Raises:
        UserError: There is no such method or variant, the table has it already, or it does not compare methods.
    """
    if not words:
        return spec
    if not compares_methods(spec):
        raise UserError(f"{spec.name} does not compare methods: add to another table, see 'fgl-table list'.")
    rows = tuple(map(_row, words))
    ids = [row.id for row in (*(spec.lines or spec.rows), *rows)]
    if twice := [name for name in ids if ids.count(name) > 1]:
        raise UserError(f"{spec.name} has a row {twice[0]} already: add another method or variant.")
    addition = f"Added to the paper's rows: {', '.join(row.label for row in rows)}."
    note = " ".join(filter(None, (spec.note, addition)))
    wider = with_lines(spec, rows) if spec.sweep else replace(spec, rows=(*spec.rows, *rows))
    new = tuple(row.id for row in wider.rows if row not in spec.rows)
    return replace(wider, added_rows=new, note=note)


def with_rows_where_possible(specs: Sequence[TableSpec], words: Sequence[str]) -> list[TableSpec]:
    """Add rows to those of a paper's tables that compare methods and lack them; without any ``words`` all stay.

    Raises:
        UserError: There is no such method or variant.
    """
    ids = {_row(word).id for word in words}
    lacking = [spec for spec in specs if compares_methods(spec) and not ids & {row.id for row in spec.rows}]
    return [with_rows(spec, words) for spec in (lacking if words else specs)]


def _row(word: str) -> Row:
    method, colon, variant = word.partition(":")
    if method not in (known := options("method")) and not colon:
        before, _, after = word.rpartition("-")  # as tables call a method's variant
        method, variant = (before, after) if before in known else (word, "")
    if method not in known:
        raise UserError(unknown_option("method", method, known))
    kind = registry.options("method").get(method)  # none: a yaml of one's own with a method of ours
    if variant and kind is not None and variant not in kind.variants:
        raise UserError(f"method {method} has no variant {variant}: choose from {', '.join(kind.variants)}.")
    name = vars(kind).get("display", method) if kind is not None else method  # a name is not inherited
    return Row(name, method, {"method.variant": variant} if variant else {})
