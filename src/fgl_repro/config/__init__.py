"""The configuration of a run: composed, checked, identified."""

from fgl_repro.config.compose import (
    build,
    conf_dir,
    folders,
    options,
    override,
    register,
    search,
    typed,
    unchecked,
    yaml_files,
)
from fgl_repro.config.identity import as_plain, cell_of, digest, from_science, key_of, science
from fgl_repro.config.schema import AXES, GROUPS, Config, check

__all__ = [
    "AXES",
    "GROUPS",
    "Config",
    "as_plain",
    "build",
    "cell_of",
    "check",
    "conf_dir",
    "digest",
    "folders",
    "from_science",
    "key_of",
    "options",
    "override",
    "register",
    "science",
    "search",
    "typed",
    "unchecked",
    "yaml_files",
]
