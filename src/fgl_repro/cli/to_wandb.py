"""What ``fgl-table push`` and ``dashboard`` send to Weights & Biases, or write for it."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Literal

from fgl_repro.cli import screen
from fgl_repro.cli.request import part_words
from fgl_repro.config import key_of
from fgl_repro.core.errors import UserError
from fgl_repro.runs import tracking
from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.provenance import mixed_graphs
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import Archive, RecordStore, loaded
from fgl_repro.tables import artifact, needs, results, run_labels
from fgl_repro.tables.request import Request
from fgl_repro.tables.swept import added_lines


def push(
    wanted: Request, folders: RunFolders, *, mode: str, project: str, entity: str | None, again: bool
) -> tuple[str, bool]:
    """Log the runs that a table, or a part of it, rests on, and its lines; returns what was done, and whether all.

    A run that was logged before for this table, protocol, mode and project is left out, unless it ran anew since.

    Args:
        mode: ``offline`` or ``online``.
        entity: W&B user or team; None: the user's own.
        again: Whether runs are logged that were logged before.

    Raises:
        UserError: There is no recorded run; or W&B is to be logged to online, and cannot be reached.
    """
    spec, archive = wanted.part, folders.archive(wanted.spec.paper)
    configs, _ = needs.chosen_runs(spec, wanted.protocol, archive)
    tags = [spec.paper, spec.name, wanted.protocol]
    recorded = list(loaded(archive, map(key_of, configs)).values())
    if not recorded:
        raise _nothing(wanted)
    if mixed := mixed_graphs(recorded):
        print(f"fgl-table: {mixed}", file=sys.stderr)
    options = {"mode": mode, "tags": tags, "project": project, "entity": entity}
    purpose = " ".join((spec.name, wanted.protocol, mode, f"{entity or ''}/{project}"))
    names = run_labels.labels(spec, wanted.protocol, archive)
    ended: Counter[str] = Counter()
    for record in screen.watched(recorded):
        told = {"job_type": spec.name, "labels": names.get(record.key), **options}
        if archive.is_local(record.key):
            ended[_push_own(record, folders.store, purpose, again, told)] += 1
        else:  # of what is only published nothing is kept here
            mirror = tracking.push(record, archive.curves(record.key), **told)
            ended["taken"] += mirror["id"] != record.wandb["id"]
    taken, before, busy = (ended[word] for word in ("taken", "before", "busy"))
    table = _push_table(wanted, archive, options)
    logged = f"{taken} runs{' and the table' if table else ''} logged ({mode})."
    where = _where() if mode == "offline" and (taken or table) else ""
    if before:
        logged += f" {before} had been logged before: --again logs them once more."
    if busy:
        logged += f" {busy} are being run or pushed by another process: push again when it is done."
        return logged + where, False
    if foreign := sum(not archive.is_local(record.key) for record in recorded):
        logged += f" {foreign} are published only: every push logs them, unless fgl-table unpack came first."
    if done := taken + before == len(recorded) and table is not None:
        return logged + where, done
    logged += f" W&B did not take all of {len(recorded)} runs and the table: see what it says above."
    return logged + where, done


def _nothing(wanted: Request) -> UserError:
    """Tell why there is nothing to log."""
    spec, part = wanted.spec, wanted.part
    if not (part.rows and part.panels):
        return UserError(f"{spec.name} is about data and has no runs: push a table that has, see 'fgl-table list'.")
    if not part.planned():
        return UserError(f"{spec.name} has no runs to push. {part.blank}")
    rows = dict.fromkeys(row.line or row.id for row in part.rows if row.id not in part.added_rows)
    kept = f" --methods {','.join(rows)}" if len(part.rows) < len(spec.rows) else ""
    return UserError(f"there are no recorded runs to push: 'fgl-table run {part_words(wanted)}{kept}' does them.")


def _where() -> str:
    """Tell where W&B keeps what is logged offline, and what sends it."""
    folder = tracking.folder_of_wandb() / "wandb"
    return f"\nThey lie in {folder}: 'wandb sync {shlex.quote(str(folder))}/offline-run-*' sends them."


def _push_own(
    record: Record, store: RecordStore, purpose: str, again: bool, told: dict[str, Any]
) -> Literal["taken", "refused", "before", "busy"]:
    """Log a run that is recorded here, under its claim, and keep in its record that it was.

    Args:
        purpose: What it is logged for: table, protocol, mode and project.
        again: Whether it is logged where it was ``before``.
        told: Options of :class:`fgl_repro.runs.tracking.Live`.
    """
    claim = store.claim(record.key)
    if claim is None:
        return "busy"
    with claim:
        now = store.load(record.key) or record  # another push may have logged it meanwhile
        purposes = now.wandb.get("purposes", [])
        if purpose in purposes and not again:  # a second copy would count as another seed in W&B's charts
            return "before"
        mirror = tracking.push(now, store.curves(record.key), **told)
        if mirror["id"] == now.wandb["id"]:
            return "refused"
        mirror["purposes"] = purposes + [purpose] * (purpose not in purposes)
        store.save(now.changed(wandb=mirror))
        return "taken"


def _push_table(wanted: Request, archive: Archive, options: dict[str, Any]) -> str | None:
    """Log the lines of a table, by ``options`` of :func:`tracking.push_table`; None if W&B did not take them."""
    import pandas

    spec = wanted.part
    frame = pandas.DataFrame(artifact.make(spec, wanted.protocol, archive).content.rows)
    name = "-".join((spec.sort, spec.paper, spec.table, *added_lines(spec)))
    which = {"table": spec.name, "protocol": wanted.protocol}
    config = {**which, **{axis: list(has) for axis, has in spec.axes.items()}}
    return tracking.push_table(frame, name, group=spec.name, config=config, **options)


def dashboard(
    wanted: Request, folders: RunFolders, *, project: str, entity: str | None, out: Path
) -> list[str] | list[Path]:
    """Save workspace and report of a table at W&B (with an ``entity``), or write them into ``out``.

    Returns where they are.
    """
    from fgl_repro.web import dashboard as dashboards

    dashboards.check()
    table = results.fill(wanted.part, wanted.protocol, folders.archive(wanted.spec.paper))
    if entity:
        return dashboards.save(table, entity, project)
    return dashboards.write(table, out / artifact.folder_of(wanted.spec, wanted.protocol), project)
