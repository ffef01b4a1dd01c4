"""The typed configuration: registration of methods by scanning, composition, identity and key."""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import math
import os
import pkgutil
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError, ValidationError

from fgl_repro.errors import UserError
from fgl_repro.fl.method import Method
from fgl_repro.schema import AXES, GROUPS, Config, ProtocolConfig, converted, types_of, unknown

__all__ = [
    "AXES",
    "GROUPS",
    "Config",
    "ProtocolConfig",
    "as_plain",
    "build",
    "cell_of",
    "check",
    "conf_dir",
    "digest",
    "key_of",
    "method_classes",
    "options",
    "override",
    "register",
    "science",
    "typed",
    "unchecked",
]

ENVIRONMENT = ("FGL_CACHE", "FGL_RECORDS")
"""Variables that the yaml files read."""


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
    return _entry(table, "dataset", _root_.dataset.name)


def _by_method(table: DictConfig, *, _root_: DictConfig) -> Any:
    """Resolver ``${by_method:{local:0.001,default:0.01}}``: the entry of the run's method."""
    return _entry(table, "method", getattr(_method_of(_root_), "name", ""))


def _by_cell(table: DictConfig, *, _root_: DictConfig) -> Any:
    """Resolver ``${by_cell:{fedlog-cora-5:3,default:1}}``: the entry of the run's method, data set and clients."""
    method = getattr(_method_of(_root_), "name", "")
    return _entry(table, "cell", f"{method}-{_root_.dataset.name}-{_root_.partitioner.clients}")


def _by_partitioner(table: DictConfig, *, _root_: DictConfig) -> Any:
    """Resolver ``${by_partitioner:{overlap:5,default:3}}``: the entry of the run's partitioner."""
    return _entry(table, "partitioner", _root_.partitioner.name)


def _architecture(*, _root_: DictConfig) -> Any:
    """Resolver ``${architecture:}``: the model on which the run's method is built."""
    return getattr(_method_of(_root_), "models", ("gcn",))[0]


def _method_of(root: DictConfig) -> type | None:
    """Class of the chosen method; None where none is chosen, which is refused in better words later."""
    return None if OmegaConf.is_missing(root, "method") else OmegaConf.get_type(root.method)


def _entry(table: DictConfig, axis: str, name: str) -> Any:
    if name not in table and "default" not in table:
        raise UserError(f"no value for {axis} {name} in {dict(table)}: add it, or a default, to the yaml.")
    return table[name] if name in table else table["default"]


def register() -> None:
    """Put schemas and resolvers where Hydra finds them; safe to call twice."""
    OmegaConf.register_new_resolver("by_dataset", _by_dataset, replace=True)
    OmegaConf.register_new_resolver("by_method", _by_method, replace=True)
    OmegaConf.register_new_resolver("by_cell", _by_cell, replace=True)
    OmegaConf.register_new_resolver("by_partitioner", _by_partitioner, replace=True)
    OmegaConf.register_new_resolver("architecture", _architecture, replace=True)
    store = ConfigStore.instance()
    store.store(name="_schema", node=Config)
    for f in fields(Config):
        if f.name in GROUPS and f.name != "method":
            store.store(group=f.name, name="_schema", node=f.default_factory)
    for name, cls in method_classes().items():
        store.store(group="method", name=f"_{name}", node=cls)


def typed(cfg: DictConfig) -> Config:
    """Resolve a composed Hydra config into plain dataclasses (the method into its own class), and check it."""
    return check(_typed(cfg))


def _typed(cfg: DictConfig) -> Config:
    cfg = copy.deepcopy(cfg)
    try:
        OmegaConf.resolve(cfg)
    except InterpolationResolutionError as error:
        _, marker, told = str(error).partition(f"{UserError.__name__} raised while resolving interpolation: ")
        if not marker:
            raise
        raise UserError(told.splitlines()[0]) from None  # a resolver's own sentence, which OmegaConf has wrapped
    _known(cfg, "", Config)
    values: dict[str, Any] = {}
    for f in fields(Config):
        node = cfg[f.name]
        values[f.name] = OmegaConf.to_object(node) if OmegaConf.is_config(node) else node
        if isinstance(values[f.name], dict):
            raise UserError(f"the yaml chosen for {f.name} has no schema: begin it with `defaults: [_schema, _self_]`.")
        if f.name in GROUPS:
            _known(node, f"{f.name}.", type(values[f.name]))
    return Config(**values)


