"""What Hydra and OmegaConf refuse of yaml files and values, in one sentence that names the file and the fix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import ConfigKeyError, GrammarParseError, OmegaConfBaseException
from yaml import YAMLError

from fgl_repro.config.schema import GROUPS, Config, unknown_key
from fgl_repro.config.yamls import CONTAINS_ITSELF, conf_dir, folders, in_one_line, read_yaml
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError, nearest
from fgl_repro.core.registry import PACKAGES

UNREADABLE = (YAMLError, UnicodeDecodeError, RecursionError, GrammarParseError)
WANTED = {"Float": "a number", "Integer": "a whole number"}
"""What OmegaConf calls types of numbers, and what they are."""
HINTS = {"method": " (to add one: docs/adding.md)", "logger": " (online and offline log to Weights & Biases)"}
"""What is said behind the options of a group, where none of them was named."""


def schemas(group: str) -> dict[str, type]:
    """List what a yaml of ``group`` may begin with: ``_NAME`` for each option of an axis, else ``_schema``."""
    if group in PACKAGES:
        return {f"_{name}": option for name, option in registry.options(group).items()}
    return {"_schema": get_type_hints(Config)[group]} if group in GROUPS else {}


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """Tell what is wrong with yaml files, where nothing else is composed, by a UserError."""
    try:
        yield
    except (HydraException, OmegaConfBaseException, *UNREADABLE, ValueError) as error:
        fault = of_yaml(error)
        if fault is None and not isinstance(error, HydraException | OmegaConfBaseException):
            raise
        raise UserError(fault or f"{in_one_line(error.__cause__ or error)}: mend the yaml.") from error


def of_yaml(error: BaseException) -> str | None:
    """Tell what is wrong with a yaml file; None where something else is."""
    message, cause = str(error), error.__cause__ or error.__context__
    if isinstance(error, UNREADABLE) or isinstance(cause, GrammarParseError):
        return _unreadable(error)
    if matched := re.match(r"Invalid defaults list in '(.+)', (.+)", message):
        return _wrong(matched[1], f"its {matched[2]}, as in [{_first_schema(matched[1])}, _self_]")
    if not (matched := re.match(r"In '(.+?)': (Could not load|Could not find|\w+ raised while composing)", message)):
        return None
    if matched[2] == "Could not find" and matched[1].rpartition("/")[0] not in GROUPS:
        return None  # a choice, which an experiment makes as a command line does
    if isinstance(error, MissingConfigException):
        return _wrong(matched[1], _unknown_default(matched[1], str(error.missing_cfg_file)))
    return _wrong(matched[1], _wrong_entry(matched[1], cause)) if isinstance(cause, OmegaConfBaseException) else None


def no_schema(group: str) -> str:
    """Write the sentence for a yaml whose keys belong to no class."""
    return (
        f"the yaml chosen for {group} has no schema: begin it with `defaults: [NAME, _self_]`, "
        f"NAME being {' or '.join(schemas(group))}."
    )


def unknown_option(group: str, name: str, known: Sequence[str]) -> str:
    """Write the sentence for a choice that no yaml file has.

    Where there is a class of that name, it lacks its yaml.
    """
    if group in PACKAGES and name in registry.options(group):
        where = f"write {group}/{name}.yaml in {conf_dir()} or in a folder of --config-dir"
        return f"{group}={name} is a class without a yaml: {where}, beginning with `defaults: [_{name}, _self_]`."
    known_names = f"{', '.join(known)}{HINTS.get(group, '')}"
    return f"{group}={name} does not exist{nearest(name, known)}: choose from {known_names}."


def check_name(protocol: str) -> None:
    """Refuse a protocol whose yaml does not say its name: its records would be another one's.

    Raises:
        UserError: It does not.
    """
    path = _file(f"protocol/{protocol}")
    if isinstance(path, Path) and (read_yaml(path, "protocol") or {}).get("name") != protocol:
        raise UserError(f"the protocol {path} does not say its name: write `name: {protocol}` there.")


def wrong_value(key: str, value: Any, error: BaseException) -> str:
    """Write the sentence for a value that a key cannot have."""
    matched = re.search(r"could not be converted to (Float|Integer)", str(error))
    if matched and isinstance(getattr(error, "key", None), int) and not key.endswith("]"):
        return f"{key}={value}: give a list of {WANTED[matched[1]].removeprefix('a ')}s."
    if matched:
        return f"{key}={value}: give {WANTED[matched[1]]}."
    if "is not Optional" in str(error):
        return f"{key}={value}: it always has a value: give one, or leave the word out."
    return f"{key}={value}: {in_one_line(error)}."


def _file(config: str) -> Path | str:
    """Find the yaml file of what Hydra calls ``method/mine``."""
    found = [path for folder in folders() if (path := folder / f"{config}.yaml").is_file()]
    return found[0] if found else config


def _wrong(config: str, what: str) -> str:
    return f"the {config.rpartition('/')[0]} {_file(config)} cannot be used: {what.rstrip('.')}."


def _first_schema(config: str) -> str:
    """Tell with what the defaults of a yaml begin."""
    group, _, name = config.rpartition("/")
    return next((each for each in (f"_{name}", "_schema") if each in schemas(group)), "_NAME")


def _unreadable(error: BaseException) -> str | None:
    """Write the sentence for the yaml file that stopped the parser.

    Where the parser does not name the file, it is the one of the user's own that cannot be read for the same reason.
    """
    cause = error.__cause__ or error.__context__
    reason = in_one_line(cause if isinstance(cause, GrammarParseError) else error)
    reason = CONTAINS_ITSELF if isinstance(error, RecursionError) else reason
    others = []
    mark = getattr(error, "problem_mark", None) or error
    named = Path(str(getattr(mark, "name", "")))
    own = [path for folder in folders() if folder != conf_dir() for path in sorted(folder.glob("*/*.yaml"))]
    for path in [named, *own] if named.is_file() else own:
        try:
            found = read_yaml(path, path.parent.name)
        except UserError as unreadable:
            if path == named or reason in str(unreadable):
                return str(unreadable)
            others.append(str(unreadable))
            continue
        defaults = found.get("defaults") if isinstance(found, dict) else None
        if isinstance(error, RecursionError) and isinstance(defaults, list) and path.stem in defaults:
            config = f"{path.parent.name}/{path.stem}"
            return _wrong(config, f"its defaults name itself: begin them with {_first_schema(config)}")
    return others[0] if others else None


def _unknown_default(config: str, missing: str) -> str:
    """Write what to say of a name in a yaml's ``defaults`` that is none."""
    group, _, name = missing.rpartition("/")
    if name.startswith("_") and schemas(group):
        known = sorted(schemas(group))
    else:
        files = {path.stem for folder in folders() for path in (folder / group).glob("*.yaml")}
        known = sorted(files - {config.rpartition("/")[2]})
    if not known:
        return f"its defaults name {missing}, which does not exist: begin them with {_first_schema(config)}"
    return f"its defaults name {name}, which does not exist{nearest(name, known)}: choose from {', '.join(known)}"


def _wrong_entry(config: str, error: OmegaConfBaseException) -> str:
    """Write what to say of a key that there is not, or a value that it cannot have."""
    group, key = config.rpartition("/")[0], str(error.full_key or error.key)
    if group in GROUPS:  # whose keys Hydra knows by the place where it puts them
        key = f"{group}.{key.partition('.')[2]}"
    if isinstance(error, ConfigKeyError):
        owner = error.object_type
        return unknown_key(key, owner) if isinstance(owner, type) and is_dataclass(owner) else in_one_line(error)
    return wrong_value(key, error.value, error)
