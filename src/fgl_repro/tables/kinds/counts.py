"""How many nodes of each class every client has in every role, from the built world (FedLoG's Tables 12 to 16)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from fgl_repro.federation.world import World
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import place
from fgl_repro.tables.kinds import common
from fgl_repro.tables.printing import grid_text
from fgl_repro.tables.spec import TableSpec

SPLITS = ("train", "valid", "test", "unseen_node", "missing_class")
SUMS = {"own nodes": ("train", "valid", "test"), "new nodes": ("unseen_node", "missing_class")}
"""Sums over splits that the random choice of roles does not move."""

Counts = dict[tuple[str, int, str], int]
"""By client as printed (``Global``, ``Client 0``, ..., ``New Client``), class and split."""


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Write a line a client and class: ours and printed; how many are equal, by split."""
    rows, grids, summaries = [], [], []
    for dataset in spec.datasets:
        found = reference.numbers(spec.printed_file, "client", "class", "split", value="count")
        theirs = {key: int(count) for key, count in found.items()}
        for clients in spec.clients:
            world = common.world_of(common.example(spec, dataset, clients, protocol))
            ours = {} if world is None else counted(world)
            rows += _csv(common.data_head(spec, protocol, dataset) | {"clients": clients}, ours, theirs)
            met = [f"{name} {same} of {whole}" for name, (same, whole) in tally(ours, theirs).items()]
            summary = f"Printed counts of clients and classes that are met: {', '.join(met)}." if theirs else ""
            summary = summary if ours else "The graph cannot be had here."
            summaries += [summary] * bool(summary)
            grid = [_grid(ours, theirs)] if ours or theirs else []
            grids += [f"### {place(dataset, clients)}", *[summary] * bool(summary), *grid]
    if not rows:  # no graph can be had, and nothing is printed
        rows.append(_line(common.data_head(spec, protocol, spec.datasets[0]) | {"clients": ""}, ("", "", ""), "", ""))
    return Content(rows, "\n\n".join(grids), sum(r["count"] != "" for r in rows), len(rows), "\n\n".join(summaries))


def counted(world: World) -> Counts:
    """Collect every count of a world, of a closed set all; ``Global`` is the sum over its clients."""
    probes = {probe.name: probe for probe in world.probes}
    held = {"valid": world.validation, "test": probes["seen_graph"]}
    held |= {name: probes[name] for name in SUMS["new nodes"] if name in probes}
    tables = {"train": world.class_counts} | {split: probe.counts for split, probe in held.items()}
    out: Counts = {}
    for split, table in tables.items():
        for name, line in [("Global", table.sum(axis=0)), *((f"Client {k}", line) for k, line in enumerate(table))]:
            out |= {(name, c, split): int(count) for c, count in enumerate(line)}
    if "new_client" in probes:
        newcomer = probes["new_client"].counts[0]
        out |= {("New Client", c, "test"): int(count) for c, count in enumerate(newcomer)}
    return out


def equal(ours: Counts, theirs: Counts, splits: Sequence[str], clients: str = "Client") -> tuple[int, int]:
    """Count classes of clients whose sum over ``splits`` is the printed one, and all that have a printed one.

    Args:
        clients: How the names of the clients that count begin.
    """
    found = dict.fromkeys((client, c) for client, c, _ in theirs if client.startswith(clients))
    pairs = [pair for pair in found if all((*pair, split) in theirs for split in splits)]
    same = [sum(ours.get((*p, s), -1) for s in splits) == sum(theirs[*p, s] for s in splits) for p in pairs]
    return sum(same), len(same)


def tally(ours: Counts, theirs: Counts) -> dict[str, tuple[int, int]]:
    """Tell how many printed counts are met: by what roles do not move, then by split."""
    parts = {**SUMS, **{split: (split,) for split in SPLITS}}
    found = {name: equal(ours, theirs, splits) for name, splits in parts.items()}
    return {"the new client's nodes": equal(ours, theirs, ("test",), "New Client"), **found}


def _keys(ours: Counts, theirs: Counts) -> list[tuple[str, int]]:
    return list(dict.fromkeys((client, c) for client, c, _ in [*theirs, *ours]))


def _csv(head: dict[str, Any], ours: Counts, theirs: Counts) -> list[dict[str, Any]]:
    rows = []
    for (client, c), split in product(_keys(ours, theirs), SPLITS):
        own, other = ours.get((client, c, split), ""), theirs.get((client, c, split), "")
        if own != "" or other != "":
            rows.append(_line(head, (client, c, split), own, other))
    return rows


def _line(head: dict[str, Any], where: tuple[Any, ...], own: int | str, other: int | str) -> dict[str, Any]:
    row = head | dict(zip(("client", "class", "split"), where, strict=True)) | {"count": own, "paper_count": other}
    return row | {"equal": "" if "" in (own, other) else int(own == other)}


def _grid(ours: Counts, theirs: Counts) -> str:
    def both(*key: Any) -> str:
        own, other = str(ours.get(key, "")), str(theirs.get(key, ""))
        return own if own == other or not theirs else f"{own} ({other or '-'})"

    splits = [split for split in SPLITS if any(key[2] == split for key in [*ours, *theirs])]
    body = [[*key, *(both(*key, split) for split in splits)] for key in _keys(ours, theirs)]
    grid = grid_text(["client", "class", *splits], body)
    return f"Ours; the printed count in brackets where it is another.\n\n{grid}" if theirs else grid
