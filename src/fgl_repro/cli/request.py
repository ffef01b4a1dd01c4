"""What a ``fgl-table`` command line names: tables and figures, parts of them, their runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from fgl_repro.cli import screen
from fgl_repro.cli.explain import quoted
from fgl_repro.config import (
    AXES,
    Config,
    as_plain,
    compose_ahead,
    conf_dir,
    folders,
    options,
    searched,
    unchecked,
    yaml_files,
)
from fgl_repro.core.errors import UserError
from fgl_repro.core.files import cache_folder
from fgl_repro.runs.folders import default_records
from fgl_repro.tables.added import with_rows, with_rows_where_possible
from fgl_repro.tables.load import load, names, papers
from fgl_repro.tables.remembered import remembered, version_of_options
from fgl_repro.tables.request import NARROWED, Request, narrowed
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.status import Plan, plan
from fgl_repro.tables.swept import added_lines

TableAndProtocol = tuple[TableSpec, str]
"""A table or figure and a protocol."""

Kept = Mapping[str, Sequence[Any]]
"""What a table is narrowed to: for each of ``NARROWED`` a list, which is empty where all stays."""


def one(table: str, protocol: str | None, kept: Kept, add: Sequence[str]) -> Request:
    """Load a single table.

    Args:
        protocol: None: the table's first.
        add: Methods, or ``method:variant``, that are further rows.

    Raises:
        UserError: It does not exist or lacks what it is narrowed to.
    """
    return narrowed(with_rows(load(table), add), protocol, kept)


def several(name: str, protocol: str | None, kept: Kept, add: Sequence[str]) -> list[Request]:
    """Load the table of this name, or all tables and figures of the paper that have some of what they are narrowed to.

    Args:
        protocol, add: As in :func:`one`.

    Raises:
        UserError: No such table or paper, or nothing of it has what it is narrowed to.
    """
    if name not in papers():
        return [one(name, protocol, kept, add)]
    found = []
    for spec in with_rows_where_possible(specs(name)[name], add):
        chosen = protocol or spec.protocols[0]
        if chosen not in spec.protocols:
            continue
        axes = spec.under(chosen).axes
        shared = {axis: [item for item in kept[axis] if item in axes[axis]] for axis in NARROWED}
        if all(shared[axis] or not kept[axis] for axis in NARROWED):
            found.append(narrowed(spec, chosen, shared))
    found = [wanted for wanted in found if not wanted.spec.added_rows or _can_run(wanted)]
    if not found:
        raise UserError(f"no table of {name} has what you narrow it to: see 'fgl-table list' and narrow less.")
    return found


def _can_run(wanted: Request) -> bool:
    """Tell whether the rows that were added can be run as the table asks; where they cannot, say so on stderr."""
    try:
        for cell in wanted.to_run.planned():
            wanted.to_run.config(cell, wanted.protocol, wanted.to_run.seeds[0])
    except UserError as error:
        print(f"fgl-table: {wanted.spec.name} is left out: {error}", file=sys.stderr)
        return False
    return True


def specs(table: str | None, refused: list[UserError] | None = None) -> dict[str, list[TableSpec]]:
    """Load tables and figures by paper: one of them, all of one paper, or (None) all there are.

    Args:
        refused: Where it is given, what is wrong with a yaml of many is put there, and the others are returned.

    Raises:
        UserError: No such table or paper, or its yaml describes no table.
    """
    wanted = [name for name in names() if table is None or name.partition("/")[0] == table]
    if table is None:
        compose_ahead(
            (group, name) for group in AXES for name, path in yaml_files(group).items() if conf_dir() in path.parents
        )
    found: dict[str, list[TableSpec]] = {}
    for name in wanted if table is None or table in papers() else [table]:
        try:
            spec = load(name)
        except UserError as error:
            if refused is None or not wanted:
                raise
            refused.append(error)
        else:
            found.setdefault(spec.paper, []).append(spec)
    return found


def plans(table: str | None, refused: list[UserError]) -> dict[str, list[Plan]]:
    """Plan the runs of tables and figures by paper, as :func:`specs` names them and refuses some.

    Of all tables of a paper they are kept in the cache; not where others' yaml files, or code, could change them.
    """

    @lru_cache
    def pairs() -> dict[str, list[TableAndProtocol]]:
        named = specs(table, refused)
        return {paper: [pair for spec in own for pair in spec.by_protocol()] for paper, own in named.items()}

    ours_alone = folders() == [conf_dir()]

    def made(paper: str) -> list[dict[str, Any]]:
        found = []
        for pair in screen.watched(pairs()[paper]):
            try:
                found.append(asdict(plan(*pair)))
            except UserError as error:
                if ours_alone:  # nothing that is kept may lack a table
                    raise
                refused.append(UserError(f"{pair[0].name} cannot be run: {error}"))
        return found

    if table not in (None, *papers()) or not ours_alone:
        return {paper: [Plan(**each) for each in made(paper)] for paper in pairs()}
    known = dict.fromkeys(name.partition("/")[0] for name in names()) if table is None else [table]
    now, place = version_of_options(conf_dir()), cache_folder()
    found = {paper: remembered(place, {"runs of": paper}, now, partial(made, paper)) for paper in known}
    return {paper: [Plan(**each) for each in own] for paper, own in found.items()}


def of_ours(paper: str) -> None:
    """Refuse to publish tables of a user's own among those of a paper of ours.

    Raises:
        UserError: The paper has such a table.
    """
    for spec in specs(paper)[paper]:
        if not spec.is_ours and (conf_dir() / "table" / paper).is_dir():
            raise UserError(
                f"{spec.path} is a table of your own in the folder of a paper of ours, whose results are not replaced: "
                "move it to table/<another name>/ to publish it."
            )


def command_of(config: Config, records: Path | None = None) -> str:
    """Write the command that does one run of a table (and, where the protocol tunes, its candidates before it).

    Args:
        records: Where the run is to be recorded, if not where the command would record it anyway.
    """
    named: dict[str, str] = {"method": config.method.name, "dataset": config.dataset.name}
    named |= {"partitioner": config.partitioner.name, "setting": config.setting.option_name}
    named |= {"protocol": config.protocol.name}
    clients = config.partitioner.clients
    if config.model != unchecked(clients, **named).model:
        named["model"] = _model_of(config)
    own, plain = as_plain(config), as_plain(unchecked(clients, **named))
    words = [*(f"{axis}={name}" for axis, name in named.items()), f"partitioner.clients={clients}"]
    words += [f"{axis}.{k}={v}".replace(" ", "") for axis in AXES for k, v in own[axis].items() if v != plain[axis][k]]
    if config.runtime.curves == "all":
        words.append("runtime.curves=all")
    if records not in (None, default_records()):
        words.append(f"paths.records={quoted(str(records))}")
    return " ".join(["python -m fgl_repro.train", *_further(), shlex.join(words), f"seed={config.seed}"])


def words_of(wanted: Request) -> str:
    """Write what names a table as asked for, and the whole of it: ``fedlog/1 --protocol fedlog_tuned --add mine``."""
    rows = [row for row in (wanted.spec.lines or wanted.spec.rows) if row.id in added_lines(wanted.spec)]
    words = [wanted.spec.name, "--protocol", wanted.protocol]
    words += ["--add", ",".join(f"{row.method}:{row.variant}".rstrip(":") for row in rows)] if rows else []
    return shlex.join(words) + "".join(f" {flag}" for flag in _further())


def part_words(wanted: Request) -> str:
    """Write the same and what narrows it to the part, rows apart, whose additions are said."""
    words = [words_of(wanted)]
    for axis in ("datasets", "clients", "seeds"):
        kept = getattr(wanted.part, axis)
        if kept != getattr(wanted.spec, axis):
            words.append(f"--{axis} {','.join(map(str, kept))}")
    return " ".join(words)


def _further() -> list[str]:
    """Write the folders of yamls that are searched, too, as flags."""
    return [f"--config-dir {shlex.quote(str(folder))}" for folder in searched]


def _model_of(config: Config) -> str:
    """Find the option of ``conf/model`` that gives the run's model, or at least its architecture."""
    of_name = [name for name in options("model") if name != "auto" and name.startswith(config.model.name)]
    found = {name: unchecked(None, model=name).model for name in of_name}
    return next((name for name, model in found.items() if model == config.model), of_name[0])
