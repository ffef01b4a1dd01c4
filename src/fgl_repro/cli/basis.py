"""What a command says of the runs that its numbers rest on, and of those that are not there."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from fgl_repro.cli.request import TableAndProtocol, part_words
from fgl_repro.runs.provenance import edited, mixed_graphs
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import Archive, loaded
from fgl_repro.runs.summary import has_other_parts
from fgl_repro.tables import needs, reference
from fgl_repro.tables.request import Request


def numbers_rest_on(parts: Iterable[TableAndProtocol], archive: Archive) -> str:
    """Tell how many runs tables' numbers rest on, tuning candidates among them, and what is unlike in some of them."""
    found = _records(parts, archive)
    local = sum(archive.is_local(record.key) for record in found)
    here, published = _counted(local, "run", "runs"), _counted(len(found) - local, "published one", "published ones")
    lines = [f"Numbers rest on {here} recorded here and {published}."]
    if on_gpu := sum(record.on_gpu for record in found):
        made = _counted(on_gpu, "of them was", "of them were")
        lines.append(f"{made} made on a GPU, which draws other random numbers than a CPU.")
    if other := sum(map(has_other_parts, found)):
        have = _counted(other, "of them has", "of them have")
        lines.append(f"{have} parts that were computed, as no published ones are stored for their graph.")
    return " ".join(filter(None, [*lines, mixed_graphs(found)]))


def _counted(number: int, one: str, several: str) -> str:
    """Write a number with the words that go with it."""
    return f"{number} {one if number == 1 else several}"


def warn_of_graphs(parts: Iterable[TableAndProtocol], archive: Archive) -> None:
    """Say on stderr where tables' runs were made on different graphs, for commands that print numbers and no more."""
    if mixed := mixed_graphs(_records(parts, archive)):
        print(f"fgl-table: {mixed}", file=sys.stderr)


def _records(parts: Iterable[TableAndProtocol], archive: Archive) -> list[Record]:
    """Load the runs that tables' numbers rest on, tuning candidates among them."""
    keys = {key for part in parts for key in needs.needed(*part, archive)}
    return list(loaded(archive, keys).values())


def of_requests(requests: Iterable[Request], archive: Archive) -> str:
    """Tell the same of what was asked for."""
    return numbers_rest_on([(wanted.part, wanted.protocol) for wanted in requests], archive)


def warn(requests: Iterable[Request], archive: Archive) -> None:
    """Say on stderr which added rows have no run, and how many runs here a former text of a user's options has made.

    What is published, or of the papers' tables alone, may rest on files that have been edited since without any effect.
    """
    former: set[str] = set()
    for wanted in requests:
        if not wanted.part.added_rows and wanted.spec.is_ours and reference.is_printed(wanted.spec.paper):
            continue
        runs = needs.needed(wanted.to_run, wanted.protocol, archive)
        if wanted.part.added_rows and not any(map(archive.load, runs)):
            todo = f"'fgl-table run {part_words(wanted)}' does what is missing"
            print(f"fgl-table: what is added to {wanted.spec.name} has no runs yet: {todo}.", file=sys.stderr)
        records = {key: record for key in runs if (record := archive.load(key)) is not None and archive.is_local(key)}
        former |= {key for key, record in records.items() if edited(record, runs[key])}
    if former:
        fix = "raise revision in the class, or give --records another folder, to compute them again"
        what = f"{len(former)} runs recorded here were made before the files of their options changed"
        print(f"fgl-table: {what}: {fix}.", file=sys.stderr)
