"""The entry point: resolve, look the key up, run what is missing, record, show.

``python -m fgl_repro.train method=fedpub dataset=cora partitioner.clients=10 setting=unseen_node seed=0``
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from typing import TYPE_CHECKING

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from fgl_repro.cli.explain import explain
from fgl_repro.config import Config, conf_dir, key_of, register, search, typed
from fgl_repro.core.errors import UserError
from fgl_repro.runs import tuning
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RecordStore
from fgl_repro.runs.worker import out_of_memory

if TYPE_CHECKING:
    from hydra.conf import HydraConf

    from fgl_repro.fl.rounds import Report

REFUSALS = (UserError, HydraException, OmegaConfBaseException)
"""What a person can mend: one line on stderr, exit status 2. Anything else is a bug and shows its traceback."""

_failed: list[str] = []
"""Jobs of this process that ended in a sentence, when the rest of a sweep goes on."""


def obtain(config: Config, store: RecordStore, live: bool = True, slot: int = 0) -> tuple[Record, bool]:
    """The record of ``config``, computed only if it is missing; and whether it had to be computed.

    Args:
        live: Log to W&B while the run goes on; otherwise only the record is written and can be pushed later.
        slot: Number of this job, for spreading jobs over GPUs.

    Raises:
        UserError: The run is being computed elsewhere, its record is damaged, or the run itself failed.
    """
    key = key_of(config)
    found = _recorded(config, store, key)
    if found is not None:
        return found, False
    claim = store.claim(key)
    if claim is None:
        raise UserError(f"run {key[:16]} is being computed by another process: wait for it, or stop that process.")
    with claim:
        found = _recorded(config, store, key)  # somebody may have finished since we looked
        if found is not None:
            return found, False
        try:
            return _compute(config, store, live, slot), True
        except Exception as error:
            status = "oom" if out_of_memory(error) else "failed"
            store.save_failed(note_of(config).changed(status=status, error=traceback.format_exc()))
            if status == "oom":
                raise UserError(
                    f"run {key[:16]} ran out of memory on {config.runtime.device}: "
                    "use fewer clients, a smaller model.hidden, or another runtime.device."
                ) from error
            raise


def _recorded(config: Config, store: RecordStore, key: str) -> Record | None:
    """The finished run, if it will do: a forced one never does, nor one without the curves that are asked for."""
    found = None if config.runtime.force else store.load(key)
    return found if store.enough(found, config.runtime.curves) else None


def _compute(config: Config, store: RecordStore, live: bool, slot: int) -> Record:
    from fgl_repro.runs.execute import execute
    from fgl_repro.runs.tracking import Live

    mode = config.logger.mode if live else "disabled"
    name = f"{config.method.name} {config.dataset.name} K={config.partitioner.clients} seed={config.seed}"
    start = note_of(config)
    old = store.recover(start.key)
    if old is not None:
        start = start.changed(wandb=old.wandb)  # W&B never takes an id twice: this run is the next attempt
    logger = Live(
        start, mode=mode, project=config.logger.project, entity=config.logger.entity, tags=[config.protocol.name]
    )
    with logger, _Bar(name, config.protocol.rounds, config.runtime.progress) as bar:

        def report(phase: str, number: int, total: int, values: dict[str, float]) -> None:
            bar(phase, number, total, values)
            if phase == "rounds":
                logger.log(number, values)

        outcome = execute(config, report, slot)
        record = outcome.record.changed(wandb=logger.info)
        store.save(record, outcome.curves)
        logger.finish(record)
    return record


class _Bar:
    """One progress bar a run and phase, with its first two curves; silent when stderr is not a terminal."""

    def __init__(self, name: str, rounds: int, wanted: bool) -> None:
        from tqdm import tqdm

        self._bar = tqdm(total=rounds, desc=name, unit="round", disable=None if wanted else True, leave=False)
        self._name, self._phase = name, "rounds"

    def __enter__(self) -> Report:
        def report(phase: str, number: int, total: int, values: dict[str, float]) -> None:
            if phase != self._phase:
                self._phase = phase
                self._bar.reset(total)
                self._bar.set_description(self._name if phase == "rounds" else f"{self._name}, {phase}", refresh=False)
            self._bar.set_postfix({curve[:10]: f"{value:.3f}" for curve, value in [*values.items()][:2]}, refresh=False)
            self._bar.update()

        return report

    def __exit__(self, *error: object) -> None:
        self._bar.close()


def summary(record: Record, focus: str) -> str:
    """A finished run in a few lines; the probe that was asked for comes first."""
    names = sorted((n for n in record.metrics if n != "validation"), key=lambda n: n != focus)
    lines = [f"{'probe':<15}{'best validation (round ' + str(record.selection.best_round) + ')':>30}{'last round':>14}"]
    for name in [*names, "validation"]:
        best, last = (record.metrics[name][which].accuracy for which in ("best", "last"))
        lines.append(f"{name:<15}{_percent(best):>30}{_percent(last):>14}")
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def job(config: Config, live: bool = True, slot: int = 0) -> Record:
    """One command-line job: the tuning candidates first if the protocol tunes, then the run itself."""
    store = RecordStore(config.paths.records)
    for candidate in tuning.candidates(config):
        obtain(candidate, store, live=False, slot=slot)
    chosen = tuning.chosen(config, store)
    assert chosen is not None
    record, fresh = obtain(chosen.config, store, live, slot)
    where = store.path(record.key)
    knobs = f", chosen by validation: {chosen}" if chosen.overrides else ""
    print(f"{config.method.name} {config.dataset.name} K={config.partitioner.clients} seed={config.seed}: ", end="")
    print(f"{'recorded in' if fresh else 'already recorded in'} {where}{knobs}")
    print(summary(record, config.setting.focus))
    return record


@hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")
def _hydra_main(cfg: DictConfig) -> float:
    """One job; returns the validation accuracy, which an optimising sweeper may maximise."""
    register()  # again: processes of a parallel launcher have not been through main()
    hydra_config = HydraConfig.get()
    multirun = hydra_config.mode == hydra.types.RunMode.MULTIRUN
    slot = hydra_config.job.num if multirun else 0
    try:
        config = typed(cfg)
        return tuning.validation_accuracy(job(config, live=not multirun or config.logger.live_in_sweeps, slot=slot))
    except REFUSALS as error:
        if _full_traceback or (multirun and not _plain_sweep(hydra_config)):
            raise
        which = f"job {slot} ({' '.join(hydra_config.overrides.task)}): " if multirun else ""
        _complain(which + explain(error))
        return float("nan")


def _plain_sweep(hydra_config: HydraConf) -> bool:
    """Whether jobs run one after the other in this process and nobody reads what they return."""
    parts = (hydra_config.sweeper, hydra_config.launcher)
    return all(str(part["_target_"]).rpartition(".")[2] in ("BasicSweeper", "BasicLauncher") for part in parts)


def _complain(sentence: str) -> None:
    _failed.append(sentence)
    print(f"fgl-train: {sentence}", file=sys.stderr, flush=True)


def _config_dirs(words: list[str]) -> list[str]:
    """Hydra's ``--config-dir``, which it keeps to itself until a configuration is composed."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config-dir", "-cd", action="append", default=[])
    found: list[str] = parser.parse_known_args(words)[0].config_dir
    return found


_full_traceback = False


def main() -> None:
    """Console entry. Status 2 when a job was refused; the other jobs of a sweep are done all the same."""
    global _full_traceback
    register()
    _full_traceback = bool(os.environ.get("HYDRA_FULL_ERROR"))
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing, and the sentence is ours
    _failed.clear()
    try:
        for folder in _config_dirs(sys.argv[1:]):
            search(folder)
        _hydra_main()
    except REFUSALS as error:
        if _full_traceback:
            raise
        _complain(explain(error))
    except ValueError as error:  # Hydra's word for method=null
        if "Config group override" not in str(error):
            raise
        _complain("a group cannot be null: name one of its options, as in method=fedavg.")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    if _failed:
        raise SystemExit(2)


if __name__ == "__main__":
    main()
