"""Where yaml files lie: ours, those of installed packages, those of a folder that a user names."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from fgl_repro.core.errors import UserError

GROUP = "fgl_repro.conf"
"""Entry points that name a package's folder of yaml files, as in ``my_fgl.conf``."""

searched: list[Path] = []
"""Folders of ``--config-dir``."""


def conf_dir() -> Path:
    """Our folder: beside the sources in a checkout, inside the package when installed from a wheel."""
    here = Path(__file__).resolve()
    checkout = here.parents[3] / "conf"
    return checkout if checkout.is_dir() else here.parents[1] / "conf"


@cache
def installed() -> tuple[Path, ...]:
    """Folders of installed packages.

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
    """All folders in the order in which they are searched; the first that has a name wins."""
    return [conf_dir(), *installed(), *searched]


class Installed(SearchPathPlugin):
    """Tells Hydra of the folders of installed packages."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in installed():
            search_path.append("fgl_repro", f"file://{folder}")


def tell_hydra() -> None:
    """Safe to call twice."""
    Plugins.instance().register(Installed)
