"""``fgl-train``: one run, or with ``-m`` a sweep of them, from Hydra's command line."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from typing import TYPE_CHECKING

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from tqdm import tqdm
from yaml import YAMLError

from fgl_repro.cli import MISTAKE, UNREAD, VERSION, exit_status, meanings, screen
from fgl_repro.cli.explain import explain, of_flags, refuse_unclear
from fgl_repro.cli.jobs import TrainJob, label_of
from fgl_repro.cli.multirun import check_objective, target
from fgl_repro.config import GROUPS, Config, conf_dir, register, search, typed
from fgl_repro.config.refused import check_name, of_yaml
from fgl_repro.core.errors import UserError, first_line
from fgl_repro.data.catalog import rebuilt
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.methods.phased import Phased
from fgl_repro.runs import tuning
from fgl_repro.runs.obtain import BusyError, Computing, in_turn, obtain
from fgl_repro.runs.provenance import advice_on_edit, mixed_graphs
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import UNWRITABLE, Archive, RecordStore, UnwritableError
from fgl_repro.runs.summary import summary

if TYPE_CHECKING:
    from hydra.conf import HydraConf

REFUSALS = (UserError, HydraException, OmegaConfBaseException, OSError)
"""What a person can mend: one line on stderr, exit status 2. Anything else is a bug and shows its traceback."""

MODES = ("run", "multirun", "cfg", "info", "shell_completion")
"""Flags of Hydra that each say what is done with the words, so that there is one of them at most."""

_failed: list[str] = []
"""Jobs of this process that ended in a sentence, when the rest of a sweep goes on."""

_jobs: list[TrainJob] = []
"""Jobs of this process; those of a parallel launcher are in others."""


def job(config: Config, live: bool = True, slot: int = 0, words: Sequence[str] = ()) -> tuple[Record, bool]:
    """Do one command-line job: the tuning candidates first if the protocol tunes, then the run itself.

    Returns the record, and whether it had to be computed.

    Args:
        words: Overrides on the command line; those that the run's options do not tell are printed with them.
    """
    if isinstance(config.method, Phased) and config.protocol.rounds > 1 and not config.protocol.fine_tuning:
        _tell_of_phases(config.method.name, config.protocol.name, config.protocol.rounds)
    if config.split.source != "partitioner" and type(config.partitioner).drawn_roles is not Partitioner.drawn_roles:
        _tell_of_roles(config.partitioner.name, config.split.source)
    store = RecordStore(config.paths.records)
    chosen = _candidates(config.paths.records, slot).chosen(config)
    record, fresh = obtain(chosen.config, store, live, slot)
    where = store.path(record.key)
    knobs = f", chosen by validation: {chosen}" if chosen.overrides else ""
    with tqdm.external_write_mode():  # which sets the bar of a sweep aside meanwhile
        made = f", made on {record.device}" if record.on_gpu else ""
        rebuild = ", a rebuild of its data set" if rebuilt(config.dataset.name) else ""
        found = "recorded in" if fresh else "already recorded in"
        print(f"{label_of(config, words)}: {found} {where}{made}{rebuild}{knobs}")
        print(summary(record, config.setting.focus, config.protocol), flush=True)
        if not fresh and (told := advice_on_edit(record, chosen.config, "runtime.force=true")):
            print(f"fgl-train: {told}", file=sys.stderr)
    return record, fresh


@cache
def _tell_of_roles(partitioner: str, source: str) -> None:
    """Say once that the roles which a partitioner draws are not asked for."""
    print(
        f"fgl-train: partitioner={partitioner} draws roles, and protocol.split_source={source} draws others: "
        "protocol.split_source=partitioner has its roles.",
        file=sys.stderr,
    )


@cache
def _candidates(records: str, slot: int) -> Computing:
    """Compute tuning candidates into a folder of records, each once for all jobs of this process."""
    store = RecordStore(records)
    return Computing(lambda: Archive(store, {}, lenient=True), partial(obtain, store=store, live=False, slot=slot))


@cache
def _tell_of_phases(method: str, protocol: str, rounds: int) -> None:
    """Say once that a protocol leaves out most of what a one-shot method is."""
    print(
        f"fgl-train: method={method} trains nobody in the {rounds} rounds of protocol={protocol}, which has no "
        "fine-tuning after them: protocol=opfgl has one round and fine-tunes, and its settings are for that.",
        file=sys.stderr,
    )


@hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")
def _hydra_main(cfg: DictConfig) -> float:
    """Do one job; returns the validation accuracy, which an optimising sweeper may maximise."""
    register()  # again: processes of a parallel launcher have not been through main()
    hydra_config = HydraConfig.get()
    multirun = hydra_config.mode == hydra.types.RunMode.MULTIRUN
    number = hydra_config.job.num if multirun else None
    todo = TrainJob([*hydra_config.overrides.task], number, multirun and _plain_sweep(hydra_config))
    _jobs.append(todo)
    with _told(todo):
        if hydra_config.job.chdir:
            raise UserError(
                "hydra.job.chdir=true would keep every run where no other call looks for it: leave it out; "
                "hydra.run.dir says where Hydra writes."
            )
        todo.config = typed(cfg)
        check_name(str(hydra_config.runtime.choices["protocol"]).removesuffix(".yaml"))
        if multirun:
            check_objective(target(hydra_config.sweeper), todo.config.protocol)
        _do(todo)
    if todo.busy is not None:
        what = f"run {todo.busy.key[:16]} is being computed by another process"
        print(f"fgl-train: {todo.which}{what}: it is tried again after the last job.", file=sys.stderr, flush=True)
    return float("nan") if todo.record is None else tuning.validation_accuracy(todo.record)


def _do(todo: TrainJob) -> None:
    """Do a job whose words have been read."""
    assert todo.config is not None
    live = todo.number is None or todo.config.logger.live_in_sweeps
    slot = 0 if todo.plain else todo.number or 0  # one process keeps to one GPU
    todo.record, todo.fresh = job(todo.config, live, slot, todo.words)


def _do_again(todo: TrainJob) -> None:
    """Do a job that another process computed when its turn came.

    Raises:
        BusyError: That or another process computes it still.
    """
    todo.check_free()
    with _told(todo):
        _do(todo)
    if todo.busy is not None:
        raise todo.busy


@contextmanager
def _told(todo: TrainJob) -> Iterator[None]:
    """Say in a sentence why a job is not done, so that a sweep goes on; of one that is ``busy`` say nothing yet."""
    try:
        yield
    except BrokenPipeError:  # Hydra lets pass what is no Exception
        raise SystemExit(UNREAD) from None
    except REFUSALS as error:
        if todo.plain and isinstance(error, BusyError):
            todo.busy = error
            return
        if todo.plain and isinstance(error, UnwritableError):
            _complain(todo.which + _stopped(error))
            raise SystemExit(MISTAKE) from error  # Hydra would go on after what is an Exception
        if _full_traceback or (todo.number is not None and not todo.plain):
            raise
        _complain(todo.which + explain(error))


def _plain_sweep(hydra_config: HydraConf) -> bool:
    """Tell whether jobs run one after the other in this process and nobody reads what they return."""
    return target(hydra_config.sweeper) == "BasicSweeper" and target(hydra_config.launcher) == "BasicLauncher"


def _records() -> list[Record]:
    """List what jobs have recorded, or found recorded."""
    return [each.record for each in _jobs if each.record is not None]


def _stopped(error: OSError) -> str:
    """Say why a sweep stops: what its other jobs would compute could not be kept, either."""
    kept, words = len(_records()), {0: "nothing was recorded before", 1: "the 1 job recorded before is kept"}
    so_far = words.get(kept, f"the {kept} jobs recorded before are kept")
    again = "it can be written" if error.errno == errno.EROFS else "there is room"
    return f"{first_line(error)}: the sweep stops here; {so_far}, and the same command does the rest once {again}."


def _complain(sentence: str) -> None:
    _failed.append(sentence)
    print(f"fgl-train: {sentence}", file=sys.stderr, flush=True)


def _flags(words: list[str]) -> argparse.Namespace:
    """Read Hydra's flags, as Hydra will read them, and the overrides between and around them.

    Raises:
        UserError: There is no such flag, or flags do not go together.
    """

    def refuse(message: str) -> None:
        raise UserError(f"{message}: see fgl-train --help{of_flags(message, words)}")

    if "--version" in words:
        print(f"{VERSION}, Hydra {hydra.__version__}")
        raise SystemExit(0)
    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign, assignment]
    found = parser.parse_intermixed_args(words)
    if len(modes := [mode for mode in MODES if getattr(found, mode)]) > 1:
        first, second = (f"--{mode.replace('_', '-')}" for mode in modes[:2])
        raise UserError(f"{first} and {second} do not go together: give one of them")
    if found.resolve and not (found.cfg or found.help):
        raise UserError("--resolve goes with --cfg, as in --cfg job --resolve: leave it out to run")
    if found.experimental_rerun is not None:
        raise UserError("--experimental-rerun needs a config.pickle, which no run leaves: give fgl-table rerun KEY")
    return found


_full_traceback = False


def main() -> None:
    """Run as the console entry. Status 2 when a job was refused; the other jobs of a sweep are done all the same."""
    status = exit_status("fgl-train", _main)
    if status:
        raise SystemExit(status)


def _in_order() -> argparse.Namespace:
    """Put the words of the command line as Hydra reads them; returns its flags.

    Raises:
        UserError: Hydra would misread some, or the working folder's name.
    """
    flags = _flags(sys.argv[1:])
    words = [word for word in sys.argv[1:] if word not in flags.overrides]
    sys.argv[1:] = [*words, *flags.overrides]  # Hydra takes overrides on one side of flags only
    for word in flags.overrides:
        group, _, option = word.partition("=")
        if group in GROUPS and option.startswith("["):  # Hydra would merge its options into one
            raise UserError(f"{word} is a list: give one option, or a sweep over several, as in -m {group}=a,b")
    if flags.config_dir:
        search(flags.config_dir)
    refuse_unclear(flags.overrides, sweep=flags.multirun)
    if "${" in (here := os.getcwd()):
        raise UserError(f"the name of the working folder, {here}, holds ${{, which Hydra reads: go to another.")
    return flags


def _main() -> int:
    global _full_traceback
    register()
    _full_traceback = bool(os.environ.get("HYDRA_FULL_ERROR"))
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing, and the sentence is ours
    logging.raiseExceptions = False  # of Hydra's own lines, which meet a closed pipe before ours do
    _failed.clear()
    _jobs.clear()
    _candidates.cache_clear()
    try:
        flags = _in_order()
        with suppress(SystemExit) if flags.help else nullcontext():  # with which Hydra ends its help
            _hydra_main()
        in_turn([each for each in _jobs if each.busy is not None], _do_again)
        if len(swept := [each for each in _jobs if each.plain]) > 1:
            from fgl_repro.cli.closing import closing  # what tables need would keep each run waiting

            screen.write(closing(swept))
        if flags.help and (meant := meanings.of_chosen(flags.overrides)):
            print(f"\nWhat the settings mean:\n\n{meant}")
    except REFUSALS as error:
        if _full_traceback or isinstance(error, BrokenPipeError):
            raise
        if _records() and isinstance(error, OSError) and error.errno in UNWRITABLE:  # where Hydra notes its jobs
            _complain(_stopped(error))
        else:
            _complain(explain(error))
    except (ValueError, YAMLError, RecursionError) as error:
        null = "Config group override" in str(error)  # Hydra's word for method=null
        refused = "a group cannot be null: name one of its options, as in method=fedavg." if null else of_yaml(error)
        if refused is None or _full_traceback:
            raise
        _complain(refused)
    if mixed := mixed_graphs(_records()):
        print(f"fgl-train: {mixed}", file=sys.stderr)
    return MISTAKE if _failed else 0


if __name__ == "__main__":
    main()
