"""``fgl-table site``: the results, and a user's own tables, as a web site."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fgl_repro.cli import request
from fgl_repro.runs.record import Record
from fgl_repro.tables import artifact
from fgl_repro.tables.spec import TableSpec
from fgl_repro.web import site
from fgl_repro.web.runs import Runs
from fgl_repro.web.sources import Sources

WORK = Path("build/site")


def write(args: argparse.Namespace, watched: Any) -> Path:
    """Write the site of what the command line names; returns its front page."""
    site.check()
    specs = request.specs(args.table)
    folders = request.folders_of(args)
    published = {paper: folders.published(paper) for paper in folders.papers}
    rounds = {key: columns for _, curves, _ in published.values() for key, columns in curves.items()}

    def runs() -> Iterator[tuple[str, Record]]:
        for paper, (packed, *_) in published.items():
            yield from ((paper, record) for record in packed.values())
        if own := set(specs) - set(published):
            yield from (("", record) for record in _local(args, own))

    def fill(spec: TableSpec, protocol: str) -> artifact.Artifact:
        return artifact.make(spec, protocol, folders.archive(spec.paper))

    sources = Sources(args.results, args.tables, args.guides, specs, Runs(runs()), rounds, fill)
    return site.build(sources, args.out, WORK, watched)


def _local(args: argparse.Namespace, papers: Iterable[str]) -> Iterator[Record]:
    """Runs recorded here, where some tables are a user's own."""
    if any((args.tables / paper).is_dir() for paper in papers):
        yield from request.folders_of(args).store.all(strict=False)
