"""``fgl-table publish`` and ``unpack``: records into ``results/<paper>/``, with tables and pages, and out of it."""

from __future__ import annotations

import argparse
import fcntl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fgl_repro.cli import request
from fgl_repro.config import outdated
from fgl_repro.core.errors import UserError
from fgl_repro.runs import curves, packed, tuning
from fgl_repro.runs.progress import Watched
from fgl_repro.runs.provenance import mixed_graphs
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import Archive
from fgl_repro.tables import artifact, findings, needs, report
from fgl_repro.tables.spec import TableSpec

LOCK = ".publish.lock"
"""File in a paper's folder that a process holds locked while it publishes there; git ignores it."""


def publish(args: argparse.Namespace, watched: Watched) -> int:
    """Pack the runs of the tables that the command line names, and write their pages and the findings."""
    wanted = request.specs(args.table)
    for paper in wanted:
        request.of_ours(paper)
    for paper, specs in wanted.items():
        with _alone(args.results / paper):
            _pack(args, paper, specs)
            if not args.only_records:
                _write_pages(args, paper, specs, watched)
    for path in [] if args.only_records else findings.write_all(args.results):
        print(f"Written to {path}.")
    return 0


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Publish into ``folder`` as the only process: two at once would each write what the other one does not know of.

    Another process waits until we have done. The system gives the lock back when we are killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                f"fgl-table: waiting for another process, which publishes into {folder}.", file=sys.stderr, flush=True
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            pass  # some shared disks have no locks, and most people publish alone
        yield


def _write_pages(args: argparse.Namespace, paper: str, specs: list[TableSpec], watched: Watched) -> None:
    """Write the tables that the command line names, and their paper's report, from published runs."""
    made = filled(paper, archive := request.folders_of(args).published_alone(paper), watched)
    names = {spec.name for spec in specs}
    _refuse_blanks(args, made)
    for item in (item for item in made if item.spec.name in names and item.has_numbers):
        artifact.write(item, args.results / item.folder)
    print(f"Written to {report.write(paper, made, args.results / paper, archive)}.")


def _refuse_blanks(args: argparse.Namespace, made: Sequence[artifact.Artifact]) -> None:
    """Raise UserError where a published number would become a blank, as sizes do while the raw graphs are not found."""
    for item in made:
        count = artifact.blanked(item, args.results / item.folder)
        if count:
            path = args.results / item.folder / f"{item.spec.stem}.csv"
            raise UserError(
                f"{count} numbers of {path} would be blank now, so no page of {item.spec.paper} was written "
                "(its runs are packed). If its data set is not found, let FGL_DATA name the folder of the raw graphs "
                "and publish again; if the numbers are gone for good, delete that file first."
            )


def _pack(args: argparse.Namespace, paper: str, specs: list[TableSpec]) -> None:
    """Add the local records of tables to the published ones of their paper."""
    folders = request.folders_of(args)
    store, (runs, rounds, diverged) = folders.store, folders.published_files(paper)
    known = folders.archive(paper)  # candidates that decide which runs are needed may be published already
    needed = [(spec, needs.needed(*pair, known)) for spec in specs for pair in spec.by_protocol()]
    keys = sorted({key for _, part in needed for key in part})
    done = {key: r for key in keys if (r := store.load(key)) is not None}
    held = packed.Packed(runs)
    again = packed.differing(done.values(), held)
    old = [record for record in held.values() if outdated(record.config)]
    gone = {record.key for record in old if args.replace}
    if again and not args.replace:
        done = {key: record for key, record in done.items() if record not in again}
        print(_left_out(again), file=sys.stderr)
    if old:
        print(_outdated(old, args.replace), file=sys.stderr)
    drawn = {key for spec, part in needed if spec.curves == "validation" for key in part}
    kept = {key: store.curves(key) for key in done if key in drawn or store.is_done(key, "all")}
    # Former curves go before the records and new ones come after, so that a kill leaves no run with another one's.
    if former := gone | {run.key for run in again if args.replace}:
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


def filled(paper: str, archive: Archive, watched: Watched) -> list[artifact.Artifact]:
    """Fill every table and figure of a paper under every protocol."""
    wanted = [pair for spec in request.specs(paper)[paper] for pair in spec.by_protocol()]
    return [artifact.make(spec, protocol, archive) for spec, protocol in watched(wanted)]


def unpack(args: argparse.Namespace) -> int:
    """Make record files of packed runs, and give them their curves."""
    folders = request.folders_of(args)
    for paper in request.specs(args.table):
        files = folders.published_files(paper)
        print(f"{packed.unpack(files.runs, args.records)} new records in {args.records}.")
        curves.unpack(files.curves, folders.store, packed.Packed(files.runs))
    return 0
