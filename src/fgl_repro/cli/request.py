"""What a ``fgl-table`` command line asks for: tables and figures, parts of them, their runs, where records lie."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fgl_repro.core.errors import UserError

if TYPE_CHECKING:
    from fgl_repro.config import Config
    from fgl_repro.runs.store import Archive, RecordStore
    from fgl_repro.tables.spec import TableSpec


@dataclass(frozen=True)
class Ask:
    """A whole table or figure, the part of it that was asked for, and the protocol."""

    spec: TableSpec
    part: TableSpec
    protocol: str


def one(args: argparse.Namespace) -> Ask:
    """The single table that the command is about.

    Raises:
        UserError: It does not exist or lacks what it is narrowed to.
    """
    from fgl_repro.tables import spec as tablespec

    spec = tablespec.load(args.table)
    protocol = args.protocol or spec.protocols[0]
    if protocol not in spec.protocols:
        raise UserError(f"{spec.name} has no protocol {protocol}: choose from {', '.join(spec.protocols)}.")
    return Ask(spec, spec.narrow(args.datasets, args.clients, args.methods, args.seeds), protocol)


def several(args: argparse.Namespace) -> list[Ask]:
    """The one table named, or of the paper named every table and figure that has some of what was asked for.

    Raises:
        UserError: No such table or paper, or nothing that was asked for.
    """
    from fgl_repro.tables import spec as tablespec

    if args.table in tablespec.names() or args.table not in papers(None):
        return [one(args)]
    asks = []
    for spec in papers(None)[args.table]:
        shared = {axis: [item for item in getattr(args, axis) if item in has] for axis, has in spec.axes.items()}
        if args.protocol in (None, *spec.protocols) and all(shared[axis] or not getattr(args, axis) for axis in shared):
            asks.append(one(argparse.Namespace(**{**vars(args), **shared, "table": spec.name})))
    if not asks:
        raise UserError(f"nothing of {args.table} has all that was asked for: see 'fgl-table list' and ask for less.")
    return asks


def papers(table: str | None) -> dict[str, list[TableSpec]]:
    """Tables and figures by paper: one of them, all of one paper, or (None) all there are."""
    from fgl_repro.tables import spec as tablespec

    found: dict[str, list[TableSpec]] = {}
    for name in [table] if table in tablespec.names() else tablespec.names():
        spec = tablespec.load(str(name))
        found.setdefault(spec.paper, []).append(spec)
    if table is None or table in tablespec.names():
        return found
    if table not in found:
        tablespec.load(table)  # says what there is
    return {table: found[table]}


def protocols(spec: TableSpec) -> list[str]:
    """Protocols of a table that this checkout has."""
    from fgl_repro.config import options

    return [protocol for protocol in spec.protocols if protocol in options("protocol")]


def store(args: argparse.Namespace) -> RecordStore:
    """The records of this checkout."""
    from fgl_repro.runs.store import RecordStore

    return RecordStore(args.records)


def packed(args: argparse.Namespace, paper: str) -> Path:
    """The committed runs of a paper."""
    path: Path = args.results / paper / "runs.csv"
    return path


def packed_curves(args: argparse.Namespace, paper: str) -> Path:
    """The committed curves of a paper."""
    path: Path = args.results / paper / "curves.csv"
    return path


def archive(args: argparse.Namespace, paper: str, *, lenient: bool = False) -> Archive:
    """What was run here, over what was published with the repository."""
    from fgl_repro.runs import curves
    from fgl_repro.runs.store import Archive, read_packed

    runs = read_packed(packed(args, paper))
    return Archive(store(args), runs, curves.read_packed(packed_curves(args, paper)), lenient=lenient)


def prepared(configs: list[Config], args: argparse.Namespace) -> list[Config]:
    """Runs with the device and threads of the command line."""
    from fgl_repro.config import override

    said = {"runtime.device": args.device, "runtime.threads": args.threads, "paths.records": str(args.records)}
    overrides = {name: value for name, value in said.items() if value is not None}
    return [override(config, overrides) for config in configs]


def command_of(config: Config) -> str:
    """The command that does one run of a table (and, where the protocol tunes, its candidates before it)."""
    from fgl_repro.config import AXES, as_plain, unchecked

    setting = config.setting.focus if config.setting.world == "closed_set" else config.setting.world
    named: dict[str, str] = {"method": config.method.name, "dataset": config.dataset.name}
    named |= {"partitioner": config.partitioner.name, "setting": setting, "protocol": config.protocol.name}
    clients = config.partitioner.clients
    if config.model != unchecked(clients, **named).model:
        named["model"] = _model_of(config)
    said, plain = as_plain(config), as_plain(unchecked(clients, **named))
    words = [*(f"{axis}={name}" for axis, name in named.items()), f"partitioner.clients={clients}"]
    words += [f"{axis}.{k}={v}".replace(" ", "") for axis in AXES for k, v in said[axis].items() if v != plain[axis][k]]
    if config.runtime.curves == "all":
        words.append("runtime.curves=all")
    return f"python -m fgl_repro.train {' '.join(words)} seed={config.seed}"


def _model_of(config: Config) -> str:
    """The option of ``conf/model`` that gives the run's model, or at least its architecture."""
    from fgl_repro.config import options, unchecked

    of_name = [name for name in options("model") if name != "auto" and name.startswith(config.model.name)]
    found = {name: unchecked(None, model=name).model for name in of_name}
    return next((name for name, model in found.items() if model == config.model), of_name[0])
