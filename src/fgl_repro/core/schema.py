"""What every configuration is made of: options with typed fields that can be checked, hashed and read back.

Everything that can change a number is *science* and is hashed; everything else (names of protocols, tuning grids,
where files lie, which device) carries ``science=False`` or sits in a group that is not an axis.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

from omegaconf import BooleanNode, FloatNode, IntegerNode, StringNode
from omegaconf.errors import ValidationError

from fgl_repro.core.errors import UserError


def how(default: Any) -> Any:
    """A field that says how to run or report, never what is computed; left out of the identity."""
    return field(default=default, metadata={"science": False})


def added(default: Any) -> Any:
    """A field that came later: left out of the identity at its default, so that older records keep their keys."""
    return field(default=default, metadata={"added": True})


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
        for name in names:
            if not least <= getattr(self, name) < float("inf"):
                raise UserError(f"{self.axis}.{name}={getattr(self, name)} is out of range: give at least {least}.")

    def one_of(self, **known: tuple[str, ...]) -> None:
        """Refuse fields that are none of a few words, with a :class:`UserError`."""
        for name, words in known.items():
            if (value := getattr(self, name)) not in words:
                raise UserError(f"{self.axis}.{name}={value} is unknown: choose {' or '.join(words)}.")

    @classmethod
    def constants(cls) -> dict[str, Any]:
        """What the identity has beside the fields."""
        return {**cls.recorded, **({"revision": cls.revision} if cls.revision else {})}

    def identity(self) -> dict[str, Any]:
        """The part of a run's key as plain JSON types, without what cannot change a number."""
        out = self.constants()
        for f in fields(self):
            value = getattr(self, f.name)
            if f.metadata.get("science", True) and not (f.metadata.get("added") and value == f.default):
                out[f.name] = list(value) if isinstance(value, list | tuple) else value
        return out

    @classmethod
    def from_identity(cls, identity: Mapping[str, Any]) -> Self:
        """What has this identity, with today's defaults for all that is not science.

        Raises:
            UserError: This version has other fields or another revision.
        """
        constants = cls.constants()
        changed = [f"{name} {identity.get(name)}" for name in constants if identity.get(name) != constants[name]]
        try:
            if changed:
                raise TypeError(f"{cls.axis} with {', '.join(changed)}")
            return cls(**{name: value for name, value in identity.items() if name not in constants})
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


def unknown(dotted: str, owner: type) -> str:
    """The sentence for a key that ``owner``, a dataclass of a configuration, does not have."""
    parent = dotted.rpartition(".")[0]
    keys = ", ".join(f.name for f in fields(owner))
    return f"{dotted} does not exist: {f'the keys of {parent} are' if parent else 'choose from'} {keys or 'none'}."


@cache
def types_of(owner: type) -> dict[str, Any]:
    """Field name to declared type of a dataclass of a configuration."""
    hints = get_type_hints(owner)
    return {f.name: hints[f.name] for f in fields(owner)}


def converted(declared: Any, value: Any) -> Any:
    """``value`` as its declared type, by the rules of a Hydra command line: ``2`` is a float, ``2.5`` no integer."""
    nodes: dict[Any, Any] = {bool: BooleanNode, int: IntegerNode, float: FloatNode, str: StringNode}
    origin, arguments = get_origin(declared), get_args(declared)
    if declared in nodes:
        return nodes[declared](value, is_optional=False)._value()
    if origin in (Union, UnionType):
        (inner,) = (a for a in arguments if a is not NoneType)
        return None if value is None else converted(inner, value)
    if origin is list:
        if not isinstance(value, list | tuple):
            raise ValidationError(f"Value '{value}' is not a list")
        return [converted(arguments[0], item) for item in value]
    if origin is dict and not isinstance(value, Mapping):
        raise ValidationError(f"Value '{value}' is not a mapping")
    return copy.deepcopy(value)
