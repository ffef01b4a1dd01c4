"""The typed configuration: schema, registration of methods by scanning, identity and key.

Everything that can change a number is *science* and is hashed; everything else (names of protocols, tuning grids,
where files lie, which device) carries ``science=False`` and is not.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import pkgutil
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import MISSING, DictConfig, OmegaConf

from fgl_repro.errors import UserError
from fgl_repro.fl.method import Method

AXES = ("dataset", "partitioner", "setting", "protocol", "model", "method")


def _how(default: Any) -> Any:
    """A field that says how to run or report, never what is computed; left out of the identity."""
    return field(default=default, metadata={"science": False})


@dataclass
class DatasetConfig:
    name: str = MISSING
    features: str = "row"
    revision: int = 1


@dataclass
class PartitionerConfig:
    name: str = MISSING
    clients: int = 3
    revision: int = 1


@dataclass
class SettingConfig:
    """``world`` is what is built and hashed; ``focus`` is the probe a person asked to see."""

    world: str = MISSING
    hops: int = 0
    crop: float = 0.0
    revision: int = 1
    focus: str = _how("seen_graph")


@dataclass
class ProtocolConfig:
    """Optimisation and evaluation rules shared by all methods of a paper.

    Attributes:
        split: Shares of training, validation and test nodes.
        split_seed: Seed of the global split and crop; papers draw one for all run seeds.
        rounds: Communication rounds R.
        local_epochs: Full-batch epochs a client trains each round.
        lr: Adam's learning rate.
        weight_decay: Adam's coupled L2 factor.
        selection: What a table prints: ``best_validation`` or ``last`` (records always hold both).
        ddof: Delta degrees of freedom of the printed std.
        tuning: ``{seed: s, candidates: {method: [{dotted override: value}, ...]}}``, or empty.
    """

    split: list[float] = field(default_factory=lambda: [0.4, 0.3, 0.3])
    split_seed: int = 0
    rounds: int = 100
    local_epochs: int = 1
    lr: float = 0.01
    weight_decay: float = 1e-6
    revision: int = 1
    name: str = _how(MISSING)
    selection: str = _how("best_validation")
    ddof: int = _how(0)
    tuning: dict[str, Any] = field(default_factory=dict, metadata={"science": False})


@dataclass
class ModelConfig:
    name: str = "gcn"
    hidden: int = 128
    dropout: float = 0.5


@dataclass
class RuntimeConfig:
    """How to run. ``curves``: ``validation`` (cheap) or ``all`` (every probe every round)."""

    device: str = "auto"
    threads: int = 1
    deterministic: bool = False
    curves: str = "validation"
    progress: bool = True
    force: bool = False


@dataclass
class LoggerConfig:
    """W&B. ``mode``: ``offline``, ``online`` or ``disabled``; sweeps log afterwards unless ``live_in_sweeps``."""

    mode: str = "offline"
    project: str = "fgl_repro"
    entity: str | None = None
    live_in_sweeps: bool = False


@dataclass
class PathsConfig:
    cache: str = "cache"
    records: str = "results/records"
    outputs: str = "outputs"


@dataclass
class Config:
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    partitioner: PartitionerConfig = field(default_factory=PartitionerConfig)
    setting: SettingConfig = field(default_factory=SettingConfig)
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    method: Any = MISSING
    seed: int = 0
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    paths: PathsConfig = field(default_factory=PathsConfig)


def conf_dir() -> Path:
    """Folder of the yaml files: beside the sources in a checkout, inside the package when installed from a wheel."""
    here = Path(__file__).resolve()
    checkout = here.parents[2] / "conf"
    return checkout if checkout.is_dir() else here.parent / "conf"


@cache
def method_classes() -> dict[str, type[Method]]:
    """Every method found in ``fgl_repro.methods``, by name. A new method is a new file there."""
    package = importlib.import_module("fgl_repro.methods")
    found: dict[str, type[Method]] = {}
    for module in pkgutil.iter_modules(package.__path__):
        for item in vars(importlib.import_module(f"fgl_repro.methods.{module.name}")).values():
            if isinstance(item, type) and issubclass(item, Method) and "name" in vars(item):
                found[item.name] = item
    return found


def _by_dataset(table: DictConfig, *, _root_: DictConfig) -> Any:
    """Resolver ``${by_dataset:{cora:0.01,default:0.001}}``: the entry of the run's data set."""
    name = _root_.dataset.name
    if name not in table and "default" not in table:
        raise UserError(f"no value for dataset {name} in {dict(table)}: add it, or a default, to the yaml.")
    return table[name] if name in table else table["default"]


def _by_method(table: DictConfig, *, _root_: DictConfig) -> Any:
    """Resolver ``${by_method:{local:0.001,default:0.01}}``: the entry of the run's method."""
    method = OmegaConf.get_type(_root_.method)
    return table.get(getattr(method, "name", ""), table["default"])


