"""The words and options of ``fgl-table``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TypeAlias

import yaml

from fgl_repro.cli import Parser, completion
from fgl_repro.core.errors import UserError
from fgl_repro.runs.folders import RESULTS, default_records, default_results, folder_named
from fgl_repro.tables.request import NARROWED, row_id

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

DESCRIPTION = """
``fgl-table``: run the tables and figures of a paper, print them beside the printed numbers, keep their records.
"""

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


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line; ``command`` is the name of the command."""
    found = Parser(
        prog="fgl-table", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = found.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_tables(commands)
    _add_wandb(commands)
    _add_results(commands)
    listing = _added(commands, "list", "tables and figures, and how much of them is recorded")
    _add_names(listing)
    _add_csv(listing)
    _added(commands, "check", "name damaged records, notes, curves, claims and packed files; changes nothing")
    completion.add(commands, "fgl-table").set_defaults(config_dir=None)
    about = "repeat a recorded or published run and say whether the result is identical"
    _added(commands, "rerun", about).add_argument("key", metavar="KEY", help="beginning of a record's key")
    return found


def read(words: Sequence[str]) -> argparse.Namespace:
    """Read the words of a command line.

    Raises:
        UserError: They cannot be read.
    """
    found = parser()
    args, left = found.parse_known_args(words)
    if left:
        found.error(f"unrecognized arguments: {' '.join(left)}{_in_one_word(words, left)}")
    return args


def _in_one_word(words: Sequence[str], left: Sequence[str]) -> str:
    """Tell how names are given to an option, if some of those that stand behind one are ``left``."""
    for at, flag in enumerate(words):
        if flag in (*(f"--{axis}" for axis in NARROWED), "--add"):
            behind = list(takewhile(lambda word: not word.startswith("-"), words[at + 1 :]))
            names = [word for word in behind if "/" not in word]  # a table may stand there, too
            if flag not in left and len(names) > 1 and {*left} & {*behind[1:]}:
                return f": several names are one word with commas: {flag} {','.join(names)}"
    return ""


def _add_tables(commands: Commands) -> None:
    """Add what fills a table, or shows it."""
    whole = ", or a paper: all it has"
    run = _of_table(commands, "run", "do the missing runs, write the table, print it beside the paper", whole)
    _add_how_to_run(run)
    _add_rows(run, "; only they are run, into a folder of their own")
    _add_out(run)
    about = "print the table beside the paper from records; run and write nothing"
    show = _of_table(commands, "show", about)
    _add_rows(show)
    _add_csv(show)
    about = "ask whether one row is better than each other: paired t-tests over the seeds that both have; run nothing"
    test = _of_table(commands, "test", about)
    about = "which (default: the one you add, or the paper's own)"
    test.add_argument("--row", type=row_id, default="", metavar="fedpub-paper", help=about)
    _add_rows(test)
    _add_csv(test)
    _add_rows(_of_table(commands, "missing", "print the commands of the runs still to do", whole))
    about = "write table, comparison and figure from records and print the summary; of a part only print it"
    compare = _of_table(commands, "compare", about, whole)
    _add_rows(compare)
    _add_csv(compare, " beside the printed one; of one table, and nothing is written")
    _add_out(compare)
    tex = _of_table(commands, "latex", "print the table in LaTeX, from records, best and second best marked")
    tex.add_argument("--print", action="store_true", help="the paper's numbers below ours")
    _add_rows(tex)


def _add_how_to_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("--fast", action="store_true", help="smoke test: two rounds of one corner; nothing is kept")
    run.add_argument("--jobs", type=int, metavar="N", help="runs at a time (default: 1; ray, slurm: what they have)")
    about = "who does the runs: processes here, Ray, job arrays of Slurm, or submitit without Slurm"
    run.add_argument("--launcher", default="local", metavar="local|ray|slurm|submitit_local", help=about)
    run.add_argument("--address", metavar="HOST:PORT", help="of a Ray cluster; auto: this machine's (default: our own)")
    about = "options of submitit, as timeout_min=120,slurm_partition=gpu,gpus_per_node=1"
    run.add_argument("--slurm", type=_settings, default={}, metavar="NAME=VALUE,...", help=about)
    run.add_argument("--device", metavar="auto|cpu|cuda:0", help="runtime.device of every run")
    run.add_argument("--threads", type=int, metavar="N", help="runtime.threads of every run")
    run.add_argument("--fresh", action="store_true", help="do runs that are published, too; those recorded here stay")


def _add_wandb(commands: Commands) -> None:
    """Add what sends a table to Weights & Biases."""
    push = _of_table(commands, "push", "log recorded runs to Weights & Biases")
    _add_rows(push)
    push.add_argument("--mode", default="offline", choices=("offline", "online"), help="default: offline")
    about = "log again what was logged for this table, protocol, mode and project; W&B's charts then count it twice"
    push.add_argument("--again", action="store_true", help=about)
    push.add_argument("--entity", metavar="NAME", help="W&B user or team (default: your own)")
    about = "write a W&B workspace and report of the table: charts of the runs that 'push' logs, numbers beside print"
    board = _of_table(commands, "dashboard", about)
    _add_rows(board)
    board.add_argument("--entity", metavar="NAME", help="save them at W&B for this user or team (default: as files)")
    for sub in (push, board):
        sub.add_argument("--project", default="fgl_repro", metavar="NAME", help="default: fgl_repro")
    _add_out(board)


def _add_results(commands: Commands) -> None:
    """Add what publishes runs, or shows what is published."""
    about = (
        "pack records into results/<paper>/runs.csv, write tables and pages there: the one command that changes them"
    )
    packing = _added(commands, "publish", about)
    packing.add_argument("--only-records", action="store_true", help="pack, and leave tables and pages as they are")
    about = "published runs give way to what ran again here with other numbers, and those of older revisions go"
    packing.add_argument("--replace", action="store_true", help=about)
    _add_names(packing)
    _add_names(_added(commands, "unpack", "make record files from results/<paper>/runs.csv and curves.csv"))
    _add_out(_added(commands, "report", "condense every table and protocol of each paper into a page"))
    about = "write results, findings, methods and guides as a web site that opens from disk"
    web = _added(commands, "site", about)
    _add_out(web, "site")
    _add_folder(web, "--tables", Path("tables"), "your own tables, which have pages, too")
    _add_folder(web, "--guides", Path("docs"), "markdown files of the guides")
    _add_names(web)


def _added(commands: Commands, name: str, about: str) -> argparse.ArgumentParser:
    """Add a command with the folders that every one has."""
    sub = commands.add_parser(name, help=about, description=about)
    _add_folder(sub, "--records", default_records(), "run records", written=name in ("run", "unpack"))
    published = RESULTS if name == "publish" else default_results()
    _add_folder(sub, "--results", published, f"what is published (default: {published})", written=name == "publish")
    _add_folder(sub, "--config-dir", None, "a folder of your own yamls: method/, table/, ...")
    return sub


def _of_table(commands: Commands, name: str, about: str, more: str = "") -> argparse.ArgumentParser:
    """Add a command about one table, or a part of it."""
    sub = _added(commands, name, about)
    sub.add_argument("table", metavar="TABLE", help=f"a name from 'fgl-table list'{more}")
    examples = ("cora,citeseer", "3,5", "local,fedpub", "0,1")
    for axis, example in zip(NARROWED, examples, strict=True):
        of = row_id if axis == "methods" else int if example[0].isdigit() else str
        sub.add_argument(f"--{axis}", type=_listed(of), default=[], metavar=example, help=f"only these {axis}")
    sub.add_argument("--protocol", metavar="NAME", help="default: the table's first")
    return sub


def _add_folder(
    sub: argparse.ArgumentParser, flag: str, default: Path | None, about: str, written: bool = True
) -> None:
    sub.add_argument(flag, type=partial(_named, there=not written), default=default, metavar="DIR", help=about)


def _add_out(sub: argparse.ArgumentParser, folder: str = "tables") -> None:
    _add_folder(sub, "--out", Path(folder), f"written here (default: {folder})")


def _add_rows(sub: argparse.ArgumentParser, more: str = "") -> None:
    about = f"further rows, below the table's own{more}"
    sub.add_argument("--add", type=_listed(str), default=[], metavar="mine,fedgta:paper", help=about)


def _add_names(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("table", metavar="TABLE", nargs="?", help="table or paper; default: all")


def _add_csv(sub: argparse.ArgumentParser, more: str = "") -> None:
    sub.add_argument("--csv", action="store_true", help=f"as CSV, a line a number{more}, for other programs")


def _listed(of: Callable[[str], object]) -> Callable[[str], list[object]]:
    """Make a parser of ``a,b`` and of ``a b``."""

    def parse(text: str) -> list[object]:
        items = text.replace(",", " ").split()
        if not items:
            raise argparse.ArgumentTypeError("it is empty: name some, or leave it out")
        return [of(item) for item in items]

    parse.__name__ = f"list of {getattr(of, '__name__', 'values')}"
    return parse


def _named(text: str, *, there: bool) -> Path:
    """Read the name of a folder, see :func:`fgl_repro.runs.folders.folder_named`."""
    try:
        return folder_named(text, there=there)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _settings(text: str) -> dict[str, str | int | float | bool]:
    """Read ``a=1,b=word`` as a mapping, numbers being numbers."""
    pairs = [item.partition("=") for item in text.split(",") if item]
    if wrong := [name for name, sign, _ in pairs if not (name and sign)]:
        raise argparse.ArgumentTypeError(f"{wrong[0] or text} has no value: write NAME=VALUE")
    try:
        return {name: yaml.safe_load(value) for name, _, value in pairs}
    except yaml.YAMLError:
        raise argparse.ArgumentTypeError(f"{text} has a value that is no number and no plain word") from None
