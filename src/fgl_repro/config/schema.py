"""The schema of a configuration: the six axes of science, the seed, and how to run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields

from omegaconf import MISSING

from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import unknown
from fgl_repro.data.dataset import Dataset
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.settings import Setting
from fgl_repro.federation.split import Split
from fgl_repro.fl.method import Method, that_can_hide_uploads
from fgl_repro.fl.protocol import Protocol
from fgl_repro.nn.architectures import Architecture

AXES = ("dataset", "partitioner", "setting", "protocol", "model", "method")
GROUPS = (*AXES, "runtime", "logger", "paths")
THREADS_A_CORE = 4


@dataclass
class RuntimeConfig:
    """How to run. ``curves``: ``validation`` (cheap) or ``all`` (every probe every round)."""

    device: str = "auto"
    threads: int = 1
    deterministic: bool = False
    curves: str = "validation"
    progress: bool = True
    force: bool = False

    def __post_init__(self) -> None:
        if self.curves not in ("validation", "all"):
            raise UserError(f"runtime.curves={self.curves} is unknown: choose validation or all.")
        if self.threads < 1:
            raise UserError(f"runtime.threads={self.threads} computes nothing: give at least 1.")
        if self.threads > (most := THREADS_A_CORE * (os.cpu_count() or 1)):
            raise UserError(f"runtime.threads={self.threads} would exhaust this machine: give at most {most}.")


@dataclass
class LoggerConfig:
    """W&B. ``mode``: ``offline``, ``online`` or ``disabled``; sweeps log afterwards unless ``live_in_sweeps``.

    ``system``: W&B measures the machine, too (processor, memory, GPU).
    """

    mode: str = "offline"
    project: str = "fgl_repro"
    entity: str | None = None
    live_in_sweeps: bool = False
    system: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("offline", "online", "disabled"):
            raise UserError(f"logger.mode={self.mode} is unknown: choose offline, online or disabled.")


@dataclass
class PathsConfig:
    cache: str = "cache"
    records: str = "results/records"
    outputs: str = "outputs"

    def __post_init__(self) -> None:
        for f in fields(self):
            if not getattr(self, f.name).strip():
                raise UserError(f"paths.{f.name} is empty: give it a folder, as in paths.{f.name}={f.default}.")


@dataclass
class Config:
    dataset: Dataset = MISSING
    partitioner: Partitioner = MISSING
    setting: Setting = MISSING
    protocol: Protocol = field(default_factory=Protocol)
    model: Architecture = MISSING
    method: Method = MISSING
    seed: int = 0
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    paths: PathsConfig = field(default_factory=PathsConfig)

    @property
    def split(self) -> Split:
        """How this run's world is drawn."""
        return self.protocol.split_of(self.seed)


def unknown_key(dotted: str, owner: type) -> str:
    """The sentence for a key that ``owner``, a dataclass of a configuration, does not have."""
    if dotted == "method.secure":
        return f"{unknown(dotted, owner)[:-1]}; secure aggregation is for method={that_can_hide_uploads()}."
    return unknown(dotted, owner)


def check(config: Config) -> Config:
    """``config`` unchanged, or a UserError for what its options can never do together; each checks its own values."""
    method, model, batch = config.method, config.model, config.protocol.batch
    _of_one_unit(config)
    if config.seed < 0:
        raise UserError(f"seed={config.seed} is below 0: give 0, 1, 2 or another whole number.")
    if batch and not method.batched:
        raise UserError(f"protocol.batch is not for method={method.name}, which draws its own: leave it at 0.")
    if config.protocol.moments == "shared" and not method.in_turn:
        raise UserError(
            f"protocol.moments=shared is not for method={method.name} with method.variant={method.variant}, whose "
            "clients all take the same step and keep one model: set protocol.moments=kept."
        )
    if method.models and model.name not in method.models:
        raise UserError(
            f"model={model.name} cannot carry method={method.name}: choose model={' or '.join(method.models)}."
        )
    if model.name == "fleet" and not method.fleets:
        raise UserError(
            f"model=fleet cannot carry method={method.name}: its clients have different architectures, "
            "whose weights no server can mix."
        )
    if model.name == "fleet" and "new_client" in config.setting.probes:
        raise UserError("model=fleet is for what clients are tested on of their own: choose setting=plain.")
    if (fanout := getattr(model, "fanout", 0)) and not batch:
        batches = "give protocol.batch a number of nodes, or " if method.batched else ""
        raise UserError(
            f"model.fanout={fanout} is for the protocol's mini-batches, and protocol.batch=0 has none: "
            f"{batches}set model.fanout=0."
        )
    return config


def _for_unit(axis: str, unit: str) -> list[str]:
    """Options that are for data sets which ask about nodes, or about graphs."""
    return sorted(name for name, option in registry.options(axis).items() if unit in option.units)


def _choice(axis: str, names: list[str]) -> str:
    return f"{axis}={names[0]}" if len(names) == 1 else f"{axis} from {', '.join(names)}"


def _of_one_unit(config: Config) -> None:
    """Refuse options that are not for what the data set asks about, its nodes or its graphs."""
    unit = config.dataset.unit
    chosen = {axis: getattr(config, axis) for axis in ("method", "partitioner", "setting")}  # a model follows from it
    wrong = {axis: option for axis, option in chosen.items() if unit not in option.units}
    if wrong:
        names = {axis: option.name for axis, option in wrong.items()}
        if "setting" in names:
            names["setting"] = config.setting.option_name
        named = " and ".join(f"{axis}={name}" for axis, name in names.items())
        others = (_choice(axis, _for_unit(axis, unit)) for axis in wrong)
        raise UserError(
            f"dataset={config.dataset.name} asks about {unit}s, which {named} {'are' if len(wrong) > 1 else 'is'} not "
            f"for: choose {'; '.join(others)}."
        )
    if config.model.unit != unit:
        raise UserError(
            f"model={config.model.name} predicts something about a {config.model.unit}, dataset={config.dataset.name} "
            f"asks about a {unit}: choose model=auto."
        )
