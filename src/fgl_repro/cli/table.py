"""The commands of ``fgl-table``: what each does and prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fgl_repro.cli import arguments, basis, completion, exit_status, fill, publish, request, screen, site, to_wandb
from fgl_repro.config import Config, key_of, options, science, search
from fgl_repro.core.errors import UserError, sentence
from fgl_repro.runs import packed, tuning
from fgl_repro.runs.folders import RECORDS, RunFolders
from fgl_repro.runs.launchers.launcher import Launcher
from fgl_repro.runs.names import label
from fgl_repro.runs.progress import Costs
from fgl_repro.runs.rerun import rerun
from fgl_repro.runs.store import Archive
from fgl_repro.tables import artifact, compare, latex, load, needs, paired, printing, report
from fgl_repro.tables.request import NARROWED, Request
from fgl_repro.tables.results import duration


def main(argv: Sequence[str] | None = None) -> int:
    """Run as the entry point; returns the exit status: 0, 1 (runs failed or differ), or what ``exit_status`` says."""

    def act() -> int:
        args = _read(argv)
        if args.config_dir is not None:
            search(args.config_dir)
        return COMMANDS[args.command](args) or 0

    return exit_status("fgl-table", act)


def _read(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line.

    Raises:
        UserError: It cannot be read, or begins with a table or a paper instead of a command.
    """
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] not in COMMANDS and words[0] in (*load.names(), *load.papers()):
        meant = f"did you mean fgl-table {'show' if '/' in words[0] else 'list'} {words[0]}?"
        raise UserError(f"argument COMMAND: invalid choice: '{words[0]}' ({meant}) (see fgl-table --help)")
    return arguments.read(words)


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


def _show(args: argparse.Namespace) -> None:
    wanted = _one(args)
    archive = _archive(args, wanted.spec.paper)
    made = artifact.make(wanted.part, wanted.protocol, archive)
    basis.warn([wanted], archive)
    if args.csv:
        _print_csv(printing.csv_text(made.content.rows), (wanted.part, wanted.protocol), archive)
        return
    screen.write(made.screen)
    print(f"\n{basis.of_requests([wanted], archive)}")


def _test(args: argparse.Namespace) -> None:
    wanted = _one(args)
    archive = _archive(args, wanted.spec.paper)
    found = paired.compared(wanted, args.row, archive)
    basis.warn([wanted], archive)
    if args.csv:
        _print_csv(paired.csv_of(found), (found.spec, found.protocol), archive)
        return
    screen.write(f"{paired.page(found)}\n\n{basis.numbers_rest_on([(found.spec, found.protocol)], archive)}")


def _print_csv(text: str, part: request.TableAndProtocol, archive: Archive) -> None:
    """Print the CSV of a table, and say on stderr where its runs were made on different graphs."""
    basis.warn_of_graphs([part], archive)
    print(text, end="")


def _latex(args: argparse.Namespace) -> None:
    wanted = _one(args)
    archive = _archive(args, wanted.spec.paper)
    basis.warn([wanted], archive)
    basis.warn_of_graphs([(wanted.part, wanted.protocol)], archive)
    print(latex.text(wanted.part, wanted.protocol, archive, printed=args.print))


def _missing(args: argparse.Namespace) -> None:
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
    for blank in dict.fromkeys(wanted.part.blank for wanted in requests if wanted.part.absent):
        print(f"fgl-table: {blank} Where you have them, --datasets names what to run.", file=sys.stderr)
    print(f"fgl-table: {_estimate(left, costs)}", file=sys.stderr)


def _estimate(left: Sequence[Mapping[str, Any]], costs: Costs) -> str:
    """Say how many runs are left, and how long they take as far as that is known.

    Args:
        left: The science of each run.
    """
    if not left:
        return "nothing is missing."
    known = [seconds for identity in left if (seconds := costs.of_like(identity)) is not None]
    durations = [f"about {duration(sum(known) / 3600)} on one core"] if known else []
    if new := len(left) - len(known):
        durations.append(f"how long {f'{new} of them take' if known else 'they take'} is not known")
    return f"{len(left)} runs, {'; '.join(durations)}."


def _compare(args: argparse.Namespace) -> None:
    if args.csv:
        _compare_as_csv(_one(args), args)
        return
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
    print(basis.of_requests(requests, archive))
    basis.warn(requests, archive)


def _compare_as_csv(wanted: Request, args: argparse.Namespace) -> None:
    """Print every number of one table beside the printed one; nothing is written."""
    archive = _archive(args, wanted.spec.paper)
    content = artifact.make(wanted.part, wanted.protocol, archive).content
    basis.warn([wanted], archive)
    lines = compare.rows(content.grid) if content.grid else content.rows
    _print_csv(printing.csv_text(lines), (wanted.part, wanted.protocol), archive)


def _push(args: argparse.Namespace) -> int:
    wanted, folders = _one(args), _folders(args)
    logged, all_taken = to_wandb.push(
        wanted, folders, mode=args.mode, project=args.project, entity=args.entity, again=args.again
    )
    print(logged)
    return 0 if all_taken else 1


def _dashboard(args: argparse.Namespace) -> None:
    wanted, folders = _one(args), _folders(args)
    written = to_wandb.dashboard(wanted, folders, project=args.project, entity=args.entity, out=args.out)
    print("Written:", ", ".join(map(str, written)))


def _publish(args: argparse.Namespace) -> None:
    publish.publish(args.table, _folders(args), only_records=args.only_records, replace=args.replace)


def _unpack(args: argparse.Namespace) -> None:
    publish.unpack(args.table, _folders(args))


def _report(args: argparse.Namespace) -> None:
    for paper in request.specs(None):
        filled = publish.filled(paper, archive := _archive(args, paper))
        print(f"Written to {report.write(paper, filled, args.out / paper, archive)}.")


def _completion(args: argparse.Namespace) -> None:
    names = {"table": [*load.names(), *load.papers()], "protocol": options("protocol")}
    names |= {"datasets": options("dataset"), "methods": options("method"), "add": options("method")}
    print(completion.script(arguments.parser(), args.shell, names))


def _site(args: argparse.Namespace) -> None:
    front = site.write(args.table, _folders(args), args.tables, args.guides, args.out)
    print(f"Written: {front} (open it in a browser).")


def _list(args: argparse.Namespace) -> int:
    rows: list[dict[str, object]] = []
    told: list[str] = []
    refused: list[UserError] = []
    for paper, plans in request.plans(args.table, refused).items():
        archive = _archive(args, paper)
        for plan in plans:
            recorded, wanted = plan.counts(archive)
            rows.append({"table": plan.name, "protocol": plan.protocol, "what": plan.what})
            rows[-1] |= {"recorded": recorded, "wanted": wanted}
            told.append(f"{recorded} of {wanted}" if wanted else plan.without)
    if rows and args.csv:
        print(printing.csv_text(rows), end="")
    elif rows:
        lines = [[row["table"], row["protocol"], row["what"], runs] for row, runs in zip(rows, told, strict=True)]
        screen.write(printing.grid_text(["table", "protocol", "what", "runs recorded"], lines, numbers_from=3))
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


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int | None]] = {
    "run": _run,
    "show": _show,
    "test": _test,
    "missing": _missing,
    "compare": _compare,
    "latex": _latex,
    "push": _push,
    "dashboard": _dashboard,
    "publish": _publish,
    "unpack": _unpack,
    "report": _report,
    "site": _site,
    "list": _list,
    "check": _check,
    "completion": _completion,
    "rerun": _rerun,
}


if __name__ == "__main__":
    sys.exit(main())
