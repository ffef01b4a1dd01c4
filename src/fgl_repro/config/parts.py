"""Options as their yaml files leave them, so that a thousand combinations are put together without composing each.

What depends on other options is in yaml files either an entry of a table, ``${by_dataset:{cora:0.01,default:0.001}}``,
or what another option says, ``${protocol.features}``. Both are read once here and looked up for each combination.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import converted

READING = "_reading_"
"""Key of a config whose tables resolve to what :func:`as_word` says of them, and not to one of their entries."""

_SAME = re.compile(r"\$\{(\w+)\.(\w+)\}")


@dataclass(frozen=True)
class Table:
    """An entry of it, by the name that the run's option of ``axis`` has; entries may be tables again."""

    axis: str
    entries: Mapping[str, Any]


@dataclass(frozen=True)
class Same:
    """What an option of another group says."""

    group: str
    key: str


@dataclass(frozen=True)
class Part:
    """One option: its class, and a value for each of its fields, ``open`` ones being a :class:`Table` or :class:`Same`.

    Values that are lists or dictionaries are shared by all configs made of it.
    """

    owner: type
    values: dict[str, Any]
    open: dict[str, Table | Same]

    def with_value(self, key: str, value: Any) -> Part:
        """Give the same option with another value of one key."""
        still = {name: found for name, found in self.open.items() if name != key}
        return Part(self.owner, {**self.values, key: value}, still)


def read(node: DictConfig) -> Part | None:
    """Read a composed option; None where its entries depend on others in a way of their own, or have no schema."""
    owner = OmegaConf.get_type(node)
    plain = OmegaConf.to_container(node, resolve=False)
    if not is_dataclass(owner) or not isinstance(plain, dict) or set(plain) != {f.name for f in fields(owner)}:
        return None
    values, open = {}, {}
    for name, value in plain.items():
        if "${" not in str(value):
            values[str(name)] = value
            continue
        found = _read(value)
        if isinstance(found, Table | Same):
            open[str(name)] = found
        elif found is not None:
            values[str(name)] = converted(owner, str(name), found)
        else:
            return None
    return Part(owner, values, open)


def _read(text: Any) -> Any:
    """Read what stands in a yaml for a value; None where that cannot be told without the other options."""
    if not isinstance(text, str):
        return None
    if (same := reference(text)) is not None:
        return same
    try:
        return _table(OmegaConf.create({READING: True, "value": text})["value"])
    except OmegaConfBaseException:
        return None


def reference(value: Any) -> Same | None:
    """Read a reference such as ``${partitioner.clients}``; None where the value is none."""
    found = _SAME.fullmatch(value) if isinstance(value, str) else None
    return found and Same(*found.groups())


def as_word(axis: str, table: Mapping[str, Any]) -> str:
    """Write a table as a word, for yaml files have tables of tables as words, too."""
    return READING + json.dumps({"axis": axis, "entries": dict(table)})


def _table(found: Any) -> Any:
    """Read what a word says: a table, or itself."""
    if not str(found).startswith(READING):
        return found
    table = json.loads(found.removeprefix(READING))
    return Table(table["axis"], {name: _table(value) for name, value in table["entries"].items()})


def entry(axis: str, name: str, table: Mapping[str, Any]) -> Any:
    """Look up the table's entry of that name, or its default.

    Raises:
        UserError: It has neither.
    """
    if name not in table and "default" not in table:
        raise UserError(f"no value for {axis} {name} in {dict(table)}: add it, or a default, to the yaml.")
    return table[name] if name in table else table["default"]


def cell_name(method: str, dataset: str, clients: int | str) -> str:
    """Name a run in a table ``by_cell``: ``fedlog-cora-5``."""
    return f"{method}-{dataset}-{clients}"


def together(parts: Mapping[str, Part]) -> dict[str, Any]:
    """Put the options of a run together by group.

    Raises:
        UserError: A table has no entry for a name, or an option refuses its values.
    """

    def name(axis: str) -> str:
        if axis == "cell":
            return cell_name(name("method"), name("dataset"), value_of("partitioner", "clients"))
        return getattr(parts[axis].owner, "name", "")

    def value_of(group: str, key: str) -> Any:
        if group not in parts or key not in parts[group].values.keys() | parts[group].open.keys():
            raise UserError(f"a yaml says ${{{group}.{key}}}, which is no key of a run: mend the yaml.")
        part = parts[group]
        found = part.open.get(key, part.values.get(key))
        while isinstance(found, Table):
            found = entry(found.axis, name(found.axis), found.entries)
        return value_of(found.group, found.key) if isinstance(found, Same) else found

    made = {}
    for group, part in parts.items():
        decided = {key: converted(part.owner, key, value_of(group, key)) for key in part.open}
        made[group] = part.owner(**part.values, **decided)
    return made
