"""What Hydra and OmegaConf refuse, in one sentence that names the fix."""

from __future__ import annotations

import re
from dataclasses import is_dataclass

from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from fgl_repro.config import GROUPS, options
from fgl_repro.config.refused import TO_ADD, of_yaml, unknown_option, wrong_value
from fgl_repro.config.schema import unknown_key
from fgl_repro.config.yamls import in_one_line
from fgl_repro.core.errors import UserError, nearest, sentence
from fgl_repro.core.extras import install


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


def quoted(text: str) -> str:
    """Quote a value so that Hydra reads it as this text, whatever is in it; a plain path stays as it is."""
    plain = re.fullmatch(r"[\w.-]*/[\w./-]+", text, re.ASCII)
    return text if plain else QuotedString(text, Quote.double).with_quotes()


def _missing(named: str, available: list[str], message: str) -> str:
    """Explain the choice of an option that no yaml file has."""
    group, _, option = named.rpartition("/")
    names = options(group) or sorted(name for name in available if not name.startswith("_"))
    method, colon, variant = option.partition(":")
    if group == "method" and colon and method in names:
        return f"{group}={option} is no option: give method={method} method.variant={variant}."
    if group in GROUPS and not message.startswith("In '"):
        return unknown_option(group, option, names)
    where = re.match(r"In '([^']+)'", message)
    choose = f"choose from {', '.join(names)}" if names else "see the folders of conf/"
    plugins = f"; further ones come with {install('launchers')}" if group.startswith("hydra/") else ""
    plugins = TO_ADD if group == "method" else plugins
    inside = f" (asked for by {where[1]})" if where and not where[1].endswith("config") else ""
    return f"{group}={option} does not exist{nearest(option, names)}{inside}: {choose}{plugins}."
