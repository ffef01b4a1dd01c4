"""What a site is made from, and the folder in which it grows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fgl_repro.tables.artifact import Artifact
from fgl_repro.tables.spec import TableSpec
from fgl_repro.web.runs import CurvesByRun, Runs

Watched = Callable[[list[Any]], Iterable[Any]]
"""Goes through a list and shows a bar while it does."""

WIDE = "---\nhide: [toc]\n---\n\n"
"""Leaves a page's table of contents out, for the sake of a wide table."""
BARE = "---\nhide: [toc, navigation]\n---\n\n"
"""The same, and the navigation at its side."""
LATER = "---\nsearch: {boost: 0.5}\n---\n\n"
"""Has the search name a page, as a dated note, below others with the same words."""


def titled(front: str, title: str) -> str:
    """Give a page another title in tabs and its header than in the navigation, where it stands below its paper."""
    return front.replace("---\n\n", f"title: {json.dumps(title)}\n---\n\n")


@dataclass(frozen=True)
class Sources:
    """What a site is made from.

    Attributes:
        results: What is published: pages, CSVs, pictures.
        own: Tables of a user's own, written as published ones are; they may be of no paper of ours.
        guides: Markdown files about use.
        specs: Tables and figures by paper, those that the site is narrowed to.
        runs: Every run at hand, with the paper it is published with.
        curves: Their curves by key.
        fill: Fills a table or figure under a protocol.
    """

    results: Path
    own: Path
    guides: Path
    specs: Mapping[str, list[TableSpec]]
    runs: Runs
    curves: CurvesByRun
    fill: Callable[[TableSpec, str], Artifact]


@dataclass
class Site:
    """The working folder while it fills.

    Attributes:
        docs: Its markdown.
        nav: Titles and pages, section by section.
        rows_of: For each method the pages of tables that have a row of it, with their titles.
    """

    docs: Path
    nav: list[Any] = field(default_factory=list)
    rows_of: dict[str, dict[str, str]] = field(default_factory=dict)

    def page(self, name: str, text: str) -> str:
        """Write a page; returns its name."""
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name
