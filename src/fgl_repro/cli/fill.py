"""What ``fgl-table run`` does: the runs that are missing of tables, and the tables from them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fgl_repro.cli import basis, screen
from fgl_repro.config import Config, key_of, override
from fgl_repro.config.schema import RuntimeConfig
from fgl_repro.core.errors import UserError
from fgl_repro.runs import tuning
from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.launchers.launcher import Launcher
from fgl_repro.runs.store import Archive
from fgl_repro.runs.sweep import run_all
from fgl_repro.tables import artifact, needs
from fgl_repro.tables.request import Request


@dataclass(frozen=True)
class HowToRun:
    """How runs are done.

    Attributes:
        launcher: Who does them.
        jobs: How many at a time; None: one, or what the launcher has room for.
        device, threads: ``runtime.device`` and ``runtime.threads`` of every run; None: as its options have them.

    Raises:
        UserError: Nobody would do any, or there cannot be such a device, or on this machine is none.
    """

    launcher: Launcher
    jobs: int | None = None
    device: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UserError(f"--jobs {self.jobs} does nothing: give at least 1.")
        name = RuntimeConfig(device=self.device or "auto").device
        if self.launcher.name == "local" and name.startswith("cuda"):
            from fgl_repro.core.device import pick_device  # which imports torch

            pick_device(name)


def fill(requests: Sequence[Request], folders: RunFolders, out: Path, how: HowToRun) -> bool:
    """Do the missing runs of all parts in one sweep, write every whole, print the part (of several: how much is there).

    Returns whether all went well.

    Args:
        requests: Tables and figures of the paper of ``folders``.
        out: Where they are written.
    """
    done, ok = _run(requests, folders, how)
    archive = folders.archive(folders.paper, lenient=True)
    written = _write(requests, archive, out)
    files = f"Written to {written[0].parent}." if len(requests) > 1 else files_named(written)
    _close(f"{done} {files}", requests, archive)
    return ok


def try_out(requests: Sequence[Request], folders: RunFolders, how: HowToRun) -> bool:
    """Do the same with two rounds of a corner of each, in a temporary folder of which nothing is kept."""
    corners = [Request(wanted.part.smoke(), wanted.part.smoke(), wanted.protocol) for wanted in requests]
    shared = None if how.launcher.name == "local" else "."  # a disk that other machines have, too
    with tempfile.TemporaryDirectory(prefix="fgl-fast-", dir=shared) as name:
        work = Path(name)
        folders = replace(folders, records=work / "records", results=work / "results")
        done, ok = _run(corners, folders, how)
        archive = folders.archive(folders.paper, lenient=True)
        _write(corners, archive, work / "tables")
        _close(done, corners, archive)
    print("--fast: two rounds, one seed, in a temporary folder; nothing was kept and no number means anything.")
    if any(wanted.spec.added_rows for wanted in requests):
        print("Only what is added was run: leave out --fast to see it among the table's other rows.")
    return ok


def files_named(written: Sequence[Path]) -> str:
    """Name the files of one folder that were written."""
    return f"Written to {written[0].parent}: {', '.join(path.name for path in written)}."


def _run(requests: Sequence[Request], folders: RunFolders, how: HowToRun) -> tuple[str, bool]:
    """Do the missing runs, tuning candidates first; returns how many were done and found, and whether all went well."""
    candidates = [config for wanted in requests for config in needs.candidate_runs(wanted.to_run, wanted.protocol)]
    known, ok = folders.done, True
    candidates = [config for config in candidates if not tuning.diverged(key_of(config), known)]
    if candidates:
        ok = run_all(_to_do(candidates, folders, how, "candidates"), how.jobs, folders.store, how.launcher).ok
        known = folders.done
    found = [needs.chosen_runs(wanted.to_run, wanted.protocol, known) for wanted in requests]
    configs, unnamed = [config for part, _ in found for config in part], sum(count for _, count in found)
    summary = run_all(_to_do(configs, folders, how), how.jobs, folders.store, how.launcher)
    if unnamed:
        print(f"fgl-table: {unnamed} runs wait for tuning candidates that failed.", file=sys.stderr)
    ok = ok or not unnamed  # what diverged has lost
    return f"{summary.done} runs done, {summary.skipped + summary.elsewhere} found.", ok and summary.ok


def _to_do(configs: Sequence[Config], folders: RunFolders, how: HowToRun, what: str = "runs") -> list[Config]:
    """Leave out runs that are published, unless they are recorded here as well; say to the others how they are done.

    Args:
        what: What they are called where it is said how many are left out.
    """
    known, own = folders.done, folders.store
    left = [
        config
        for config in configs
        if own.path(key := key_of(config)).exists() or not known.is_done(key, config.runtime.curves)
    ]
    if taken := set(map(key_of, configs)) - set(map(key_of, left)):
        files = folders.published_files(folders.paper)
        place = files.runs if folders.paper in folders.papers else folders.results
        print(f"{len(taken)} {what} are taken from the published {place} (--fresh does them anyway).", file=sys.stderr)
    given = {"runtime.device": how.device, "runtime.threads": how.threads, "paths.records": str(folders.records)}
    overrides = {name: value for name, value in given.items() if value is not None}
    return [override(config, overrides) for config in left]


def _write(requests: Sequence[Request], archive: Archive, out: Path) -> list[Path]:
    """Write every table as a whole and print what was asked for of it; returns the files of the last one."""
    written: list[Path] = []
    for wanted in screen.watched(requests):
        whole = artifact.make(wanted.spec, wanted.protocol, archive)
        written = artifact.write(whole, out / whole.folder)
        if len(requests) == 1:
            made = whole if wanted.is_whole else artifact.make(wanted.part, wanted.protocol, archive)
            screen.write(made.screen)
        else:
            print(f"{wanted.spec.name}: {whole.content.done} of {whole.content.wanted} numbers.")
    return written


def _close(done: str, requests: Sequence[Request], archive: Archive) -> None:
    """Print the last lines: what was done, and what the numbers rest on."""
    print(f"\n{done}")
    print(basis.of_requests(requests, archive))
    basis.warn(requests, archive)
