"""The typed configuration: what Hydra needs to know of the options, and composition."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, make_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_type_hints

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException, ValidationError

from fgl_repro.config import parts
from fgl_repro.config.refused import check_name, in_a_sentence, no_schema, schemas, unknown_option, wrong_value
from fgl_repro.config.schema import GROUPS, Config, check, unknown_key
from fgl_repro.config.yamls import conf_dir, folders, in_one_line, searched, tell_hydra
from fgl_repro.core.errors import UserError
from fgl_repro.core.files import folder_of
from fgl_repro.core.registry import PACKAGES
from fgl_repro.core.schema import converted
from fgl_repro.nn.architectures.options import Auto

NOTHING = "_nothing"
"""An empty config, to which options are added."""
ENVIRONMENT = ("FGL_CACHE", "FGL_RECORDS")
"""Variables that the yaml files read."""
_emptied: list[Callable[[], None]] = []
"""What :func:`forget` calls."""

P = ParamSpec("P")
T = TypeVar("T")


def search(folder: str | Path) -> None:
    """Look for yaml files in ``folder``, too: ``dataset/``, ``method/``, ``table/``, ... as in ours.

    Raises:
        UserError: It is no folder.
    """
    path = Path(folder).absolute() if isinstance(folder, str | Path) else None
    if path is None or not path.is_dir():
        raise UserError(f"{folder} is not a folder: name one that holds dataset/, method/, table/, ...")
    if path not in folders():
        searched.append(path)
        forget()


def cache_of_options(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function of options as :func:`functools.cache` does; :func:`forget` empties what it keeps."""
    found = cache(function)
    _emptied.append(found.cache_clear)
    return found  # type: ignore[return-value]


def forget() -> None:
    """Read all options anew where they are asked for next."""
    _nodes.clear()
    for empty in _emptied:
        empty()


def yaml_files(group: str) -> dict[str, Path]:
    """Find the yaml file of each name that one may give for ``group``.

    Names that begin with an underscore are private.
    """
    found = [path for folder in reversed(folders()) for path in sorted((folder / group).glob("*.yaml"))]
    return {path.stem: path for path in found if not path.stem.startswith("_")}


def _by(axis: str, table: DictConfig, *, _root_: DictConfig) -> Any:
    """Look up the run's entry of a table that a yaml holds.

    ``${by_dataset:{cora:0.01,default:0.001}}``, ``by_method`` and ``by_partitioner`` look for the name of that option,
    ``${by_cell:{fedlog-cora-5:3,default:1}}`` for method, data set and clients.
    """
    if parts.READING in _root_:
        return parts.as_word(axis, table)
    if axis == "cell":
        name = parts.cell_name(_name(_root_, "method"), _name(_root_, "dataset"), _root_.partitioner.clients)
    else:
        name = _name(_root_, axis)
    return parts.entry(axis, name, table)


def _name(root: DictConfig, axis: str) -> str:
    """Return the name of an axis' option.

    It is empty where none is chosen, which is refused in better words later.
    """
    chosen = axis in root and not OmegaConf.is_missing(root, axis)
    return getattr(OmegaConf.get_type(root[axis]), "name", "") if chosen else ""


def register() -> None:
    """Put schemas, resolvers and folders where Hydra finds them; safe to call twice."""
    tell_hydra()
    _register(tuple((group, name, node) for group in GROUPS for name, node in schemas(group).items()), _help())


def _help() -> str:
    """Write what ``fgl-train --help`` says, without what yaml files alone may name."""
    groups = (*GROUPS, "experiment", "debug")
    chosen = {group: name for entry in _defaults() if isinstance(entry, dict) for group, name in entry.items()}
    lines = [f"{group}: {_marked(names, chosen.get(group))}" for group in groups if (names := options(group))]
    return "\n".join(
        [
            "fgl-train: one run, or with -m a sweep of them. Runs that are recorded are not done again.",
            "\nOptions (group=option):\n",
            *lines,
            "\nSettings (key=value, as in protocol.lr=0.01, or seed=0,1,2 with -m) depend on the options:",
            "fgl-train method=fedlog --help lists FedLoG's and what they mean. Of the options chosen here they are:\n",
            "$CONFIG",
            "Flags: fgl-train --hydra-help. Tables of papers: fgl-table --help. Graphs: fgl-data --help.",
        ]
    )


def _defaults() -> list[Any]:
    """Read the options that a run has unless told otherwise, ``{"dataset": "cora"}`` and others."""
    found: list[Any] = yaml.safe_load((conf_dir() / "config.yaml").read_text())["defaults"]
    return found


def _marked(names: Iterable[str], default: str | None) -> str:
    return ", ".join(f"{name} (default)" if name == default != "default" else name for name in names)