def register() -> None:
    """Put schemas and resolvers where Hydra finds them; safe to call twice."""
    OmegaConf.register_new_resolver("by_dataset", _by_dataset, replace=True)
    OmegaConf.register_new_resolver("by_method", _by_method, replace=True)
    store = ConfigStore.instance()
    store.store(name="_schema", node=Config)
    for axis in ("dataset", "partitioner", "setting", "protocol", "model", "runtime", "logger", "paths"):
        schema = {f.name: f.default_factory for f in fields(Config)}[axis]
        store.store(group=axis, name="_schema", node=schema)
    for name, cls in method_classes().items():
        store.store(group="method", name=f"_{name}", node=cls)


def typed(cfg: DictConfig) -> Config:
    """Resolve a composed Hydra config into plain dataclasses (the method into its own class)."""
    cfg = copy.deepcopy(cfg)
    OmegaConf.resolve(cfg)
    values: dict[str, Any] = {}
    for f in fields(Config):
        node = cfg[f.name]
        values[f.name] = OmegaConf.to_object(node) if OmegaConf.is_config(node) else node
        if isinstance(values[f.name], dict):
            raise UserError(f"the yaml chosen for {f.name} has no schema: begin it with `defaults: [_schema, _self_]`.")
    config = Config(**values)
    return check(config)


def check(config: Config) -> Config:
    """Refuse what can never run, in one sentence."""
    if config.partitioner.clients < 1:
        raise UserError(
            f"partitioner.clients={config.partitioner.clients} is not a federation: give at least one client."
        )
    split = config.protocol.split
    if len(split) != 3 or min(split) < 0 or abs(sum(split) - 1) > 1e-6:
        raise UserError(f"protocol.split={split} must be three shares (train, validation, test) that sum to 1.")
    if config.protocol.rounds < 1 or config.protocol.local_epochs < 1:
        raise UserError("protocol.rounds and protocol.local_epochs must be at least 1.")
    config.method.check()
    if not 0 <= config.model.dropout < 1:
        raise UserError(f"model.dropout={config.model.dropout} must lie in [0, 1).")
    if config.runtime.curves not in ("validation", "all"):
        raise UserError(f"runtime.curves={config.runtime.curves} is unknown: choose validation or all.")
    return config


def _science(value: Any) -> Any:
    if is_dataclass(value):
        hashed = [f.name for f in fields(value) if f.metadata.get("science", True)]
        return {name: _science(getattr(value, name)) for name in hashed}
    return list(value) if isinstance(value, list | tuple) else value


def science(config: Config) -> dict[str, Any]:
    """The identity of a run as plain JSON types: the six axes and the seed, without what cannot change a number."""
    out = {axis: _science(getattr(config, axis)) for axis in AXES}
    out["method"] = {"name": config.method.name, **out["method"]}
    out["seed"] = config.seed
    return out


def digest(identity: dict[str, Any]) -> str:
    """SHA-256 hex of canonical JSON."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def key_of(config: Config) -> str:
    """Key of a run, 64 hex digits."""
    return digest(science(config))


def cell_of(config: Config) -> str:
    """Key of a run without its seed: what seeds are averaged over."""
    identity = science(config)
    del identity["seed"]
    return digest(identity)


@cache
def _node(group: str, option: str) -> DictConfig:
    """One unresolved option of one group, composed once."""
    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        cfg = compose("config", overrides=[f"{group}={option}"] if group else [])
    return cfg if not group else cfg[group]


def options(group: str) -> list[str]:
    """Names one may give for ``group``, from the yaml files."""
    return sorted(p.stem for p in (conf_dir() / group).glob("*.yaml"))


def build(overrides: dict[str, Any] | None = None, **choices: str | int) -> Config:
    """A config without Hydra's per-call cost: group choices plus dotted overrides.

    Hydra composes each option once and orthogonal axes are then put together here, so that a table can name a
    thousand runs in seconds.

    Args:
        overrides: Dotted key to value, applied last, e.g. ``{"protocol.lr": 0.01}``.
        choices: ``dataset="cora"``, ``method="fedpub"``, ...; ``clients=3`` and ``seed=0`` are shorthands.
    """
    root = copy.deepcopy(_node("", ""))
    for group, option in choices.items():
        if group == "clients":
            root.partitioner.clients = option
        elif group == "seed":
            root.seed = option
        else:
            if option not in options(group):
                raise UserError(f"{group}={option} does not exist: choose from {', '.join(options(group))}.")
            clients = root.partitioner.clients
            root[group] = copy.deepcopy(_node(group, str(option)))
            if group == "partitioner":
                root.partitioner.clients = clients
    return override(typed(root), overrides or {})


def override(config: Config, overrides: dict[str, Any]) -> Config:
    """A copy of ``config`` with dotted keys replaced; unknown keys and wrong types are refused."""
    out = copy.deepcopy(config)
    for dotted, value in overrides.items():
        *path, last = dotted.split(".")
        target: Any = out
        for name in path:
            target = getattr(target, name, None)
        if target is None or last not in {f.name for f in fields(target)}:
            raise UserError(f"{dotted} is not a configuration key: see --cfg job for those that are.")
        old = getattr(target, last)
        setattr(target, last, type(old)(value) if isinstance(old, int | float | str) else value)
    return check(out)


def as_plain(config: Config) -> dict[str, Any]:
    """Whole config as plain containers, for display and W&B."""
    out = asdict(config)
    out["method"] = {"name": config.method.name, **asdict(config.method)}
    return out
