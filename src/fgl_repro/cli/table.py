"""``fgl-table``: run the tables of a paper, print them beside the printed numbers, keep their records."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fgl_repro.errors import UserError

if TYPE_CHECKING:
    from fgl_repro.config import Config
    from fgl_repro.records import Archive, Record, RecordStore
    from fgl_repro.tables import Table
    from fgl_repro.tablespec import TableSpec

EXAMPLES = """examples:
  fgl-table run table1 --datasets cora --clients 3 --jobs 2   do what is missing, print it beside the paper
  fgl-table show table2 --methods fedavg,fedpub               print from records, run nothing
  fgl-table missing table1 --protocol fedlog_tuned            commands of the runs still to do, one a line
  fgl-table pack table1                                       add its runs to the committed results/<paper>/runs.csv
  fgl-table unpack table1                                     take published runs for done
  fgl-table rerun 3fa9c1                                      repeat a recorded run and compare
"""
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status: 0, 1 (runs failed or differ), 2 (a user's mistake), 130 (Ctrl-C)."""
    args = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = args.command
    try:
        return command(args)
    except UserError as error:
        print(f"fgl-table: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output (head, less) has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fgl-table", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.add_argument("--records", type=Path, default=Path("results/records"), metavar="DIR", help="run records")
        sub.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="tables are written here")
        sub.set_defaults(command=command)
        return sub

    def add_table(name: str, command: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
        sub = add(name, command, help)
        sub.add_argument("table", metavar="TABLE", help="a name from 'fgl-table list'")
        for axis, of in (("datasets", str), ("clients", int), ("methods", str), ("seeds", int)):
            example = {"datasets": "cora,citeseer", "clients": "3,5", "methods": "local,fedpub", "seeds": "0,1"}[axis]
            sub.add_argument(f"--{axis}", type=_listed(of), default=[], metavar=example, help=f"only these {axis}")
        sub.add_argument("--protocol", metavar="NAME", help="default: the table's first")
        return sub

    run = add_table("run", _run, "do the missing runs, write the table, print it beside the paper")
    run.add_argument("--fast", action="store_true", help="smoke test: two rounds of one corner; nothing is kept")
    run.add_argument("--jobs", type=int, default=1, metavar="N", help="worker processes")
    run.add_argument("--device", metavar="auto|cpu|cuda:0", help="runtime.device of every run")
    run.add_argument("--threads", type=int, metavar="N", help="runtime.threads of every run")
    show = add_table("show", _show, "print the table beside the paper from records; run and write nothing")
    for sub in (run, show):
        sub.add_argument("--only-rows", action="store_true", help="print only methods that have run")
    add_table("missing", _missing, "print the commands of the runs still to do")
    add_table("compare", _compare, "write table, comparison and figure from records; print the summary")
    push = add_table("push", _push, "log recorded runs to Weights & Biases")
    push.add_argument("--mode", default="offline", choices=("offline", "online"), help="default: offline")
    for name, command, help in (
        ("pack", _pack, "add the records of a table (default: of all) to results/<paper>/runs.csv"),
        ("unpack", _unpack, "make record files from results/<paper>/runs.csv"),
    ):
        add(name, command, help).add_argument("table", metavar="TABLE", nargs="?", help="default: every table")
    add("report", _report, "condense every table and protocol into results/<paper>/README.md")
    add("list", _list, "tables and how much of them is recorded")
    add("check", _check, "name damaged records; changes nothing")
    rerun = add("rerun", _rerun, "repeat a recorded run and say whether the result is identical")
    rerun.add_argument("key", metavar="KEY", help="beginning of a record's key")
    return parser


def _listed(of: Callable[[str], object]) -> Callable[[str], list[object]]:
    """Parser of ``a,b`` and of ``a b``."""

    def parse(text: str) -> list[object]:
        return [of(item) for item in text.replace(",", " ").split()]

    parse.__name__ = f"list of {getattr(of, '__name__', 'values')}"
    return parse


# --- commands ---------------------------------------------------------------------------------------------------------


def _run(args: argparse.Namespace) -> int:
    if not args.fast:
        return _fill(args, *_asked(args))
    _, part, protocol = _asked(args)
    corner = part.smoke()
    with tempfile.TemporaryDirectory(prefix="fgl-fast-") as folder:
        args.records, args.results = Path(folder) / "records", Path(folder) / "results"
        status = _fill(args, corner, corner, protocol)
    print("--fast: two rounds, one seed, in a temporary folder; nothing was kept and no number means anything.")
    return status


def _fill(args: argparse.Namespace, spec: TableSpec, part: TableSpec, protocol: str) -> int:
    """Do the runs of ``part``, write all of ``spec``, print ``part``."""
    from fgl_repro import tables
    from fgl_repro.sweep import run_all

    if args.jobs < 1:
        raise UserError(f"--jobs {args.jobs} does nothing: give at least 1.")
    store, ok = _store(args), True
    candidates = tables.candidate_runs(part, protocol)
    if candidates:
        summary = run_all(_prepared(candidates, args), args.jobs, store)
        ok = summary.ok
        if summary.interrupted:
            return INTERRUPTED
    configs, unnamed = tables.chosen_runs(part, protocol, store)
    summary = run_all(_prepared(configs, args), args.jobs, store)
    if summary.interrupted:
        return INTERRUPTED
    if unnamed:
        print(f"fgl-table: {unnamed} runs wait for tuning candidates that failed.", file=sys.stderr)
    table = tables.fill(spec, protocol, _archive(args, spec, lenient=True))
    written = _write(table, args)
    _print(table.narrowed(part), only_rows=args.only_rows)
    print(
        f"\n{summary.done} runs done, {summary.skipped + summary.elsewhere} found.", "" if args.fast else _told(written)
    )
    return 0 if ok and summary.ok else 1


def _show(args: argparse.Namespace) -> int:
    from fgl_repro import tables

    _, part, protocol = _asked(args)
    _print(tables.fill(part, protocol, _archive(args, part)), only_rows=args.only_rows)
    return 0


def _missing(args: argparse.Namespace) -> int:
    from fgl_repro import tables, tuning
    from fgl_repro.config import key_of

    _, part, protocol = _asked(args)
    store = _store(args)
    for config in {key_of(config): config for config in tables.runs(part, protocol)}.values():
        chosen = tuning.choose(config, store)
        if chosen is None or store.load(key_of(chosen)) is None:
            print(command_of(config))
    return 0


def _compare(args: argparse.Namespace) -> int:
    from fgl_repro import compare, tables

    spec, part, protocol = _asked(args)
    table = tables.fill(spec, protocol, _archive(args, spec))
    written = _write(table, args)
    print(compare.markdown(table.narrowed(part)).partition("## By cell")[0].rstrip())
    print(f"\n{_told(written)}")
    return 0


def _push(args: argparse.Namespace) -> int:
    import pandas

    from fgl_repro import tables, tracking
    from fgl_repro.config import key_of

    spec, part, protocol = _asked(args)
    store = _store(args)
    configs, _ = tables.chosen_runs(part, protocol, store)
    pushed = 0
    for key in dict.fromkeys(key_of(config) for config in configs):
        record = store.load(key)
        if record is not None:
            tags = [spec.paper, spec.name, protocol]
            record["wandb"] = tracking.push(record, store.curves(key), mode=args.mode, tags=tags, job_type=spec.name)
            store.save(record)
            pushed += 1
    if pushed:
        rows = tables.long_rows(tables.fill(spec, protocol, _archive(args, spec)))
        name, tags = f"table-{spec.paper}-{spec.table}", [spec.paper, spec.name, protocol]
        tracking.push_table(pandas.DataFrame(rows), name, mode=args.mode, tags=tags)
    print(f"{pushed} runs{' and the table' if pushed else ''} logged ({args.mode}).")
    return 0


def _pack(args: argparse.Namespace) -> int:
    from fgl_repro import records

    store = _store(args)
    for paper, specs in _papers(args.table).items():
        keys = {key for spec in specs for protocol in _protocols(spec) for key in _keys(spec, protocol, store)}
        path = _packed(args, paper)
        count = records.pack((r for key in sorted(keys) if (r := store.load(key)) is not None), path)
        print(f"{path} holds {count} runs.")
    return 0


def _unpack(args: argparse.Namespace) -> int:
    from fgl_repro import records

    for paper in _papers(args.table):
        count = records.unpack(_packed(args, paper), args.records)
        print(f"{count} new records in {args.records}.")
    return 0


def _report(args: argparse.Namespace) -> int:
    from fgl_repro import report, tables

    for paper, specs in _papers(None).items():
        archive = _archive(args, specs[0])
        filled = [tables.fill(spec, protocol, archive) for spec in specs for protocol in _protocols(spec)]
        print(f"Written to {report.write(paper, filled, args.results / paper)}.")
    return 0


def _list(args: argparse.Namespace) -> int:
    from fgl_repro import tables, tablespec

    rows = []
    for name in tablespec.names():
        spec = tablespec.load(name)
        for protocol in _protocols(spec):
            results = tables.fill(spec, protocol, _archive(args, spec)).results.values()
            done = sum(result.status == "complete" for result in results)
            rows.append(
                [name, protocol, f"{spec.paper}, Table {spec.table}: {spec.title}", f"{done} of {len(results)}"]
            )
    print(tables.grid_text(["table", "protocol", "what", "cells"], rows, numbers_from=3))
    return 0


def _check(args: argparse.Namespace) -> int:
    store = _store(args)
    damaged = store.check()
    for sentence in damaged:
        print(f"fgl-table: {sentence}", file=sys.stderr)
    print(f"{len(store.files()) - len(damaged)} records in {args.records} are whole, {len(damaged)} damaged.")
    return 2 if damaged else 0


def _rerun(args: argparse.Namespace) -> int:
    from fgl_repro.rerun import rerun
    from fgl_repro.sweep import label

    record: Record = _store(args).find(args.key)
    found = rerun(record)
    what = f"{record['key'][:8]} {label(record['config'])}"
    if not found:
        print(f"{what}: identical.")
        return 0
    print("\n".join([f"{what}: {len(found)} values differ.", *found[:10], *(["..."] if len(found) > 10 else [])]))
    return 1


# --- shared by the commands -------------------------------------------------------------------------------------------


def _asked(args: argparse.Namespace) -> tuple[TableSpec, TableSpec, str]:
    """The whole table, the part that was asked for, and the protocol."""
    from fgl_repro import tablespec

    spec = tablespec.load(args.table)
    protocol = args.protocol or spec.protocols[0]
    if protocol not in spec.protocols:
        raise UserError(f"{spec.name} has no protocol {protocol}: choose from {', '.join(spec.protocols)}.")
    return spec, spec.narrow(args.datasets, args.clients, args.methods, args.seeds), protocol


def _store(args: argparse.Namespace) -> RecordStore:
    from fgl_repro.records import RecordStore

    return RecordStore(args.records)


def _packed(args: argparse.Namespace, paper: str) -> Path:
    path: Path = args.results / paper / "runs.csv"
    return path


def _archive(args: argparse.Namespace, spec: TableSpec, *, lenient: bool = False) -> Archive:
    """What was run here, over what was published with the repository."""
    from fgl_repro.records import Archive, read_packed

    return Archive(_store(args), read_packed(_packed(args, spec.paper)), lenient=lenient)


def _papers(table: str | None) -> dict[str, list[TableSpec]]:
    from fgl_repro import tablespec

    papers: dict[str, list[TableSpec]] = {}
    for name in [table] if table else tablespec.names():
        spec = tablespec.load(name)
        papers.setdefault(spec.paper, []).append(spec)
    return papers


def _protocols(spec: TableSpec) -> list[str]:
    """Protocols of a table that this checkout has."""
    from fgl_repro.config import options

    return [protocol for protocol in spec.protocols if protocol in options("protocol")]


def _keys(spec: TableSpec, protocol: str, store: RecordStore) -> set[str]:
    """Every run a table rests on, candidates included."""
    from fgl_repro import tables
    from fgl_repro.config import key_of

    configs, _ = tables.chosen_runs(spec, protocol, store)
    return {key_of(config) for config in [*tables.candidate_runs(spec, protocol), *configs]}


def _prepared(configs: list[Config], args: argparse.Namespace) -> list[Config]:
    """Runs with the device and threads of the command line."""
    from fgl_repro.config import override

    said = {"runtime.device": args.device, "runtime.threads": args.threads, "paths.records": str(args.records)}
    overrides = {name: value for name, value in said.items() if value is not None}
    return [override(config, overrides) for config in configs]


def command_of(config: Config) -> str:
    """The command that does one run of a table (and, where the protocol tunes, its candidates before it)."""
    from fgl_repro.config import build, science

    setting = config.setting.focus if config.setting.world == "closed_set" else config.setting.world
    named: dict[str, str] = {"method": config.method.name, "dataset": config.dataset.name}
    named |= {"partitioner": config.partitioner.name, "setting": setting, "protocol": config.protocol.name}
    plain = science(build({}, **named))["method"]
    words = [f"{axis}={name}" for axis, name in named.items()]
    words.append(f"partitioner.clients={config.partitioner.clients}")
    words += [f"method.{k}={v}" for k, v in science(config)["method"].items() if v != plain.get(k)]
    return f"python -m fgl_repro.train {' '.join(words)} seed={config.seed}"


def _write(table: Table, args: argparse.Namespace) -> list[Path]:
    """Table, comparison and figure. Always of the whole table: a narrowed run must not blank the rest."""
    from fgl_repro import compare, plots, tables

    folder = args.results / table.spec.paper / table.protocol
    return [*tables.write(table, folder), *compare.write(table, folder), plots.write(table, folder)]


def _told(written: list[Path]) -> str:
    return f"Written to {written[0].parent}: {', '.join(path.name for path in written)}."


def _print(table: Table, *, only_rows: bool) -> None:
    from fgl_repro import compare, tables
    from fgl_repro.tablespec import spelled

    spec = table.spec
    print(f"{spec.paper}, Table {spec.table}: {spec.title}")
    print(f"protocol {table.protocol}, {tables.SAID[table.selection]}, {spec.metric} in {spec.format}")
    for panel in spec.panels:
        for dataset in spec.datasets:
            for clients in spec.clients:
                text = compare.beside(table, panel, dataset, clients, only_rows=only_rows)
                if text:
                    print(f"\n{panel.title}, {spelled(dataset)}, {clients} clients\n\n{text}")


if __name__ == "__main__":
    sys.exit(main())
