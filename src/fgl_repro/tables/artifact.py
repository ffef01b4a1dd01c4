"""A table or figure, filled: its rows, its page, its drawing and the files they go to, whatever its kind."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgl_repro.core import registry
from fgl_repro.core.files import write_atomic
from fgl_repro.runs.store import RunSource
from fgl_repro.tables.figures import charts
from fgl_repro.tables.printing import csv_text, seed_range
from fgl_repro.tables.results import Grid
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.swept import added_lines

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
        summary: The body in short, for the report; empty: the body itself.
        draw: Draws ``rows``; None for what has no picture.
        page: The whole page; empty: title, note and body.
        screen: What a terminal shows; empty: the page.
        files: Further files by name.
        grid: The accuracies, where they are compared with the printed ones cell by cell.
        shown: What a drawing shows of the seeds, unless it has a grid.
    """

    rows: list[dict[str, Any]]
    body: str
    done: int
    wanted: int
    summary: str = ""
    draw: Callable[[Figure], None] | None = None
    page: str = ""
    screen: str = ""
    files: dict[str, str] = field(default_factory=dict)
    grid: Grid | None = None
    shown: str = "mean and one std"


@dataclass(frozen=True)
class Artifact:
    """A spec with its content under one protocol."""

    spec: TableSpec
    protocol: str
    content: Content

    @property
    def folder(self) -> Path:
        """Its folder below that of all tables."""
        return folder_of(self.spec, self.protocol)

    @property
    def page(self) -> str:
        """Title, how to read it, numbers."""
        head = [f"# {self.spec.full_title}", f"Protocol `{self.protocol}`.", self.spec.note, self.spec.blank]
        return self.content.page or "\n\n".join([*filter(None, head), self.content.body]) + "\n"

    @property
    def screen(self) -> str:
        """What a terminal shows."""
        return self.content.screen or self.page.removeprefix("# ").rstrip()

    @property
    def has_numbers(self) -> bool:
        """Whether any run gave it a number, be it with fewer seeds than it wants."""
        return self.content.done > 0 or any(int(row.get("n_seeds") or 0) for row in self.content.rows)

    @property
    def has_page(self) -> bool:
        """Whether its numbers are written as a page: always, but for drawings of what no paper prints."""
        return self.content.draw is None or "reference" in self.spec.options or self.content.grid is not None

    @property
    def texts(self) -> dict[str, str]:
        """Its text files by name."""
        stem = self.spec.stem
        pages = {f"{stem}.md": self.page} if self.has_page else {}
        return {f"{stem}.csv": csv_text(self.content.rows), **pages, **self.content.files}


def folder_of(spec: TableSpec, protocol: str) -> Path:
    """Return the folder of a paper and protocol, ``fedlog/fedlog_matched``, below that of all tables.

    With rows that a user has added it is another one, ``fedlog+mine/fedlog_matched``.
    """
    return Path("+".join((spec.paper, *added_lines(spec)))) / protocol


def make(spec: TableSpec, protocol: str, source: RunSource) -> Artifact:
    """Fill ``spec`` from whatever records there are."""
    content = registry.find("fgl_repro.tables.kinds", spec.kind, "content", "kind")
    return Artifact(spec, protocol, content(spec, protocol, source))


def blanked(artifact: Artifact, folder: Path) -> int:
    """Count numbers of the CSV in ``folder`` that ``artifact`` would blank, line by line; 0 where lines are others."""
    path = folder / f"{artifact.spec.stem}.csv"
    if not path.exists():
        return 0
    before, after = (list(csv.reader(text.splitlines())) for text in (path.read_text(), artifact.texts[path.name]))
    if len(before) != len(after) or before[0] != after[0]:
        return 0
    pairs = (pair for lines in zip(before[1:], after[1:], strict=True) for pair in zip(*lines, strict=True))
    return sum(_is_number(old) and not new for old, new in pairs)


def _fitted(grid: Grid) -> str:
    """Say before the mean whether settings were chosen by looking at printed numbers, and whether all were."""
    if not grid.fitted:
        return ""
    every = all(set(grid.fitted.get(row.method, ())) == set(grid.spec.datasets) for row in grid.spec.rows)
    return "settings fitted to print, " if every else "some rows' settings fitted to print, "


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def write(artifact: Artifact, folder: Path) -> list[Path]:
    """Write text files and drawings into ``folder``; returns them. A page or drawing it no longer has is removed."""
    spec = artifact.spec
    for name, text in artifact.texts.items():
        write_atomic(folder / name, text)
    drawn: list[Path] = []
    if artifact.content.draw is not None:
        counted = [int(row["n_seeds"] or 0) for row in artifact.content.rows if "n_seeds" in row]
        seeds = seed_range(counted)
        grid, shown = artifact.content.grid, artifact.content.shown
        if grid is not None:
            shown = f"{_fitted(grid)}mean"
        over = f"{shown} over {seeds}" if counted else shown
        what = seeds if (shown, seeds) == (Content.shown, "1 seed") else over
        title = f"{spec.full_title}\nprotocol {artifact.protocol}, {what}"
        kinds = ("png", "svg") if grid is None else ("png",)
        drawn = charts.save(artifact.content.draw, title, folder, spec.stem, kinds)
    written = [*(folder / name for name in artifact.texts), *drawn]
    for old in {folder / f"{spec.stem}.{kind}" for kind in ("md", "png", "svg")}.difference(written):
        old.unlink(missing_ok=True)
    return written
