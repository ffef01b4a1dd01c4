"""The configuration of a run: composed, checked, identified."""

from fgl_repro.config.checks import check
from fgl_repro.config.compose import (
    build,
    conf_dir,
    from_science,
    method_classes,
    options,
    override,
    register,
    typed,
    unchecked,
)
from fgl_repro.config.identity import as_plain, cell_of, digest, key_of, science
from fgl_repro.core.schema import AXES, GROUPS, Config, ProtocolConfig

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
    "from_science",
    "key_of",
    "method_classes",
    "options",
    "override",
    "register",
    "science",
    "typed",
    "unchecked",
]
