"""``fgl-table``: run the tables and figures of a paper, print them beside the printed numbers, keep their records."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fgl_repro.cli import Parser, completion, exit_status, fill, publish, request, screen, site, sources, to_wandb
from fgl_repro.config import Config, key_of, options, science, search
from fgl_repro.core.errors import UserError, sentence
from fgl_repro.runs import packed, tuning
from fgl_repro.runs.folders import RECORDS, RESULTS, RunFolders, default_records, default_results
from fgl_repro.runs.launchers.launcher import Launcher
from fgl_repro.runs.names import label
from fgl_repro.runs.rerun import rerun
from fgl_repro.runs.store import Archive
from fgl_repro.tables import artifact, latex, load, needs, paired, printing, report
from fgl_repro.tables.request import NARROWED, Request, row_id
from fgl_repro.tables.results import duration

Command = Callable[[argparse.Namespace], int]

EXAMPLES = """examples:
  fgl-table run fedlog/1 --datasets cora --clients 3 --jobs 2  do what is missing, print it beside the paper
  fgl-table run fedlog --jobs 2                                every table and figure of that paper, in one sweep
  fgl-table run fedlog/1 --launcher ray --address auto         the same on a Ray cluster, or --launcher slurm
  fgl-table run fedlog/fig9                                    a figure: its runs, its CSV, its drawing
  fgl-table show fedlog/2 --methods fedavg,fedpub              print from records, run nothing
  fgl-table run fedlog/1 --add mine:variant                    your method (or any) beside the paper's, with ranks
  fgl-table test fedlog/1 --add mine --protocol fedlog_splits  is it better than each of theirs? paired tests over seeds
  fgl-table latex fedlog/1 --print > table.tex                 the same for a paper of yours, printed numbers below
  fgl-table missing fedlog/1 --protocol fedlog_tuned           commands of the runs still to do, one a line
  fgl-table publish fedlog/1                                   pack its runs, write its tables into results/
  fgl-table rerun 2d1218                                       repeat a recorded or published run and compare
  fgl-table site                                               results, guides and your tables as a web site
