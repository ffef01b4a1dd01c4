"""Finding things by the module they live in, or by an installed package that announces them: no list names them.

A data set, partitioner, setting, model or method is a class (:class:`~fgl_repro.core.schema.Option`) in a module of its
axis' package here, or in any installed package with an entry point of that axis' group (``fgl_repro.methods``, ...).
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fgl_repro.core.errors import UserError, nearest
from fgl_repro.core.schema import Option

PACKAGES = {
    "dataset": "fgl_repro.data.sources",
    "partitioner": "fgl_repro.federation.partitioners",
    "setting": "fgl_repro.federation.settings",
    "model": "fgl_repro.nn.architectures",
    "method": "fgl_repro.methods",
}
"""Where the options of each axis live. The entry points of other packages are in the group ``fgl_repro.<axis>s``."""


@cache
def options(axis: str) -> dict[str, type[Any]]:
    """Find every option of an axis by its name.

    Those of this package come in the order of its modules, then announced ones.

    Raises:
        UserError: A module cannot be imported; or what another package announces cannot, is no option of that axis, or
            takes a name that is taken.
    """
    found: dict[str, type[Any]] = {}
    for module in iter_modules(import_module(PACKAGES[axis]).__path__, f"{PACKAGES[axis]}."):
        try:
            items = vars(import_module(module.name)).values()
        except Exception as error:
            raise UserError(f"{module.name} cannot be imported: {type(error).__name__}: {error}.") from error
        for item in items:
            if _is_option(item, axis):
                found[item.name] = item
    for point in sorted(entry_points(group=f"fgl_repro.{axis}s"), key=lambda point: point.name):
        try:
            item = point.load()
        except Exception as error:
            raise UserError(f"the installed {axis} {point.name} ({point.value}) cannot be loaded: {error}.") from error
        if not _is_option(item, axis):
            raise UserError(f"the installed {axis} {point.name} ({point.value}) is no class of a {axis} with a name.")
        if fault := _fault(item):
            raise UserError(f"the installed {axis} {point.name} ({point.value}) {fault}: see docs/adding.md.")
        if found.setdefault(item.name, item) is not item:
            holder = found[item.name].__module__
            raise UserError(
                f"the installed {axis} {point.name} ({point.value}) takes the name {item.name}, which {holder} has: "
                "rename one of them."
            )
    return found


def announce(item: type[Any]) -> None:
    """Make a class of this process an option of its axis; one of the same name that was announced here gives way.

    Raises:
        UserError: It is no option with a name, or takes a name that is taken.
    """
    axis = getattr(item, "axis", "")
    if axis not in PACKAGES or not _is_option(item, axis):
        what = getattr(item, "__name__", item)
        raise UserError(f"{what} is no class of an axis with a name of its own: see docs/adding.md.")
    if fault := _lost_fields(item) or _fault(item):
        raise UserError(f"{item.__name__} {fault}: see docs/adding.md.")
    if options(axis).get(item.name, item) is not item and (axis, item.name) not in _announced:
        raise UserError(f"{axis} {item.name} exists already: give {item.__name__} another name.")
    _announced.add((axis, item.name))
    options(axis)[item.name] = item


_announced: set[tuple[str, str]] = set()
"""Axis and name of options that this process announced."""


def _is_option(item: object, axis: str) -> bool:
    return isinstance(item, type) and issubclass(item, Option) and "name" in vars(item) and item.axis == axis


def _fault(item: type[Any]) -> str:
    """Tell why no configuration can hold a class; empty if one can. It would break the runs of all others, too."""
    if not isinstance(item.name, str) or not re.fullmatch(r"[A-Za-z_][\w-]*", item.name) or item.name == "null":
        return f"has the name {item.name!r}: take one of letters, digits, _ and -, which begins with a letter"
    try:
        OmegaConf.structured(item)
    except (OmegaConfBaseException, NameError, TypeError) as error:
        return f"has a field that no configuration can hold ({str(error).partition(chr(10))[0]})"
    return ""


def _lost_fields(item: type[Any]) -> str:
    """Tell that a class has annotated what looks like fields, and is no dataclass, so that nobody can set them."""
    hints = vars(item).get("__annotations__", {})
    lost = [name for name, hint in hints.items() if not name.startswith("_") and "ClassVar" not in str(hint)]
    if not lost or "__dataclass_fields__" in vars(item):
        return ""
    return f"is no dataclass, and nobody can set {', '.join(lost)}: write @dataclass above it, or ClassVar at constants"


def option(axis: str, name: str) -> type[Any]:
    """Return the class called ``name``.

    Raises:
        UserError: There is none; the message lists those there are.
    """
    if name not in (known := options(axis)):
        choose = f"choose from {', '.join(sorted(known))}"
        raise UserError(f"{axis} {name} does not exist{nearest(name, known)}: {choose}.")
    return known[name]


def find(package: str, name: str, attribute: str, option: str) -> Any:
    """Return ``attribute`` of the module ``name`` in a package.

    Modules without it are helpers and cannot be asked for.

    Raises:
        UserError: No such module has it; the message says so of the ``option`` that the name came from.
    """
    if name in _modules(package) and hasattr(found := import_module(f"{package}.{name}"), attribute):
        return getattr(found, attribute)
    raise UserError(f"There is no {option}={name}; choose one of {', '.join(having(package, attribute))}.")


def having(package: str, attribute: str) -> list[str]:
    """Name the modules of a package that have ``attribute``."""
    return sorted(name for name in _modules(package) if hasattr(import_module(f"{package}.{name}"), attribute))


def _modules(package: str) -> list[str]:
    return [module.name for module in iter_modules(import_module(package).__path__)]