def _known(node: DictConfig, prefix: str, owner: type) -> None:
    """Hydra's ``+key=value`` adds keys that nothing would ever read."""
    for name in node:
        if name not in {f.name for f in fields(owner)}:
            raise UserError(unknown(prefix + str(name), owner))


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
    if config.protocol.split_source not in ("stream", "fedpub"):
        raise UserError(f"protocol.split_source={config.protocol.split_source} is unknown: choose stream or fedpub.")
    if config.protocol.average not in ("pooled", "clients"):
        raise UserError(f"protocol.average={config.protocol.average} is unknown: choose pooled or clients.")
    if config.protocol.batch < 0:
        raise UserError(f"protocol.batch={config.protocol.batch} is negative: give a number of nodes, or 0 for all.")
    if config.protocol.batch and not config.method.batched:
        raise UserError(f"protocol.batch is not for method={config.method.name}, which draws its own: leave it at 0.")
    for name in ("lr", "weight_decay"):
        value = getattr(config.protocol, name)
        if not (math.isfinite(value) and value >= 0):
            raise UserError(f"protocol.{name}={value} must be a finite number, zero or more.")
    if config.model.name not in config.method.models:
        raise UserError(
            f"model.name={config.model.name} cannot carry method={config.method.name}: "
            f"choose model={' or '.join(config.method.models)}."
        )
    if config.model.hidden < 1:
        raise UserError(f"model.hidden={config.model.hidden} leaves no units: give at least 1.")
    for name in ("fanout", "test_fanout"):
        if (fan := getattr(config.model, name)) < 0 or (fan and config.model.name == "gcn"):
            raise UserError(
                f"model.{name}={fan} is not for model.name={config.model.name}: give a number of neighbours that a "
                "GraphSAGE draws of each node, or 0 for all."
            )
    if config.model.fanout and not config.protocol.batch:
        batches = "give protocol.batch a number of nodes, or " if config.method.batched else ""
        raise UserError(
            f"model.fanout={config.model.fanout} is for the protocol's mini-batches, and protocol.batch=0 has none: "
            f"{batches}set model.fanout=0."
        )
    if config.model.name == "sage_halves" and config.model.hidden % 4:
        raise UserError(f"model.hidden={config.model.hidden} cannot be halved twice: give a multiple of 4.")
    if config.protocol.judged not in ("own", "server"):
        raise UserError(f"protocol.judged={config.protocol.judged} is unknown: choose own or server.")
    config.method.check()
    if not 0 <= config.model.dropout < 1:
        raise UserError(f"model.dropout={config.model.dropout} must lie in [0, 1).")
    if config.runtime.curves not in ("validation", "all"):
        raise UserError(f"runtime.curves={config.runtime.curves} is unknown: choose validation or all.")
    if config.runtime.threads < 1:
        raise UserError(f"runtime.threads={config.runtime.threads} computes nothing: give at least 1.")
    if config.logger.mode not in ("offline", "online", "disabled"):
        raise UserError(f"logger.mode={config.logger.mode} is unknown: choose offline, online or disabled.")
    return config


def _science(value: Any) -> Any:
    if is_dataclass(value):
        hashed = [f for f in fields(value) if f.metadata.get("science", True)]
        known = [f.name for f in hashed if not f.metadata.get("added") or getattr(value, f.name) != f.default]
        return {name: _science(getattr(value, name)) for name in known}
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
    """Names one may give for ``group``, from the yaml files; names that begin with an underscore are private."""
    return sorted(p.stem for p in (conf_dir() / group).glob("*.yaml") if not p.stem.startswith("_"))


def build(overrides: Mapping[str, Any] | None = None, **choices: str | int) -> Config:
    """The config Hydra would compose, without Hydra's cost: group choices plus dotted overrides.

    Hydra composes each option once, orthogonal axes are then put together here, and each combination is kept: a table
    can name a thousand runs in a fraction of a second.

    Args:
        overrides: Dotted key to value, applied last, e.g. ``{"protocol.lr": 0.01}``.
        choices: ``dataset="cora"``, ``method="fedpub"``, ...; ``clients=3`` and ``seed=0`` are shorthands.

    Raises:
        UserError: A choice, a key or a type that does not exist.
    """
    short = {"clients": "partitioner.clients", "seed": "seed"}
    dotted: dict[str, Any] = {short[name]: value for name, value in choices.items() if name in short}
    dotted |= overrides or {}
    clients = dotted.get(short["clients"])
    known = int(str(clients)) if str(clients).isdigit() else None
    return override(unchecked(known, **{n: str(option) for n, option in choices.items() if n not in short}), dotted)


def unchecked(clients: int | None, **groups: str) -> Config:
    """What options say together, to be read only: an override may still mend what could not run.

    Args:
        clients: Number of clients; None: the default.
    """
    return _combined(tuple(sorted(groups.items())), clients, tuple(map(os.environ.get, ENVIRONMENT)))


@cache
def _combined(choices: tuple[tuple[str, str], ...], clients: int | None, environment: tuple[str | None, ...]) -> Config:
    """One combination of options. Values may depend on several of them (``by_cell``), so all are in the cache's key.

    Args:
        environment: What the yaml files would read, for the cache's key alone.
    """
    root = copy.deepcopy(_node("", ""))
    for group, option in choices:
        if group not in GROUPS:
            raise UserError(f"{group} is not a part of a configuration: choose from {', '.join(GROUPS)}.")
        if option not in options(group):
            raise UserError(f"{group}={option} does not exist: choose from {', '.join(options(group))}.")
        root[group] = copy.deepcopy(_node(group, option))
    if clients is not None:
        root.partitioner.clients = clients
    return _typed(root)


def override(config: Config, overrides: Mapping[str, Any]) -> Config:
    """A copy of ``config`` with dotted keys replaced.

    Raises:
        UserError: A key that does not exist, a value of the wrong type, or a config that can never run.
    """
    out = copy.deepcopy(config)
    for dotted, value in overrides.items():
        *path, last = dotted.split(".")
        target: Any = out
        for depth, name in enumerate(path):
            target = _field(target, name, ".".join(path[: depth + 1]), group=True)
        _field(target, last, dotted, group=False)
        if dotted in ("protocol.features", "protocol.component"):
            raise UserError(
                f"{dotted} only fills dataset.{last}, which is already set here: give dataset.{last} instead."
            )
        try:
            setattr(target, last, converted(types_of(target.__class__)[last], value))
        except ValidationError as error:
            raise UserError(f"{dotted}={value}: {str(error).splitlines()[0]}.") from None
    out.method = replace(out.method)  # its own checks, again
    return check(out)


def _field(target: Any, name: str, dotted: str, *, group: bool) -> Any:
    if name not in types_of(target.__class__) or is_dataclass(getattr(target, name)) != group:
        raise UserError(unknown(dotted, target.__class__))
    return getattr(target, name)


def as_plain(config: Config) -> dict[str, Any]:
    """Whole config as plain containers, for display and W&B."""
    out = asdict(config)
    out["method"] = {"name": config.method.name, **asdict(config.method)}
    return out