published runs (results/<paper>/runs.csv) count as done; run --fresh does them anyway
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run as the entry point; returns the exit status: 0, 1 (runs failed or differ), or what ``exit_status`` says."""

    def act() -> int:
        args = _parser().parse_args(argv)
        if args.config_dir is not None:
            search(args.config_dir)
        return int(args.command(args))

    return exit_status("fgl-table", act)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="fgl-table", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def folder(sub: argparse.ArgumentParser, flag: str, default: Path | None, about: str, written: bool = True) -> None:
        kind = request.folder if written else request.existing
        sub.add_argument(flag, type=kind, default=default, metavar="DIR", help=about)

    def add(name: str, command: Command, about: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=about, description=about)
        folder(sub, "--records", default_records(), "run records", written=name in ("run", "unpack"))
        published = RESULTS if name == "publish" else default_results()
        folder(sub, "--results", published, f"what is published (default: {published})", written=name == "publish")
        folder(sub, "--config-dir", None, "a folder of your own yamls: method/, table/, ...")
        sub.set_defaults(command=command)
        return sub

    def add_table(name: str, command: Command, about: str, more: str = "") -> argparse.ArgumentParser:
        sub = add(name, command, about)
        sub.add_argument("table", metavar="TABLE", help=f"a name from 'fgl-table list'{more}")
        examples = ("cora,citeseer", "3,5", "local,fedpub", "0,1")
        for axis, example in zip(NARROWED, examples, strict=True):
            of = row_id if axis == "methods" else int if example[0].isdigit() else str
            sub.add_argument(f"--{axis}", type=_listed(of), default=[], metavar=example, help=f"only these {axis}")
        sub.add_argument("--protocol", metavar="NAME", help="default: the table's first")
        return sub

    whole = ", or a paper: all it has"
    run = add_table("run", _run, "do the missing runs, write the table, print it beside the paper", whole)
    run.add_argument("--fast", action="store_true", help="smoke test: two rounds of one corner; nothing is kept")
    run.add_argument("--jobs", type=int, metavar="N", help="runs at a time (default: 1; ray, slurm: what they have)")
    about = "who does the runs: processes here, Ray, job arrays of Slurm, or submitit without Slurm"
    run.add_argument("--launcher", default="local", metavar="local|ray|slurm|submitit_local", help=about)
    run.add_argument("--address", metavar="HOST:PORT", help="of a Ray cluster; auto: this machine's (default: our own)")
    about = "options of submitit, as timeout_min=120,slurm_partition=gpu,gpus_per_node=1"
    run.add_argument("--slurm", type=request.settings, default={}, metavar="NAME=VALUE,...", help=about)
    run.add_argument("--device", metavar="auto|cpu|cuda:0", help="runtime.device of every run")
    run.add_argument("--threads", type=int, metavar="N", help="runtime.threads of every run")
    run.add_argument("--fresh", action="store_true", help="do runs that are published, too; those recorded here stay")
    show = add_table("show", _show, "print the table beside the paper from records; run and write nothing")
    about = "ask whether one row is better than each other: paired t-tests over the seeds that both have; run nothing"
    test = add_table("test", _test, about)
    about = "which (default: the one you add, or the paper's own)"
    test.add_argument("--row", type=row_id, default="", metavar="fedpub-paper", help=about)
    missing = add_table("missing", _missing, "print the commands of the runs still to do", whole)
    about = "write table, comparison and figure from records and print the summary; of a part only print it"
    compare = add_table("compare", _compare, about, whole)
    tex = add_table("latex", _latex, "print the table in LaTeX, from records, best and second best marked")
    tex.add_argument("--print", action="store_true", help="the paper's numbers below ours")
    push = add_table("push", _push, "log recorded runs to Weights & Biases")
    for sub in (run, show, test, missing, compare, tex, push):
        about = "further rows, below the table's own" + "; only they are run, into a folder of their own" * (sub is run)
        sub.add_argument("--add", type=_listed(str), default=[], metavar="mine,fedgta:paper", help=about)
    push.add_argument("--mode", default="offline", choices=("offline", "online"), help="default: offline")
    about = "log again what was logged for this table, protocol, mode and project; W&B's charts then count it twice"
    push.add_argument("--again", action="store_true", help=about)
    push.add_argument("--entity", metavar="NAME", help="W&B user or team (default: your own)")
    about = "write a W&B workspace and report of the table: charts of the runs that 'push' logs, numbers beside print"
    board = add_table("dashboard", _dashboard, about)
    board.set_defaults(add=[])
    board.add_argument("--entity", metavar="NAME", help="save them at W&B for this user or team (default: as files)")
    for sub in (push, board):
        sub.add_argument("--project", default="fgl_repro", metavar="NAME", help="default: fgl_repro")
    about = (
        "pack records into results/<paper>/runs.csv, write tables and pages there: the one command that changes them"
    )
    packing = add("publish", _publish, about)
    packing.add_argument("--only-records", action="store_true", help="pack, and leave tables and pages as they are")
    about = "published runs give way to what ran again here with other numbers, and those of older revisions go"
    packing.add_argument("--replace", action="store_true", help=about)
    unpack = add("unpack", _unpack, "make record files from results/<paper>/runs.csv and curves.csv")
    condense = add("report", _report, "condense every table and protocol of each paper into a page")
    for sub in (run, compare, condense, board):
        folder(sub, "--out", Path("tables"), "written here (default: tables)")
    web = add("site", _site, "write results, findings, methods and guides as a web site that opens from disk")
    folder(web, "--out", Path("site"), "written here (default: site)")
    folder(web, "--tables", Path("tables"), "your own tables, which have pages, too")
    folder(web, "--guides", Path("docs"), "markdown files of the guides")
    listing = add("list", _list, "tables and figures, and how much of them is recorded")
    for sub in (packing, unpack, listing, web):
        sub.add_argument("table", metavar="TABLE", nargs="?", help="table or paper; default: all")
    for sub in (show, test, listing):
        sub.add_argument("--csv", action="store_true", help="as CSV, a line a number, for other programs")
    add("check", _check, "name damaged records, notes, curves, claims and packed files; changes nothing")
    completion.add(commands, "fgl-table").set_defaults(command=_completion, config_dir=None)
    repeat = add("rerun", _rerun, "repeat a recorded or published run and say whether the result is identical")
    repeat.add_argument("key", metavar="KEY", help="beginning of a record's key")
    return parser


def _listed(of: Callable[[str], object]) -> Callable[[str], list[object]]:
    """Make a parser of ``a,b`` and of ``a b``."""

    def parse(text: str) -> list[object]:
        items = text.replace(",", " ").split()
        if not items:
            raise argparse.ArgumentTypeError("it is empty: name some, or leave it out")
        return [of(item) for item in items]

    parse.__name__ = f"list of {getattr(of, '__name__', 'values')}"
    return parse


# --- commands ---------------------------------------------------------------------------------------------------------


def _one(args: argparse.Namespace) -> Request:
    """Load the table that is named, and the part of it."""
    return request.one(args.table, args.protocol, _kept(args), args.add)


def _several(args: argparse.Namespace) -> list[Request]:
    """Load the table that is named, or all of the paper, and the parts of them."""
    return request.several(args.table, args.protocol, _kept(args), args.add)


def _kept(args: argparse.Namespace) -> request.Kept:
    return {axis: getattr(args, axis) for axis in NARROWED}


def _folders(args: argparse.Namespace) -> RunFolders:
    return RunFolders(args.records, args.results)


def _archive(args: argparse.Namespace, paper: str) -> Archive:
    """Return what was run here, over what was published of the paper."""
    return _folders(args).archive(paper)


def _run(args: argparse.Namespace) -> int:
    requests = _several(args)
    launcher = Launcher(args.launcher, args.address, args.slurm)
    how = fill.HowToRun(launcher, args.jobs, args.device, args.threads)
    folders = RunFolders(args.records, args.results, args.fresh, requests[0].spec.paper)
    ok = fill.try_out(requests, folders, how) if args.fast else fill.fill(requests, folders, args.out, how)
    return 0 if ok else 1


def _show(args: argparse.Namespace) -> int:
    wanted = _one(args)
    archive = _archive(args, wanted.spec.paper)
    made = artifact.make(wanted.part, wanted.protocol, archive)
    sources.warn([wanted], archive)
    if args.csv:
        sources.warn_of_graphs([(wanted.part, wanted.protocol)], archive)
        print(printing.csv_text(made.content.rows), end="")
        return 0
    screen.write(made.screen)
    print(f"\n{sources.of_requests([wanted], archive)}")
    return 0


def _test(args: argparse.Namespace) -> int:
    wanted = _one(args)
    archive = _archive(args, wanted.spec.paper)
    found = paired.compared(wanted, args.row, archive)
    sources.warn([wanted], archive)
    if args.csv:
        sources.warn_of_graphs([(found.spec, found.protocol)], archive)
        print(paired.csv_of(found), end="")
        return 0
    screen.write(f"{paired.page(found)}\n\n{sources.numbers_rest_on([(found.spec, found.protocol)], archive)}")
    return 0


def _latex(args: argparse.Namespace) -> int:
    wanted = _one(args)
    archive = _archive(args, wanted.spec.paper)
    sources.warn([wanted], archive)
    sources.warn_of_graphs([(wanted.part, wanted.protocol)], archive)
    print(latex.text(wanted.part, wanted.protocol, archive, printed=args.print))
    return 0


def _missing(args: argparse.Namespace) -> int:
    requests = _several(args)
    archive = _archive(args, requests[0].spec.paper)
    configs: dict[str, Config] = {}
    for wanted in screen.watched(requests):
        for config in needs.runs(wanted.to_run, wanted.protocol):
            if configs.setdefault(key := key_of(config), config).runtime.curves != "all":
                configs[key] = config
    costs, left = archive.costs, []
    for config in configs.values():
        chosen = tuning.chosen_config(config, archive)
        if chosen is None or not archive.is_done(key := key_of(chosen), config.runtime.curves):
            print(request.command_of(config, args.records))
            left.append(science(chosen or config))
        elif (record := archive.load(key)) is not None and not record.on_gpu:
            costs.learn(record.config, record.seconds["total"])  # what ran here counts, too
    known = [seconds for identity in left if (seconds := costs.of_like(identity)) is not None]
    for blank in dict.fromkeys(wanted.part.blank for wanted in requests if wanted.part.absent):
        print(f"fgl-table: {blank} Where you have them, --datasets names what to run.", file=sys.stderr)
    if left:
        durations = [f"about {duration(sum(known) / 3600)} on one core"] if known else []
        new = len(left) - len(known)
        durations += (
            [f"how long {'they take' if new == len(left) else f'{new} of them take'} is not known"] if new else []
        )
    summary = "; ".join([f"{len(left)} runs, {durations[0]}", *durations[1:]]) if left else "nothing is missing"
    print(f"fgl-table: {summary}.", file=sys.stderr)
    return 0


def _compare(args: argparse.Namespace) -> int:
    requests = _several(args)
    archive = _archive(args, requests[0].spec.paper)
    for number, wanted in enumerate(screen.watched(requests)):
        made = artifact.make(wanted.part, wanted.protocol, archive)
        where_written = f"A part of it; fgl-table compare {request.words_of(wanted)} writes the whole."
        if wanted.is_whole:
            where_written = fill.files_named(artifact.write(made, args.out / made.folder))
        text = made.content.body if made.content.grid else made.page
        if made.content.grid and not wanted.is_whole:  # of a whole table the cells stand in a file
            cells = made.content.files[f"compare_{wanted.part.table}.md"].partition("## By cell")
            text = "\n\n".join([text, "".join(cells[1:])])
        screen.write("\n" * bool(number) + text.rstrip())
        print(f"\n{where_written}")
    print(sources.of_requests(requests, archive))
    sources.warn(requests, archive)
    return 0


def _push(args: argparse.Namespace) -> int:
    wanted, folders = _one(args), _folders(args)
    logged, all_taken = to_wandb.push(
        wanted, folders, mode=args.mode, project=args.project, entity=args.entity, again=args.again
    )
    print(logged)
    return 0 if all_taken else 1


def _dashboard(args: argparse.Namespace) -> int:
    wanted, folders = _one(args), _folders(args)
    written = to_wandb.dashboard(wanted, folders, project=args.project, entity=args.entity, out=args.out)
    print("Written:", ", ".join(map(str, written)))
    return 0


def _publish(args: argparse.Namespace) -> int:
    publish.publish(args.table, _folders(args), only_records=args.only_records, replace=args.replace)
    return 0


def _unpack(args: argparse.Namespace) -> int:
    publish.unpack(args.table, _folders(args))
    return 0


def _report(args: argparse.Namespace) -> int:
    for paper in request.specs(None):
        filled = publish.filled(paper, archive := _archive(args, paper))
        print(f"Written to {report.write(paper, filled, args.out / paper, archive)}.")
    return 0


def _completion(args: argparse.Namespace) -> int:
    names = {"table": [*load.names(), *load.papers()], "protocol": options("protocol")}
    names |= {"datasets": options("dataset"), "methods": options("method"), "add": options("method")}
    print(completion.script(_parser(), args.shell, names))
    return 0


def _site(args: argparse.Namespace) -> int:
    front = site.write(args.table, _folders(args), args.tables, args.guides, args.out)
    print(f"Written: {front} (open it in a browser).")
    return 0


def _list(args: argparse.Namespace) -> int:
    rows: list[list[str]] = []
    refused: list[UserError] = []
    for paper, plans in request.plans(args.table, refused).items():
        archive = _archive(args, paper)
        rows += [plan.line(archive) for plan in plans]
    heads = ["table", "protocol", "what", "runs recorded"]
    if rows and args.csv:
        print(printing.csv_text([dict(zip(heads, row, strict=True)) for row in rows]), end="")
    elif rows:
        screen.write(printing.grid_text(heads, rows, numbers_from=3))
    for error in refused:
        print(f"fgl-table: {sentence(error)}", file=sys.stderr)
    return 2 if refused else 0


def _check(args: argparse.Namespace) -> int:
    store, none_yet = _folders(args).store, args.records == RECORDS and not args.records.exists()
    damaged = [*([] if none_yet else store.check()), *packed.check(args.results)]
    for damage in damaged:
        print(f"fgl-table: {damage}", file=sys.stderr)
    for path in store.foreign():
        print(f"fgl-table: {path} is no record, and nothing reads it: move it out of the folder.", file=sys.stderr)
    for path in store.orphans():
        print(f"fgl-table: {path} has curves of no record: do that run again, or delete the file.", file=sys.stderr)
    print(f"{len(store.files())} records in {args.records} and the packed files in {args.results}: ", end="")
    print(f"{len(damaged) or 'none'} damaged.")
    return 2 if damaged else 0


def _rerun(args: argparse.Namespace) -> int:
    record = _folders(args).find(args.key)
    found = rerun(record)
    what = f"{record.key[:8]} {label(record.config)}"
    print("\n".join([f"{what}: {found}", *found.lines[:10], *(["..."] if len(found.lines) > 10 else [])]))
    return 0 if found.ok else 1


if __name__ == "__main__":
    sys.exit(main())
