"""One bar over all jobs of a Hydra sweep that runs them one after the other, above the bar of the job at work.

What Hydra's own sweeper cannot do, it is not let begin.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from fgl_repro.cli import MISTAKE
from fgl_repro.cli.foresight import foreseen
from fgl_repro.core.errors import UserError
from fgl_repro.fl.protocol import Protocol


class Progress(Callback):
    """Counts jobs. Launchers with workers of their own, and sweepers that choose as they go, have none."""

    def __init__(self) -> None:
        self._bar: tqdm[Any] | None = None

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Begin the bar; there is none unless stderr is a terminal. A sweep that cannot be is refused."""
        hydra = config.hydra
        sweeper, launcher = target(hydra.sweeper), target(hydra.launcher)
        if sweeper != "BasicSweeper":
            return
        fixed = [f"{name}={values}" for name, values in (hydra.sweeper.get("params") or {}).items()]
        given: Any = OmegaConf.to_container(hydra.overrides.task)  # as it stands: ${hydra:job.num} has no value yet
        overrides, loader = [*fixed, *map(str, given)], GlobalHydra.instance().config_loader()
        if refused := refusal(overrides, hydra.sweeper.get("max_batch_size"), loader):
            print(f"fgl-train: {refused}", file=sys.stderr)
            raise SystemExit(MISTAKE)  # of what is an Exception Hydra would make a warning
        if told := foreseen(list(_last(overrides, loader)), config, loader):
            print(f"fgl-train: {told}", file=sys.stderr, flush=True)
        if launcher == "BasicLauncher" and config.runtime.progress:
            total = jobs(overrides, loader)
            shape = "{n_fmt}/{total_fmt} jobs |{bar:10}| {elapsed} < {remaining}"
            self._bar = tqdm(total=total, bar_format=shape, leave=False, dynamic_ncols=True, disable=None)
            self._bar.clear()  # the launcher's own line comes first

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """Show the bar while the job works."""
        if self._bar is not None:
            self._bar.refresh()

    def on_job_end(self, config: DictConfig, job_return: Any, **_: Any) -> None:
        """Count one job more, which is done or was refused."""
        if self._bar is not None:
            self._bar.n += 1
            self._bar.clear()

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Leave the terminal clean."""
        if self._bar is not None:
            self._bar.close()


def target(part: Any) -> str:
    """Name the class of Hydra's sweeper or launcher."""
    return str(part["_target_"]).rpartition(".")[2]


def check_objective(sweeper: str, protocol: Protocol) -> None:
    """Refuse to let a sweeper choose settings by what test rows say.

    Args:
        sweeper: Its class; Hydra's own does every job and chooses none.

    Raises:
        UserError: The protocol has test rows choose the round, so that there is nothing else to optimise.
    """
    if sweeper != "BasicSweeper" and protocol.selected_by == "test":
        raise UserError(
            f"protocol={protocol.name} chooses rounds by test rows, and {sweeper} would choose settings by them: take "
            "a protocol that holds rows back, as protocol=fedvn_heldout does."
        )


def jobs(overrides: list[str], loader: ConfigLoader | None = None) -> int:
    """Count the jobs that overrides make: the product of what each sweeps over.

    Args:
        loader: Knows the options that a glob stands for.
    """
    return prod(count for _, count in _swept(overrides, loader))


def refusal(overrides: list[str], batch: int | None, loader: ConfigLoader | None = None) -> str | None:
    """Why there can be no such sweep, as a sentence; None if there can.

    Args:
        batch: How many jobs Hydra's sweeper hands to the launcher at once; None: all.
        loader: Knows the options that a glob stands for.
    """
    if batch is not None and batch < 1:
        return f"hydra.sweeper.max_batch_size={batch} is below 1: give at least 1, or leave it out."
    empty = [str(each.input_line) for each, count in _swept(overrides, loader) if count == 0]
    return f"{empty[0]} stands for no value, and the sweep would have no job: give it at least one." if empty else None


def _swept(overrides: list[str], loader: ConfigLoader | None) -> Iterator[tuple[Override, int]]:
    """List the overrides that have several values, and how many; of two of one key the last counts."""
    for each in _last(overrides, loader):
        if each.is_discrete_sweep():
            yield each, len(list(each.sweep_string_iterator()))


def _last(overrides: list[str], loader: ConfigLoader | None) -> Iterable[Override]:
    """Read overrides; of two of one key the last counts."""
    found = OverridesParser.create(loader).parse_overrides(overrides)
    return {each.get_key_element(): each for each in found}.values()
