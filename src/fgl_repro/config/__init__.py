"""The configuration of a run: composed, checked, identified."""

from fgl_repro.config.compose import (
    assembled,
    build,
    cache_of_options,
    compose_ahead,
    copied,
    forget,
    options,
    override,
    register,
    search,
    typed,
    unchecked,
    yaml_files,
)
from fgl_repro.config.identity import as_plain, cell_of, digest, from_science, key_of, keys_of, outdated, science
from fgl_repro.config.schema import AXES, GROUPS, Config, check
from fgl_repro.config.yamls import conf_dir, folders, searched

__all__ = [
    "AXES",
    "GROUPS",
    "Config",
    "as_plain",
    "assembled",
    "build",
    "cache_of_options",
    "cell_of",
    "check",
    "compose_ahead",
    "conf_dir",
    "copied",
    "digest",
    "folders",
    "forget",
    "from_science",
    "key_of",
    "keys_of",
    "options",
    "outdated",
    "override",
    "register",
    "science",
    "search",
    "searched",
    "typed",
    "unchecked",
    "yaml_files",
]
