"""``fgl-table publish`` and ``unpack``: records into ``results/<paper>/``, with tables and pages, and out of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from fgl_repro.cli import request, screen
from fgl_repro.config import outdated
from fgl_repro.core.errors import UserError
from fgl_repro.core.files import locked
from fgl_repro.runs import curves, packed, tuning
from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.provenance import mixed_graphs
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import Archive, loaded
from fgl_repro.tables import artifact, findings, needs, report
from fgl_repro.tables.spec import TableSpec

LOCK = ".publish.lock"
"""File in a paper's folder that a process holds locked while it publishes there; git ignores it."""


def publish(table: str | None, folders: RunFolders, *, only_records: bool, replace: bool) -> None:
    """Pack the runs of tables, named as for :func:`request.specs`, and write their pages and the findings.

    Args:
        only_records: Pack, and leave pages as they are.
        replace: Published runs give way to other numbers of the same run, and those of older revisions go.
    """
    wanted = request.specs(table)
    for paper in wanted:
        request.of_ours(paper)
    for paper, specs in wanted.items():
        folder = folders.results / paper
        folder.mkdir(parents=True, exist_ok=True)
        # two at once would each write what the other one does not know of
        with locked(folder / LOCK, f"fgl-table: waiting for another process, which publishes into {folder}."):
            _pack(folders, paper, specs, replace)
            if not only_records:
                _write_pages(folders, paper, specs)
    for path in [] if only_records else findings.write_all(folders.results):
        print(f"Written to {path}.")


def _write_pages(folders: RunFolders, paper: str, specs: list[TableSpec]) -> None:
    """Write some tables of a paper, and its report, from published runs."""
    made = filled(paper, archive := folders.published_alone(paper))
    names = {spec.name for spec in specs}
    _refuse_blanks(folders.results, made)
    for item in (item for item in made if item.spec.name in names and item.has_numbers):
        artifact.write(item, folders.results / item.folder)
    print(f"Written to {report.write(paper, made, folders.results / paper, archive)}.")


def _refuse_blanks(results: Path, made: Sequence[artifact.Artifact]) -> None:
    """Raise UserError where a published number would become a blank, as sizes do while the raw graphs are not found."""
    for item in made:
        count = artifact.blanked(item, results / item.folder)
        if count:
            path = results / item.folder / f"{item.spec.stem}.csv"
            raise UserError(
                f"{count} numbers of {path} would be blank now, so no page of {item.spec.paper} was written "
                "(its runs are packed). If its data set is not found, let FGL_DATA name the folder of the raw graphs "
                "and publish again; if the numbers are gone for good, delete that file first."
            )


def _pack(folders: RunFolders, paper: str, specs: list[TableSpec], replace: bool) -> None:
    """Add the local records of tables to the published ones of their paper."""
    store, (runs, rounds, diverged) = folders.store, folders.published_files(paper)
    known = folders.archive(paper)  # candidates that decide which runs are needed may be published already
    needed = [(spec, needs.needed(*pair, known)) for spec in specs for pair in spec.by_protocol()]
    keys = sorted({key for _, part in needed for key in part})
    done = loaded(store, keys)
    held = packed.Packed(runs)
    again = packed.differing(done.values(), held)
    old = [record for record in held.values() if outdated(record.config)]
    gone = {record.key for record in old if replace}
    if again and not replace:
        done = {key: record for key, record in done.items() if record not in again}
        print(_left_out(again), file=sys.stderr)
    if old:
        print(_outdated(old, replace), file=sys.stderr)
    drawn = {key for spec, part in needed if spec.curves == "validation" for key in part}
    kept = {key: store.curves(key) for key in done if key in drawn or store.is_done(key, "all")}
    # Former curves go before the records and new ones come after, so that a kill leaves no run with another one's.
    if former := gone | {run.key for run in again if replace}:
        curves.pack({}, rounds, former)
    print(f"{runs} holds {packed.pack(done.values(), runs, gone)} runs.")
    if mixed := mixed_graphs(packed.Packed(runs).values()):
        print(f"fgl-table: {mixed}", file=sys.stderr)
    lost = [note for key in keys if tuning.diverged(key, store) and (note := store.load_failed(key)) is not None]
    if count := packed.pack_diverged(lost, diverged, packed.Packed(runs)):
        print(f"{diverged} holds {count} runs that diverged.")
    count = curves.pack(kept, rounds)
    if count:
        print(f"{rounds} holds the curves of {count} runs.")


def _left_out(again: Sequence[Record]) -> str:
    return (
        f"fgl-table: {len(again)} runs that are published ran again here with other numbers ({_named(again)}): the "
        "published ones stay; --replace takes those from here."
    )


def _outdated(old: Sequence[Record], replaced: bool) -> str:
    which = f"{len(old)} published runs ({_named(old)}), which no table reads since a revision was raised"
    return f"fgl-table: {which}, are taken out." if replaced else f"fgl-table: {which}, stay; --replace takes them out."


def _named(records: Sequence[Record]) -> str:
    return ", ".join(record.key[:8] for record in records[:5]) + ", ..." * (len(records) > 5)


def filled(paper: str, archive: Archive) -> list[artifact.Artifact]:
    """Fill every table and figure of a paper under every protocol."""
    wanted = [pair for spec in request.specs(paper)[paper] for pair in spec.by_protocol()]
    return [artifact.make(spec, protocol, archive) for spec, protocol in screen.watched(wanted)]


def unpack(table: str | None, folders: RunFolders) -> None:
    """Make record files of packed runs, of tables named as for :func:`request.specs`, and give them their curves."""
    for paper in request.specs(table):
        files = folders.published_files(paper)
        print(f"{packed.unpack(files.runs, folders.records)} new records in {folders.records}.")
        curves.unpack(files.curves, folders.store, packed.Packed(files.runs))
