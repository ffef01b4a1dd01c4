"""The schema of a configuration: the six axes of science, the seed, and how to run."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from typing import get_type_hints

from omegaconf import MISSING

from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import unknown
from fgl_repro.data.dataset import Dataset
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.settings import Setting
from fgl_repro.federation.split import Split
from fgl_repro.fl.method import Method, that_can_hide_uploads, that_need_not_all
from fgl_repro.fl.protocol import Protocol
from fgl_repro.nn.architectures import Architecture

AXES = ("dataset", "partitioner", "setting", "protocol", "model", "method")
GROUPS = (*AXES, "runtime", "logger", "paths")
THREADS_A_CORE = 4
RARELY_MEANT = ("protocol.name", "protocol.seeds", "protocol.features", "protocol.component")
"""Keys that say what records or tables call something, or are set by the protocol's own yaml."""


@dataclass
class RuntimeConfig:
    """How to run; nothing of it enters a run's key.

    Attributes:
        device: ``auto`` (a GPU where there is one, else the CPU), ``cpu``, ``cuda`` or ``cuda:1``.
        threads: Of the CPU, for each run.
        deterministic: Whether torch sums in a fixed order on a GPU, where it has a way to; a CPU always does.
        curves: What is measured in every round: ``validation``, which is cheap, or ``all``, which is every probe.
        progress: Whether a run shows a bar, or where there is no terminal a line every half minute.
        force: Whether a run that is recorded or published is computed again.
    """

    device: str = "auto"
    threads: int = 1
    deterministic: bool = False
    curves: str = "validation"
    progress: bool = True
    force: bool = False

    def __post_init__(self) -> None:
        if self.curves not in ("validation", "all"):
            raise UserError(f"runtime.curves={self.curves} is unknown: choose validation or all.")
        if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", self.device):
            raise UserError(f"runtime.device={self.device} is no device of runs: choose auto, cpu, cuda or cuda:1.")
        if self.threads < 1:
            raise UserError(f"runtime.threads={self.threads} computes nothing: give at least 1.")
        if self.threads > (most := THREADS_A_CORE * (os.cpu_count() or 1)):
            raise UserError(f"runtime.threads={self.threads} would exhaust this machine: give at most {most}.")