@cache
def _register(known: tuple[tuple[str, str, type], ...], help_text: str) -> None:
    """Register resolvers and schemas with OmegaConf and Hydra.

    Args:
        known: Group, name and class of every schema.
        help_text: What ``--help`` says.
    """
    OmegaConf.register_new_resolver("folder", lambda name, default: str(folder_of(name, default)), replace=True)
    for axis in ("dataset", "method", "partitioner", "cell"):
        OmegaConf.register_new_resolver(f"by_{axis}", partial(_by, axis), replace=True)
    store = ConfigStore.instance()
    # there is one store; Hydra would copy it, schemas and all, for each of the groups that --help might list
    ConfigStore.__deepcopy__ = lambda self, memo: self  # type: ignore[attr-defined]
    hints = get_type_hints(Config)
    loose = [(f.name, Any if f.name in PACKAGES else hints[f.name], f) for f in fields(Config)]
    store.store(name=NOTHING, node={})
    page = {"app_name": "fgl-train", "header": "", "footer": "", "template": help_text}
    store.store(group="hydra/help", name="fgl", node=page)
    store.store(name="_schema", node=make_dataclass("Config", loose))  # an option's own class replaces Any
    for group, name, node in known:
        store.store(group=group, name=name, node=node)


def typed(cfg: DictConfig) -> Config:
    """Resolve a composed Hydra config into plain dataclasses (the method into its own class), and check it."""
    return _possible(_typed(cfg))


def _possible(config: Config) -> Config:
    """Return ``config`` unchanged, or refuse it.

    A UserError says what its options, or sizes that are known, can never do together.
    """
    check(config)
    config.partitioner.check_sizes(config.dataset)
    return config


def _typed(cfg: DictConfig) -> Config:
    cfg = copy.deepcopy(cfg)
    try:
        OmegaConf.resolve(cfg)
    except InterpolationResolutionError as error:
        _, marker, message = str(error).partition(f"{UserError.__name__} raised while resolving interpolation: ")
        if not marker:
            where = error.full_key or "a value"
            raise UserError(f"{where} refers to what is not there ({in_one_line(error)}): mend it.") from error
        raise UserError(message.splitlines()[0]) from None  # a resolver's own sentence, which OmegaConf has wrapped
    _known(cfg, "", Config)
    values: dict[str, Any] = {}
    for f in fields(Config):
        if f.name not in cfg and not OmegaConf.is_missing(cfg, f.name):
            raise UserError(f"{f.name} belongs to every run and cannot be removed: leave ~{f.name} out.")
        node = cfg[f.name]
        values[f.name] = OmegaConf.to_object(node) if OmegaConf.is_config(node) else node
        if isinstance(values[f.name], dict | list):
            raise UserError(no_schema(f.name))
        if f.name in GROUPS:
            _known(node, f"{f.name}.", type(values[f.name]))
    return Config(**_with_model(values))


def _with_model(made: dict[str, Any]) -> dict[str, Any]:
    """Let ``model=auto`` become the model that method and data set ask for."""
    model = made["model"]
    return made | {"model": model.of(made["method"].models, made["dataset"].unit)} if isinstance(model, Auto) else made


def _known(node: DictConfig, prefix: str, owner: type) -> None:
    """Refuse keys that nothing would ever read, which Hydra's ``+key=value`` adds."""
    for name in node:
        if name not in {f.name for f in fields(owner)}:
            raise UserError(unknown_key(prefix + str(name), owner))


_nodes: dict[tuple[str, str], DictConfig] = {}
"""Options that were composed, unresolved, by group and name; under two empty names, what a run has unless told."""


def compose_ahead(wanted: Iterable[tuple[str, str]]) -> None:
    """Compose options of groups in one go, which takes Hydra hardly longer than one; unknown names are passed over."""
    left = [pair for pair in dict.fromkeys(wanted) if pair not in _nodes]
    left = [(group, name) for group, name in left if not group or name in yaml_files(group)]
    if not left:
        return
    register()
    GlobalHydra.instance().clear()
    more = ",".join("'file://{}'".format(str(path).replace("'", "\\'")) for path in searched)
    named = {pair: f"option{number}" for number, pair in enumerate(left) if pair != ("", "")}
    with initialize_config_dir(str(conf_dir()), version_base="1.3"), in_a_sentence():
        search = f"hydra.searchpath=[{more}]"
        if ("", "") in left:
            _nodes["", ""] = compose("config", overrides=[search])
        if named:
            found = compose(
                NOTHING, overrides=[search, *(f"+{group}@{at}={name}" for (group, name), at in named.items())]
            )
            _nodes.update((pair, found[at]) for pair, at in named.items())


def _node(group: str, option: str) -> DictConfig:
    compose_ahead([(group, option)])
    return _nodes[group, option]


def options(group: str) -> list[str]:
    """List the names one may give for ``group``, from the yaml files."""
    return sorted(yaml_files(group))


def build(overrides: Mapping[str, Any] | None = None, **choices: str | int) -> Config:
    """Compose the config that Hydra would, without Hydra's cost: group choices plus dotted overrides.

    Hydra composes each option once, orthogonal axes are then put together here, and each combination is kept.

    Args:
        overrides: Applied last, e.g. ``{"protocol.lr": 0.01}``.
        choices: ``dataset="cora"``, ``method="fedpub"``, ...; ``clients=3`` and ``seed=0`` are shorthands.

    Raises:
        UserError: A choice, a key or a type that does not exist.
    """
    return copy.deepcopy(assembled(overrides, **choices))


