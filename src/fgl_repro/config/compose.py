"""The typed configuration: registration of methods by scanning, and composition."""

from __future__ import annotations

import copy
import importlib
import os
import pkgutil
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError, ValidationError

from fgl_repro.config.checks import check
from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import AXES, GROUPS, Config, converted, types_of, unknown
from fgl_repro.fl.method import Method

ENVIRONMENT = ("FGL_CACHE", "FGL_RECORDS")
"""Variables that the yaml files read."""


def conf_dir() -> Path:
    """Folder of the yaml files: beside the sources in a checkout, inside the package when installed from a wheel."""
    here = Path(__file__).resolve()
    checkout = here.parents[3] / "conf"
    return checkout if checkout.is_dir() else here.parents[1] / "conf"


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


def from_science(identity: Mapping[str, Any]) -> Config:
    """The config whose science a record holds, with today's defaults for all that is not science.

    Raises:
        UserError: This version does not know the method, or a setting of it.
    """
    method = dict(identity["method"])
    name = method.pop("name")
    if name not in method_classes():
        raise UserError(f"method {name} of the record is not in this version.")
    schema: dict[str, Any] = {f.name: f.default_factory for f in fields(Config)}
    try:
        axes = {axis: schema[axis](**identity[axis]) for axis in AXES if axis != "method"}
        return Config(**axes, method=method_classes()[name](**method), seed=identity["seed"])
    except TypeError as error:
        raise UserError(f"the record was made by a version with other settings ({error}).") from None
