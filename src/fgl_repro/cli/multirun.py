"""One bar over all jobs of a Hydra sweep that runs them one after the other, above the bar of the job at work."""

from __future__ import annotations

from math import prod
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from tqdm import tqdm


class Progress(Callback):
    """Counts jobs. Launchers with workers of their own, and sweepers that choose as they go, have none."""

    def __init__(self) -> None:
        self._bar: tqdm[Any] | None = None

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Begin the bar; there is none unless stderr is a terminal."""
        named = (str(config.hydra[part]["_target_"]).rpartition(".")[2] for part in ("sweeper", "launcher"))
        if tuple(named) == ("BasicSweeper", "BasicLauncher") and config.runtime.progress:
            fixed = [f"{name}={values}" for name, values in (config.hydra.sweeper.get("params") or {}).items()]
            total = jobs([*config.hydra.overrides.task, *fixed], GlobalHydra.instance().config_loader())
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


def jobs(overrides: list[str], loader: ConfigLoader | None = None) -> int:
    """Count the jobs that overrides make: the product of what each sweeps over.

    Args:
        loader: Knows the options that a glob stands for.
    """
    found = OverridesParser.create(loader).parse_overrides(overrides)
    return prod(len(list(each.sweep_string_iterator())) for each in found if each.is_discrete_sweep())
