"""A table or figure, or a part of it, under one of its protocols, as somebody asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fgl_repro.config import options
from fgl_repro.core.errors import UserError
from fgl_repro.tables.spec import TableSpec

NARROWED = ("datasets", "clients", "methods", "seeds")
"""Options that keep a part of a table."""


@dataclass(frozen=True)
class Request:
    """A whole table or figure, the part of it that is asked for, and the protocol."""

    spec: TableSpec
    part: TableSpec
    protocol: str

    @property
    def is_whole(self) -> bool:
        """Whether all of it is asked for."""
        return self.part == self.spec

    @property
    def to_run(self) -> TableSpec:
        """What is run where it is missing: the part, or of that only the rows that were added."""
        rows = tuple(row for row in self.part.rows if row.id in self.part.added_rows)
        return replace(self.part, rows=rows) if rows else self.part


def row_id(word: str) -> str:
    """Write ``fedpub-paper``, as tables call a method's variant, also for ``fedpub:paper``."""
    return word.replace(":", "-")


def narrowed(spec: TableSpec, protocol: str | None, kept: Mapping[str, Sequence[Any]]) -> Request:
    """Narrow a table to what ``kept`` (a list for each of ``NARROWED``, empty: all) names; rows added are in it.

    Args:
        protocol: None: the table's first.

    Raises:
        UserError: The table does not have the protocol, or lacks what it is narrowed to.
    """
    protocol = protocol or spec.protocols[0]
    if protocol not in spec.protocols:
        own = ", or name it in a table of your own (docs/adding.md)" if protocol in options("protocol") else ""
        raise UserError(f"{spec.name} has no protocol {protocol}: choose from {', '.join(spec.protocols)}{own}.")
    whole = spec.under(protocol)
    methods = [*(row_id(str(name)) for name in kept["methods"]), *whole.added_rows] if kept["methods"] else []
    return Request(whole, whole.narrow(**{**kept, "methods": methods}), protocol)
