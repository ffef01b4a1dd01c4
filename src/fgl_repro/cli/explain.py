"""What Hydra and OmegaConf refuse, in one sentence that names the fix."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import is_dataclass

from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from fgl_repro.config import GROUPS, options
from fgl_repro.config.refused import HINTS, of_yaml, unknown_option, wrong_value
from fgl_repro.config.schema import unknown_key
from fgl_repro.config.yamls import in_one_line
from fgl_repro.core.errors import UserError, nearest, sentence
from fgl_repro.core.extras import install

FOR_EXAMPLE = "method=fedavg"


def explain(error: BaseException) -> str:
    """Tell any refusal as one sentence."""
    if isinstance(error, UserError) or (isinstance(error, OSError) and not isinstance(error, HydraException)):
        return sentence(error)
    if fault := of_yaml(error):
        return sentence(UserError(fault))
    if isinstance(error, OverrideParseException):
        name, is_value, value = error.override.partition("=")
        fix = f"; a value of any text is read in quotes, as in '{name}={quoted(value)}'" if is_value and value else ""
        return f"the override '{error.override}' cannot be read: {in_one_line(error)}{fix}."
    if matched := re.match(r"Ambiguous value for argument '([^=]+)=(.*)'", str(error)):
        as_list = f", or write {matched[1]}=[{matched[2]}] if it is one list" if "." in matched[1] else ""
        return f"{matched[1]}={matched[2]} gives several values: add -m (a sweep){as_list}."
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _missing(error.missing_cfg_file, list(error.options or ()), str(error))
    cause = error.__cause__
    message = str(error)
    matched = re.search(r"Could not override '([^']+)'", message)
    if matched and isinstance(cause, OmegaConfBaseException) and isinstance(cause.object_type, type):
        key = str(cause.full_key or matched[1])
        if not is_dataclass(cause.object_type):  # an open mapping, as protocol.tuning
            return f"{key} is not there to be changed: write + before its name to add it."
        return unknown_key(key, cause.object_type)
    if "does not support deletion" in f"{message} {cause}":
        return "keys of a run cannot be removed: leave the word with ~ out, or give the key another value."
    matched = re.search(r"Error merging override (\S+)", message)
    if matched and cause is not None:
        key, _, value = matched[1].partition("=")
        return wrong_value(key, value, cause)
    if isinstance(error, MissingMandatoryValue):
        key = str(error.full_key)
        choices = f", one of {', '.join(options(key))}" if key in GROUPS else ""
        return f"{key} is missing: give {key}=...{choices}."
    parts = [in_one_line(error), *([in_one_line(cause)] if isinstance(cause, Exception) else [])]
    return f"{': '.join(dict.fromkeys(part for part in parts if part))}."


def of_flags(message: str, words: Sequence[str]) -> str:
    """Tell how settings are written, where a parser's ``message`` refuses flags among ``words``; empty where not."""
    for flag, behind in zip(words, [*words[1:], ""], strict=True):
        if flag.startswith("-") and message.startswith(f"unrecognized arguments: {flag}"):
            key, _, value = flag.lstrip("-").partition("=")
            value = value or ("..." if not behind or behind.startswith("-") or "=" in behind else behind)
            known = key.partition(".")[0] in (*GROUPS, "seed")
            return f"; {_written(f'{key}={value}' if known else FOR_EXAMPLE)}"
    return ""


def refuse_unclear(overrides: Sequence[str], *, sweep: bool) -> None:
    """Refuse overrides without a value, and a group that is given twice, of which Hydra would take the last.

    Raises:
        UserError: There is one.
    """
    chosen: dict[str, dict[str, None]] = {}
    for word in overrides:
        name, sign, option = word.partition("=")
        if not sign and not word.startswith("~"):
            meant = [f"{group}={name}" for group in GROUPS if name in options(group)]
            meant = [f"{name}=..."] if name in GROUPS else meant or [FOR_EXAMPLE]
            raise UserError(f"'{word}' has no value: {_written(' or '.join(meant))}")
        if name in GROUPS and not sweep:
            chosen.setdefault(name, {})[option] = None
    for group, given in chosen.items():
        if len(given) > 1:
            often = "twice" if len(given) == 2 else f"{len(given)} times"
            fix = f"give one, or add -m and write {group}={','.join(given)}"
            raise UserError(f"{group} is given {often}, as {' and as '.join(given)}: {fix}")


def _written(example: str) -> str:
    return f"settings are written key=value, as in {example}"


def quoted(text: str) -> str:
    """Quote a value so that Hydra reads it as this text, whatever is in it; a plain path stays as it is."""
    plain = re.fullmatch(r"[\w.-]*/[\w./-]+", text, re.ASCII)
    return text if plain else QuotedString(text, Quote.double).with_quotes()


def _missing(named: str, available: list[str], message: str) -> str:
    """Explain the choice of an option that no yaml file has."""
    group, _, option = named.rpartition("/")
    names = options(group) or sorted(name for name in available if not name.startswith("_"))
    method, _, variant = option.partition(":") if ":" in option else option.rpartition("-")
    if group == "method" and method in names:
        return f"{group}={option} is no option: give method={method} method.variant={variant}."
    if group in GROUPS and not message.startswith("In '"):
        return unknown_option(group, option, names)
    where = re.match(r"In '([^']+)'", message)
    choose = f"choose from {', '.join(names)}" if names else "see the folders of conf/"
    plugins = f"; further ones come with {install('launchers')}" if group.startswith("hydra/") else ""
    plugins = HINTS.get(group, plugins)
    inside = f" (asked for by {where[1]})" if where and not where[1].endswith("config") else ""
    return f"{group}={option} does not exist{nearest(option, names)}{inside}: {choose}{plugins}."