@dataclass
class LoggerConfig:
    """What W&B gets of a run.

    Attributes:
        mode: ``offline`` (files that ``wandb sync`` sends later), ``online`` or ``disabled``.
        project: W&B's project.
        entity: W&B's user or team; null: the user's own.
        live_in_sweeps: Whether runs of ``fgl-train -m`` are logged while they go on; otherwise ``fgl-table push``
            can log their records later.
        system: Whether W&B measures the machine, too (processor, memory, GPU).
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
    """Folders, which are made where there are none.

    Attributes:
        cache: Downloads, processed graphs, and what tables remember of worlds that were slow to build.
        records: A file for each finished run, by which it is found again.
        outputs: What Hydra keeps of every call of ``fgl-train``, its configuration and its log.
    """

    cache: str = "cache"
    records: str = "results/records"
    outputs: str = "outputs"

    def __post_init__(self) -> None:
        for f in fields(self):
            if not getattr(self, f.name).strip():
                raise UserError(f"paths.{f.name} is empty: give it a folder, as in paths.{f.name}={f.default}.")


@dataclass
class Config:
    """One run: what is computed, which makes its key (the six axes and the seed), and how.

    Attributes:
        dataset: The graph, or the graphs, and the form of the features.
        partitioner: Which client each node, or each graph, belongs to, and how many clients there are.
        setting: What clients train on, and on which nodes they are tested (the probes).
        protocol: Rules of optimisation and evaluation that all methods of a paper share.
        model: The network that each client trains; ``auto``: the one that the method is made for.
        method: What clients train on their own, what they send, and what the server makes of it.
        seed: Of all that a run draws; split and parts are drawn by the protocol's ``split_seed`` (see ``redraw``).
        runtime: How to run: device, threads, what is measured in every round.
        logger: What W&B gets of the run.
        paths: Folders of what is read and written.
    """

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
    """Write the sentence for a key that ``owner``, a dataclass of a configuration, does not have."""
    if dotted == "method.secure":
        return f"{unknown(dotted, owner)[:-1]}; secure aggregation is for method={that_can_hide_uploads()}."
    return unknown(dotted, owner, _homes(dotted.rpartition(".")[2]))


def _homes(name: str) -> list[str]:
    """List the keys of a configuration called ``name`` that somebody may have meant."""
    kinds = get_type_hints(Config)
    found = [g for g in GROUPS if name in {f.name for f in fields(kinds[g])} and f"{g}.{name}" not in RARELY_MEANT]
    return [*(["seed"] if name in ("seed", "seeds") else []), *(f"{group}.{name}" for group in found)]


def check(config: Config) -> None:
    """Refuse with a UserError what the options of ``config`` can never do together.

    Each option checks its own values.
    """
    _check_unit(config)
    if config.seed < 0:
        raise UserError(f"seed={config.seed} is below 0: give 0, 1, 2 or another whole number.")
    _check_local_steps(config)
    _check_participation(config)
    _check_model(config)
    _check_parts(config)
    if config.model.name == "fleet":
        _check_fleet(config)
    _check_tests(config)
    _check_fanout(config)


def _check_local_steps(config: Config) -> None:
    """Refuse batches and optimisers that the method's or the model's local steps cannot have."""
    method, batch, together = config.method, config.protocol.batch, config.model.together
    if batch and not method.batched:
        raise UserError(f"protocol.batch is not for method={method.name}, which draws its own: leave it at 0.")
    if 0 < together < batch:
        raise UserError(
            f"protocol.batch={batch} would be cut into batch norms of model.together={together} graphs: set "
            f"model.together={batch}, which validation and tests are then cut into as well."
        )
    if config.protocol.moments == "shared" and not method.in_turn:
        raise UserError(
            f"protocol.moments=shared is not for method={method.name} with method.variant={method.variant}, whose "
            "clients do not take turns with the protocol's optimiser: set protocol.moments=kept."
        )


def _check_participation(config: Config) -> None:
    """Refuse clients that sit rounds out where the server needs all of them."""
    method, share = config.method, config.protocol.participation
    if share == 1:
        return
    what = f"protocol.participation={share}"
    if getattr(method, "secure", False):
        raise UserError(f"{what} is not for method.secure=true, whose masks cancel in sums over all clients: drop one.")
    if not method.can_sit_out():
        raise UserError(
            f"{what} is not for method={method.name}, which needs all clients in every round: leave it at 1, or "
            f"choose method from {that_need_not_all()}."
        )


def _check_model(config: Config) -> None:
    """Refuse models that the method cannot train."""
    method, model = config.method, config.model
    if method.models and model.name not in method.models:
        raise UserError(
            f"model={model.name} cannot carry method={method.name}: choose model={' or '.join(method.models)}."
        )
    if model.name == "fleet" and not method.fleets:
        raise UserError(
            f"model=fleet cannot carry method={method.name}: its clients have different architectures, "
            "whose weights no server can mix."
        )


def _check_parts(config: Config) -> None:
    """Refuse parts that share nodes where the setting is for parts that do not."""
    if config.setting.apart and config.partitioner.overlapping:
        raise UserError(
            f"setting={config.setting.option_name} is for clients that share no nodes, which those of "
            f"partitioner={config.partitioner.name} do: choose another partitioner, or setting=plain."
        )


def _check_fleet(config: Config) -> None:
    """Refuse tests that ask one client's weights about the nodes of others, which clients of a fleet cannot answer."""
    if not {"new_client", "global_graph"}.isdisjoint(config.setting.probes):
        raise UserError("model=fleet is for what clients are tested on of their own: choose setting=plain.")
    if config.protocol.judged == "crosswise":
        raise UserError(
            "protocol.judged=crosswise has one client's weights answer for all, which clients of model=fleet cannot: "
            "set protocol.judged=own."
        )


def _check_tests(config: Config) -> None:
    """Refuse tests on what the method trains on, and a selection by tests where there are none or it trains by them."""
    method, probes, selected_by = config.method, config.setting.probes, config.protocol.selected_by
    if method.on_whole_graph and "links" in probes:
        raise UserError(
            f"method={method.name} trains on the whole graph, with the links that setting=links holds back from "
            "clients: choose another method or setting=plain."
        )
    if selected_by == "test" and probes[0] == "global_graph":
        raise UserError(
            "protocol.selected_by=test selects the round by what clients are tested on of their own, which "
            "setting=global_graph has none of: set protocol.selected_by=validation."
        )
    if selected_by == "test" and method.validates:
        raise UserError(
            f"protocol.selected_by=test would have method={method.name} train by looking at test nodes, as it does at "
            "those that validate: set protocol.selected_by=validation."
        )


def _check_fanout(config: Config) -> None:
    """Refuse a model that draws neighbours for mini-batches where there are none."""
    fanout = config.model.fanout
    if fanout and not config.protocol.batch:
        batches = "give protocol.batch a number of nodes, or " if config.method.batched else ""
        raise UserError(
            f"model.fanout={fanout} is for the protocol's mini-batches, and protocol.batch=0 has none: "
            f"{batches}set model.fanout=0."
        )


def _for_unit(axis: str, unit: str) -> list[str]:
    """List the options that are for data sets which ask about nodes, or about graphs."""
    return sorted(name for name, option in registry.options(axis).items() if unit in option.units)


def _choice(axis: str, names: list[str]) -> str:
    return f"{axis}={names[0]}" if len(names) == 1 else f"{axis} from {', '.join(names)}"


def _check_unit(config: Config) -> None:
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
