"""Where yaml files lie: ours, those of installed packages, those of a folder that a user names."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from fgl_repro.core.errors import UserError

GROUP = "fgl_repro.conf"
"""Entry points that name a package's folder of yaml files, as in ``my_fgl.conf``."""

NOISE = re.compile(r"\b(?:full_key|object_type|reference_type|sub_key): ?\S+|\b(?:object_type|reference_type)=\S+")
"""OmegaConf's notes for programmers."""

CONTAINS_ITSELF = "an entry contains itself"
"""What is wrong with a yaml that Python recurses in."""

searched: list[Path] = []
"""Folders of ``--config-dir``."""


def conf_dir() -> Path:
    """Find our folder: beside the sources in a checkout, inside the package when installed from a wheel."""
    here = Path(__file__).resolve()
    checkout = here.parents[3] / "conf"
    return checkout if checkout.is_dir() else here.parents[1] / "conf"


@cache
def installed() -> tuple[Path, ...]:
    """Find the folders of installed packages.

    Raises:
        UserError: What a package announces is no folder.
    """
    found = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            spec = find_spec(point.value)
        except ImportError as error:
            raise UserError(f"the installed yaml files {point.name} cannot be found: {error}.") from error
        places = [Path(place) for place in (spec.submodule_search_locations or () if spec else ())]
        if not places:
            raise UserError(f"the installed yaml files {point.name} cannot be found: {point.value} is no folder.")
        found.append(places[0])
    return tuple(found)


def folders() -> list[Path]:
    """List all folders in the order in which they are searched; the first that has a name wins."""
    return [conf_dir(), *installed(), *searched]


def read_yaml(path: Path, kind: str) -> Any:
    """Read what a yaml file holds, as plain lists and mappings; what refers to a run's keys stays as it stands.

    Args:
        kind: What the file is, for the sentence that refuses it: ``table``, ``method``, ...

    Raises:
        UserError: It cannot be read.
    """
    try:
        return OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except RecursionError:
        reason = CONTAINS_ITSELF
    except (OSError, UnicodeDecodeError, OmegaConfBaseException, YAMLError) as error:
        reason = in_one_line(error) if isinstance(error, OmegaConfBaseException) else " ".join(str(error).split())
    raise UserError(f"the {kind} {path} cannot be read ({reason}): mend the yaml.")


def in_one_line(error: BaseException) -> str:
    """Return a message in one line, without OmegaConf's notes for programmers and Hydra's addresses."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    text = " ".join(line for line in lines if not line.startswith("See https://"))
    return " ".join(NOISE.sub("", text).split()).rstrip(".")


class Installed(SearchPathPlugin):
    """Tells Hydra of the folders of installed packages."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in installed():
            search_path.append("fgl_repro", f"file://{folder}")


def tell_hydra() -> None:
    """Tell Hydra of the folders of installed packages; safe to call twice."""
    Plugins.instance().register(Installed)
