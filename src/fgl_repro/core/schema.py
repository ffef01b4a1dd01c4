"""What every configuration is made of: options with typed fields that can be checked, hashed and read back.

Everything that can change a number is *science* and is hashed; everything else (names of protocols, tuning grids,
where files lie, which device) carries ``science=False`` or sits in a group that is not an axis.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Self

from omegaconf import DictConfig, OmegaConf

from fgl_repro.core.errors import UserError, nearest


def how(default: Any) -> Any:
    """Make a field that says how to run or report, never what is computed; it is left out of the identity."""
    return field(default=default, metadata={"science": False})


def added(default: Any) -> Any:
    """Make a field that came later.

    It is left out of the identity at its default, so that older records keep their keys.
    """
    return field(default=default, metadata={"added": True})


class Strict:
    """Every part is of its declared type, no part is missing and none is more, where Pydantic reads it."""

    __pydantic_config__ = MappingProxyType({"strict": True, "extra": "forbid"})


@dataclass
class Axis:
    """What one axis of science is set to. Its fields are the keys of its yaml, its identity is part of a run's key.

    Attributes:
        axis: ``dataset``, ``partitioner``, ``setting``, ``protocol``, ``model`` or ``method``.
        revision: Raised by hand when behaviour changes on purpose; 0 is left out of the identity.
        recorded: Constants that the identity has beside the fields, so that older records keep their keys.
    """

    axis: ClassVar[str]
    revision: ClassVar[int] = 1
    recorded: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Refuse values that do not exist or can never run, with a :class:`UserError`."""

    def at_least(self, least: float, *names: str) -> None:
        """Refuse fields below ``least``, and those that are no finite number, with a :class:`UserError`."""
        self._bounded(names, lambda value: least <= value < float("inf"), f"at least {least}")

    def at_most(self, greatest: float, *names: str) -> None:
        """Refuse fields above ``greatest`` with a :class:`UserError`; what is no number passes."""
        self._bounded(names, lambda value: not value > greatest, f"at most {greatest}")

    def more_than(self, bound: float, *names: str) -> None:
        """Refuse fields not above ``bound``, and those that are no finite number, with a :class:`UserError`."""
        self._bounded(names, lambda value: bound < value < float("inf"), f"a number above {bound}")

    def less_than(self, bound: float, *names: str) -> None:
        """Refuse fields not below ``bound`` with a :class:`UserError`."""
        self._bounded(names, lambda value: value < bound, f"a number below {bound}")

    def _bounded(self, names: Sequence[str], test: Callable[[float], bool], what: str) -> None:
        """Refuse fields whose value does not pass the test, and say what may be given instead."""
        for name in names:
            if not test(value := getattr(self, name)):
                raise UserError(f"{self.axis}.{name}={value} is out of range: give {what}.")

    def one_of(self, **known: tuple[str | int, ...]) -> None:
        """Refuse fields that are none of a few words or numbers, with a :class:`UserError`."""
        for name, words in known.items():
            if (value := getattr(self, name)) not in words:
                *some, last = map(str, words)
                known_words = f"{', '.join(some)} or {last}" if some else last
                raise UserError(f"{self.axis}.{name}={value} is unknown: choose {known_words}.")

    @classmethod
    def constants(cls) -> dict[str, Any]:
        """Return what the identity has beside the fields."""
        return {**cls.recorded, **({"revision": cls.revision} if cls.revision else {})}

    def identity(self) -> dict[str, Any]:
        """Return the part of a run's key as plain JSON types, without what cannot change a number."""
        out = self.constants()
        for f in fields(self):
            value = getattr(self, f.name)
            if f.metadata.get("science", True) and not (f.metadata.get("added") and value == f.default):
                out[f.name] = list(value) if isinstance(value, list | tuple) else value
        return out

    @classmethod
    def changed(cls, identity: Mapping[str, Any]) -> list[str]:
        """List constants of an identity that are others now, its revision above all, as ``revision 1``."""
        return [f"{k} {identity.get(k)}" for k, value in cls.constants().items() if identity.get(k) != value]

    @classmethod
    def from_identity(cls, identity: Mapping[str, Any]) -> Self:
        """Build what has this identity, with today's defaults for all that is not science.

        Raises:
            UserError: This version has other fields or another revision.
        """
        try:
            if changed := cls.changed(identity):
                raise TypeError(f"{cls.axis} with {', '.join(changed)}")
            return cls(**{name: value for name, value in identity.items() if name not in cls.constants()})
        except TypeError as error:
            raise UserError(f"the record was made by a version with other settings ({error}).") from None


@dataclass
class Option(Axis):
    """What one axis is set to, where a class says what that does: found by its name (:mod:`fgl_repro.core.registry`).

    Attributes:
        name: As in the yaml's name; a class without one is a base of others and cannot be chosen.
        named: What the identity calls the name.
    """

    name: ClassVar[str]
    named: ClassVar[str] = "name"

    @classmethod
    def constants(cls) -> dict[str, Any]:
        return {cls.named: cls.name, **super().constants()}


def unknown(dotted: str, owner: type, elsewhere: Sequence[str] = ()) -> str:
    """Write the sentence for a key that ``owner``, a dataclass of a configuration, does not have.

    Args:
        elsewhere: Keys of this name in other parts of the configuration.
    """
    parent, _, name = dotted.rpartition(".")
    keys = [f.name for f in fields(owner)]
    homes = [key for key in elsewhere if key != dotted] if name not in keys else []
    near = f" (did you mean {' or '.join(homes)}?)" if homes else nearest(name, set(keys) - {name})
    choose = f"the keys of {parent} are" if parent else "choose from"
    return f"{dotted} does not exist{near}: {choose} {', '.join(keys) or 'none'}."


@cache
def _node(owner: type) -> DictConfig:
    node: DictConfig = OmegaConf.structured(owner)
    return node


def converted(owner: type, name: str, value: Any) -> Any:
    """Convert ``value`` to the type of a field by the rules of a Hydra command line.

    ``2`` is a float, ``2.5`` no integer. OmegaConf refuses the numbers of NumPy, which count here as the Python values
    that they hold.
    """
    value = _without_numpy(value)
    if isinstance(value, str | int | float):
        return _simple(owner, name, type(value).__name__, value)
    node = _node(owner)
    node[name] = value
    return OmegaConf.to_object(node[name]) if OmegaConf.is_config(node[name]) else node[name]


def _without_numpy(value: Any) -> Any:
    """Turn NumPy's scalars and arrays in ``value``, also those in lists and dictionaries, into Python's values."""
    if isinstance(value, dict):
        return {_without_numpy(name): _without_numpy(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_numpy(inner) for inner in value]
    return value.tolist() if hasattr(type(value), "tolist") else value  # known by that, for NumPy is slow to import


@cache
def _simple(owner: type, name: str, kind: str, value: Any) -> Any:
    """Convert a value that can be looked up by itself and its type, for 1 is neither 1.0 nor True."""
    node = _node(owner)
    node[name] = value
    return node[name]


def meanings(kind: type[Any]) -> dict[str, str]:
    """Read what the docstrings of a class and of its bases say of each field, below ``Attributes:``."""
    meaning_of: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        section = inspect.cleandoc(owner.__doc__ or "").partition("Attributes:\n")[2].partition("\n\n")[0]
        entries = re.split(r"\n(?! )", textwrap.dedent(section))
        for names, _, words in (entry.partition(": ") for entry in entries):
            meaning_of |= dict.fromkeys(names.split(", "), " ".join(words.split()))
    return meaning_of
