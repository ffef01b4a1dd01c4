"""What ``fgl-table push`` and ``dashboard`` send to Weights & Biases, or write for it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fgl_repro.cli import request
from fgl_repro.config import key_of
from fgl_repro.runs import tracking
from fgl_repro.tables import artifact, needs, results
from fgl_repro.tables.swept import added_lines

Watched = Callable[[list[Any]], Iterable[Any]]


def push(args: argparse.Namespace, watched: Watched) -> tuple[str, bool]:
    """Log the runs that a table, or a part of it, rests on, and its lines; returns what was done, and whether all."""
    import pandas

    wanted = request.one(args)
    spec, folders = wanted.part, request.folders_of(args)
    archive = folders.archive(spec.paper)
    configs, _ = needs.chosen_runs(spec, wanted.protocol, archive)
    tags = [spec.paper, spec.name, wanted.protocol]
    keys = dict.fromkeys(key_of(config) for config in configs)
    recorded = [record for key in keys if (record := archive.load(key)) is not None]
    taken: list[dict[str, Any]] = []
    table = None
    for record in watched(recorded):
        mirror = tracking.push(record, archive.curves(record.key), mode=args.mode, tags=tags, job_type=spec.name)
        taken += [mirror] if mirror != record.wandb else []
        folders.store.save_mirror(record, mirror)  # of what is only published nothing is kept here
    if recorded:
        frame = pandas.DataFrame(artifact.make(spec, wanted.protocol, archive).content.rows)
        name = "-".join((spec.sort, spec.paper, spec.table, *added_lines(spec)))
        config = {
            "table": spec.name,
            "protocol": wanted.protocol,
            **{axis: list(has) for axis, has in spec.axes.items()},
        }
        table = tracking.push_table(frame, name, mode=args.mode, tags=tags, group=spec.name, config=config)
    reached = args.mode == "offline" or all(mirror["url"] is not None for mirror in taken)
    where = args.mode if reached else "offline, for W&B was out of reach"
    told = f"{len(taken)} runs{' and the table' if table else ''} logged ({where})."
    if done := len(taken) == len(recorded) and (table is not None or not recorded):
        return told, done
    return f"{told} W&B did not take all of {len(recorded)} runs and the table: see what it says above.", done


def dashboard(args: argparse.Namespace) -> list[str] | list[Path]:
    """Save workspace and report of a table at W&B, or write them as files; returns where they are."""
    from fgl_repro.web import dashboard as dashboards

    dashboards.check()
    wanted = request.one(args)
    table = results.fill(wanted.part, wanted.protocol, request.folders_of(args).archive(wanted.spec.paper))
    if args.entity:
        return dashboards.save(table, args.entity, args.project)
    return dashboards.write(table, args.out / artifact.place(wanted.spec, wanted.protocol), args.project)
