"""Options that a notebook or script defines for itself, without a package or a yaml."""

from __future__ import annotations

import hashlib
import inspect
import re
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, TypeVar

from fgl_repro.config.compose import forget, search, yaml_files
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import Option

Kind = TypeVar("Kind", bound=type[Option])


def announce(option: Kind) -> Kind:
    """Make a class, of a method say, an option by its name in this process; a decorator.

    The text of the class (and of its bases outside this package) becomes part of the keys of its runs: whoever changes
    it is never given the runs of its former self. What the class calls elsewhere is not part of them; whether a data
    set still gives the graph of its runs is asked by :meth:`fgl_repro.data.dataset.Dataset.refuse_change`.

    Raises:
        UserError: It is no option, takes a name that is taken, or its text cannot be found.
    """
    bases: tuple[type, ...] = getattr(option, "__mro__", ())  # what is no class has none, and is refused below
    own = [kind for kind in bases if not kind.__module__.startswith(("fgl_repro.", "builtins"))]
    text = "\n".join(map(_text, own))
    registry.announce(option)
    option.recorded = {**option.recorded, "source": hashlib.sha256(text.encode()).hexdigest()[:12]}
    if option.name not in yaml_files(option.axis):
        path = Path(_folder().name) / option.axis / f"{option.name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"defaults: [_{option.name}, _self_]\n")
        search(_folder().name)
    forget()
    return option


@cache
def _folder() -> TemporaryDirectory[str]:
    """Make the folder of yaml files of announced options; it is gone with this process."""
    return TemporaryDirectory(prefix="fgl-own-")


def _text(kind: type) -> str:
    """Return the methods of a class as they are written, and its other attributes.

    A notebook's cell has no class to read.
    """
    parts = []
    for name, value in sorted(vars(kind).items()):
        function = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", value)
        if inspect.isfunction(function) and function.__module__ == kind.__module__:
            try:
                parts.append(inspect.getsource(function))
            except OSError:
                if not name.startswith("__"):  # what a dataclass generates has no text, and follows from its fields
                    where = f"{kind.__name__}.{name}"
                    raise UserError(f"the text of {where} cannot be found: define it in a file.") from None
        elif name != "recorded" and (not name.startswith("__") or name == "__annotations__"):
            parts.append(re.sub(r" at 0x[0-9a-f]+", "", f"{name} = {_repr(value)}"))
    return "\n".join(parts)


def _repr(value: Any) -> str:
    """Return ``repr(value)`` with its sets in order, which otherwise differs from process to process."""
    if isinstance(value, set | frozenset) and type(value) in (set, frozenset) and value:
        items = ", ".join(sorted(_repr(each) for each in value))
        return f"{{{items}}}" if type(value) is set else f"frozenset({{{items}}})"
    if type(value) is dict:
        return f"{{{', '.join(f'{_repr(key)}: {_repr(each)}' for key, each in value.items())}}}"
    if type(value) is list:
        return f"[{', '.join(map(_repr, value))}]"
    if type(value) is MappingProxyType:
        return f"mappingproxy({_repr(dict(value))})"
    if isinstance(value, type):
        return repr(value)
    named = [(f.name, getattr(value, f.name)) for f in fields(value) if f.repr] if is_dataclass(value) else []
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        named = list(zip(value._fields, value, strict=True))
    if named:
        return f"{type(value).__qualname__}({', '.join(f'{name}={_repr(each)}' for name, each in named)})"
    if type(value) is tuple:
        return f"({', '.join(map(_repr, value))}{',' * (len(value) == 1)})"
    return repr(value)
