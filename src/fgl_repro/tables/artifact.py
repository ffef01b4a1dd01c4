"""Tables that are no grid of accuracies, and figures: what each kind of them makes of records, and where that goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgl_repro.core import registry as scan
from fgl_repro.core.files import write_atomic
from fgl_repro.runs.store import Source
from fgl_repro.tables.results import csv_text, seeds_said
from fgl_repro.tables.spec import TableSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Content:
    """What a kind makes of the records there are.

    Attributes:
        rows: Every number, one a line, with the printed one beside it: the CSV.
        body: The same for people, as markdown.
        done: How many of the numbers are there.
        wanted: How many there would be.
        summary: The body in short for the fidelity report; empty: the body itself.
        draw: Draws a figure from ``rows``; None for tables.
    """

    rows: list[dict[str, Any]]
    body: str
    done: int
    wanted: int
    summary: str = ""
    draw: Callable[[Figure], None] | None = None


@dataclass(frozen=True)
class Sheet:
    """A spec with its content under one protocol."""

    spec: TableSpec
    protocol: str
    content: Content

    @property
    def title(self) -> str:
        return self.spec.full_title

    @property
    def page(self) -> str:
        """Title, how to read it, numbers."""
        note = ["", self.spec.note] if self.spec.note else []
        lines = [f"# {self.title}", "", f"Protocol `{self.protocol}`.", *note, "", self.content.body]
        return "\n".join(lines) + "\n"

    @property
    def has_page(self) -> bool:
        """Whether its numbers are written as a page: always, but for drawings of what no paper prints."""
        return self.content.draw is None or "reference" in self.spec.options

    @property
    def written(self) -> list[str]:
        """Names of its files."""
        kinds = ["csv", *(["md"] if self.has_page else []), *(["png", "svg"] if self.content.draw else [])]
        return [f"{self.spec.stem}.{kind}" for kind in kinds]


def make(spec: TableSpec, protocol: str, source: Source) -> Sheet:
    """Fill ``spec`` from whatever records there are.

    Raises:
        UserError: No module of ``fgl_repro.tables.kinds`` makes ``spec.kind``.
    """
    content: Callable[[TableSpec, str, Source], Content] = scan.find(
        "fgl_repro.tables.kinds", spec.kind, "content", "kind"
    )
    return Sheet(spec, protocol, content(spec, protocol, source))


def write(sheet: Sheet, folder: Path) -> list[Path]:
    """CSV, page and drawings into ``folder``; returns the files."""
    write_atomic(folder / f"{sheet.spec.stem}.csv", csv_text(sheet.content.rows))
    if sheet.has_page:
        write_atomic(folder / f"{sheet.spec.stem}.md", sheet.page)
    if sheet.content.draw is not None:
        from fgl_repro.tables.figures import charts

        seeds = seeds_said(row.get("n_seeds", 0) for row in sheet.content.rows)
        title = f"{sheet.title}\nprotocol {sheet.protocol}, mean and one std over {seeds}"
        charts.save(sheet.content.draw, title, folder, sheet.spec.stem)
    return [folder / name for name in sheet.written]