def assembled(overrides: Mapping[str, Any] | None = None, **choices: str | int) -> Config:
    """Compose as :func:`build`, but with lists and dictionaries that are those of others, too, and to be read only."""
    short = {"clients": "partitioner.clients", "seed": "seed"}
    dotted: dict[str, Any] = {short[name]: value for name, value in choices.items() if name in short}
    dotted |= overrides or {}
    clients = dotted.get(short["clients"])
    known = int(str(clients)) if str(clients).isdecimal() else None
    return override(unchecked(known, **{n: str(option) for n, option in choices.items() if n not in short}), dotted)


def unchecked(clients: int | None, **groups: str) -> Config:
    """Compose what options say together, to be read only: an override may still mend what could not run."""
    return _combined(tuple(sorted(groups.items())), clients, tuple(map(os.environ.get, ENVIRONMENT)))


@cache_of_options
def _combined(choices: tuple[tuple[str, str], ...], clients: int | None, environment: tuple[str | None, ...]) -> Config:
    """Put one combination of options together.

    Values may depend on several of them (``by_cell``), so all are in the cache's key, and so is the ``environment``
    that the yaml files read.
    """
    for group, option in choices:
        if group not in GROUPS:
            raise UserError(f"{group} is not a part of a configuration: choose from {', '.join(GROUPS)}.")
        if (group, option) not in _nodes and option not in options(group):
            raise UserError(unknown_option(group, option, options(group)))
    chosen = dict(choices)
    every = {group: _part(group, chosen.get(group, ""), environment) for group in GROUPS}
    known = {group: part for group, part in every.items() if part is not None}
    if known.keys() != every.keys():
        return _typed(_root(choices, clients))
    if clients is not None:
        known["partitioner"] = known["partitioner"].with_value("clients", clients)
    return Config(**_with_model(parts.together(known)), seed=_node("", "").seed)


@cache_of_options
def _part(group: str, option: str, environment: tuple[str | None, ...]) -> parts.Part | None:
    """Read an option of a group, or (empty) what the run has unless told otherwise."""
    node = _node(group, option) if option else _node("", "")._get_node(group)
    found = parts.read(node) if isinstance(node, DictConfig) and not node._is_missing() else None
    if group == "protocol" and found is not None:
        check_name(option)
    return found


def _root(choices: tuple[tuple[str, str], ...], clients: int | None) -> DictConfig:
    """Put the options together as one config of OmegaConf."""
    root = copy.deepcopy(_node("", ""))
    for group, option in choices:
        try:
            root[group] = _node(group, option)  # which OmegaConf copies
        except ValidationError:
            raise UserError(no_schema(group)) from None
    if clients is not None:
        root.partitioner.clients = clients
    return root


def copied(config: Config) -> Config:
    """Copy a config so that its options may be set.

    Lists and dictionaries in them are the same ones, and to be read only.
    """
    out = copy.copy(config)
    for group in GROUPS:
        setattr(out, group, copy.copy(getattr(config, group)))
    return out


def override(config: Config, overrides: Mapping[str, Any]) -> Config:
    """Return a copy of ``config`` with dotted keys replaced, see :func:`copied`.

    A value ``${partitioner.clients}`` is, as in Hydra, the one that the config has there in the end.

    Raises:
        UserError: A key that does not exist, a value of the wrong type, or a config that can never run.
    """
    out = copied(config)
    references = {dotted: same for dotted, value in overrides.items() if (same := parts.reference(value)) is not None}
    for dotted, value in [*(item for item in overrides.items() if item[0] not in references), *references.items()]:
        target, last = _place(out, dotted)
        if isinstance(value, parts.Same):
            for _ in references:  # one may refer to another
                value = references.get(f"{value.group}.{value.key}", value)
            value = getattr(*_place(out, f"{value.group}.{value.key}"))
        if dotted in ("protocol.features", "protocol.component"):
            raise UserError(
                f"{dotted} only fills dataset.{last}, which is already set here: give dataset.{last} instead."
            )
        try:
            setattr(target, last, converted(type(target), last, value))
        except OmegaConfBaseException as error:
            raise UserError(wrong_value(dotted, value, error)) from None
    for group in {dotted.partition(".")[0] for dotted in overrides} & set(GROUPS):
        setattr(out, group, replace(getattr(out, group)))  # its own checks, again
    return _possible(out)


def _place(config: Config, dotted: str) -> tuple[Any, str]:
    """Find what has the key, and the key's name there."""
    *path, last = dotted.split(".")
    target: Any = config
    for depth, name in enumerate(path):
        target = _field(target, name, ".".join(path[: depth + 1]), group=True)
    _field(target, last, dotted, group=False)
    return target, last


def _field(target: Any, name: str, dotted: str, *, group: bool) -> Any:
    if name not in {f.name for f in fields(target)} or is_dataclass(getattr(target, name)) != group:
        raise UserError(unknown_key(dotted, type(target)))
    return getattr(target, name)
