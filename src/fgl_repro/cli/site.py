"""``fgl-table site``: the results, and a user's own tables, as a web site."""

from __future__ import annotations

import argparse
import sys
import tempfile
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


def write(args: argparse.Namespace, watched: Any) -> Path:
    """Write the site of what the command line names; returns its front page."""
    site.check()
    specs = request.specs(args.table)
    _tell_of_unwritten(args, [spec for own in specs.values() for spec in own])
    folders = request.folders_of(args)
    published = {paper: folders.published(paper) for paper in folders.papers}
    rounds = {key: columns for own in published.values() for key, columns in own.curves.items()}

    def runs() -> Iterator[tuple[str, Record]]:
        for paper, own in published.items():
            yield from ((paper, record) for record in own.runs.values())
        if without := set(specs) - set(published):
            yield from (("", record) for record in _local(args, without))

    def fill(spec: TableSpec, protocol: str) -> artifact.Artifact:
        return artifact.make(spec, protocol, folders.archive(spec.paper))

    sources = Sources(args.results, args.tables, args.guides, specs, Runs(runs()), rounds, fill)
    with tempfile.TemporaryDirectory(prefix="fgl-site-") as work:
        return site.build(sources, args.out, Path(work), watched)


def _tell_of_unwritten(args: argparse.Namespace, specs: Iterable[TableSpec]) -> None:
    """Say which tables of a user's own have no page, because they have not been written yet."""

    def is_written(spec: TableSpec) -> bool:
        files = (artifact.folder_of(spec, name) / f"{spec.stem}.csv" for name in spec.protocols)
        return any((folder / file).exists() for file in files for folder in (args.results, args.tables))

    if bare := [spec.name for spec in specs if not (spec.is_ours or is_written(spec))]:
        fix = f"'fgl-table compare {bare[0]}' writes it into {args.tables}"
        print(f"fgl-table: the site has no page of {', '.join(bare)}: {fix}.", file=sys.stderr)


def _local(args: argparse.Namespace, papers: Iterable[str]) -> Iterator[Record]:
    """Yield the runs recorded here, where some tables are a user's own."""
    if any((args.tables / paper).is_dir() for paper in papers):
        yield from request.folders_of(args).store.all(strict=False)
