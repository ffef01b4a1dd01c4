"""``fgl-table site``: the results, and a user's own tables, as a web site."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from fgl_repro.cli import request, screen
from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.record import Record
from fgl_repro.tables import artifact
from fgl_repro.tables.spec import TableSpec
from fgl_repro.web import site
from fgl_repro.web.runs import Runs
from fgl_repro.web.sources import Sources


def write(table: str | None, folders: RunFolders, tables: Path, guides: Path, out: Path) -> Path:
    """Write the site of tables, named as for :func:`request.specs`; returns its front page.

    Args:
        tables: The user's own tables, which have pages, too.
        guides: Markdown files of the guides.
        out: Where it is written.
    """
    site.check()
    specs = request.specs(table)
    _tell_of_unwritten([spec for own in specs.values() for spec in own], folders.results, tables)
    published = {paper: folders.published(paper) for paper in folders.papers}
    rounds = {key: columns for own in published.values() for key, columns in own.curves.items()}

    def runs() -> Iterator[tuple[str, Record]]:
        for paper, own in published.items():
            yield from ((paper, record) for record in own.runs.values())
        if any((tables / paper).is_dir() for paper in set(specs) - set(published)):  # some tables are a user's own
            yield from (("", record) for record in folders.store.all(strict=False))

    def fill(spec: TableSpec, protocol: str) -> artifact.Artifact:
        return artifact.make(spec, protocol, folders.archive(spec.paper))

    sources = Sources(folders.results, tables, guides, specs, Runs(runs()), rounds, fill)
    with tempfile.TemporaryDirectory(prefix="fgl-site-") as work:
        return site.build(sources, out, Path(work), screen.watched)


def _tell_of_unwritten(specs: Iterable[TableSpec], results: Path, tables: Path) -> None:
    """Say which tables of a user's own have no page, because they have not been written yet."""

    def is_written(spec: TableSpec) -> bool:
        files = (artifact.folder_of(spec, name) / f"{spec.stem}.csv" for name in spec.protocols)
        return any((folder / file).exists() for file in files for folder in (results, tables))

    if bare := [spec.name for spec in specs if not (spec.is_ours or is_written(spec))]:
        fix = f"'fgl-table compare {bare[0]}' writes it into {tables}"
        print(f"fgl-table: the site has no page of {', '.join(bare)}: {fix}.", file=sys.stderr)
