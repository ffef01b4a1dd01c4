"""What a run leaves behind: one schema, written as JSON, validated wherever it is read.

A :class:`Note` says which run it was and how it ended; a :class:`Record` is the note of a finished run with its
results. ``from_json`` refuses in one sentence whatever could not have been written by a run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

from fgl_repro.config.identity import digest
from fgl_repro.config.schema import AXES
from fgl_repro.core.errors import UserError

FORMAT = 2
"""Format that is written. Format 1 is the same without ``checksum`` and is read, too."""

SELECTIONS = ("best", "last")
ROUNDING = 1e-5
_Reader = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Measured:
    """The accuracies of one probe at one round, as fractions; None where there are no rows.

    Attributes:
        accuracy: The one that the protocol prints: ``pooled`` or ``clients_mean``.
        pooled: Over all rows.
        clients_mean: Plain mean over the clients that have rows.
        macro: Mean recall over classes.
        clients: Of each client, ``[K]``.
        counts: Rows of each client, ``[K]``.
        predicted: Rows predicted as each class by client, ``[K, C]``, where the probe keeps them.
    """

    accuracy: float | None
    pooled: float | None
    clients_mean: float | None
    macro: float | None
    clients: list[float | None]
    counts: list[int]
    predicted: list[list[int]] | None = None

    def problems(self) -> Iterator[str]:
        """What no measurement can give."""
        shares = {"accuracy": self.accuracy, "pooled": self.pooled, "macro": self.macro, "clients": self.clients_mean}
        for name, value in [*shares.items(), *(("client", own) for own in self.clients)]:
            if value is not None and not 0 <= value <= 1:
                yield f"has {name} {value}, which is no fraction"
        if len(self.clients) != len(self.counts) or min(self.counts, default=0) < 0:
            yield "has counts that do not fit its clients"
        rows = {k: n for k, n in enumerate(self.counts) if n}
        if any((own is None) == (k in rows) for k, own in enumerate(self.clients)):
            yield "has counts that do not fit its clients"
            return
        own = {k: self.clients[k] or 0.0 for k in rows}
        pooled = sum(own[k] * n for k, n in rows.items()) / sum(rows.values()) if rows else None
        mean = sum(own.values()) / len(own) if own else None
        for name, value, expected in (("pooled", self.pooled, pooled), ("clients_mean", self.clients_mean, mean)):
            if (value is None) != (expected is None) or abs((value or 0.0) - (expected or 0.0)) > ROUNDING:
                yield f"has {name} {value}, but its clients give {expected}"
        if self.accuracy not in (self.pooled, self.clients_mean):
            yield f"has accuracy {self.accuracy}, which is neither its pooled one nor the mean of its clients"


@dataclass(frozen=True)
class Selection:
    """The two rounds that a record keeps, counted from 0, and the validation accuracy of each."""

    best_round: int
    last_round: int
    validation_best: float
    validation_last: float


@dataclass(frozen=True, kw_only=True)
class Note:
    """Identity and provenance of a run: all that is known before it has results, or when it has none.

    Attributes:
        key: Digest of ``config``, 64 hex digits.
        cell: Digest of ``config`` without its seed.
        status: ``ok``, ``failed`` or ``oom``.
        error: Traceback of a run that did not finish.
        wandb: ``{attempt, id, url}`` of the run's mirror.
    """

    format: int = FORMAT
    key: str
    cell: str
    status: str = "failed"
    config: dict[str, Any]
    protocol: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    git: dict[str, Any] = field(default_factory=dict)
    written: str = ""
    error: str | None = None
    wandb: dict[str, Any] = field(default_factory=lambda: {"attempt": 0, "id": None, "url": None})

    @classmethod
    def from_json(cls, content: object) -> Self:
        """The note or record that ``as_json`` wrote.

        Raises:
            UserError: It says what is wrong with ``content``, as a clause without a full stop.
        """
        if not isinstance(content, dict):
            raise UserError("it is no mapping")
        if content.get("format") not in (1, FORMAT):
            raise UserError(f"it has format {content.get('format')}, this version reads 1 and {FORMAT}")
        content = dict(content)
        checksum = content.pop("checksum", None)
        if checksum != (checksum_of(content) if content["format"] > 1 else None):
            raise UserError("its checksum is not that of its content")
        found: Self = _made(cls, content, "it")
        for problem in found.problems():
            raise UserError(problem)
        return found

    def problems(self) -> Iterator[str]:
        """What cannot be true of a run, one clause each."""
        if self.status not in ("failed", "oom"):
            yield f"its status is {self.status}"

    def as_json(self) -> dict[str, Any]:
        """Plain JSON types, with the checksum."""
        return self._sealed(asdict(self))

    def _sealed(self, content: dict[str, Any]) -> dict[str, Any]:
        return content | ({"checksum": checksum_of(content)} if self.format > 1 else {})

    def changed(self, **parts: Any) -> Self:
        """A copy with other ``parts``."""
        return replace(self, **parts)


@dataclass(frozen=True, kw_only=True)
class Record(Note):
    """A finished run.

    Attributes:
        data: Fingerprint of the graph.
        partition: Who holds what; ``test_rows`` counts the rows of every probe but ``validation``.
        world: ``missing`` classes and numbers of nodes, by client.
        metrics: ``{probe: {"best": ..., "last": ...}}``.
        bytes: ``{phase: {direction: {field: bytes a client}}}``.
        seconds: Wall time by part, and ``total``.
        facts: What the method recorded of itself; None in records from before methods could.
        phases: Curves of the phases before the rounds, ``{phase: {name: values}}``; None where there are none.
    """

    data: dict[str, str]
    partition: dict[str, Any]
    world: dict[str, list[Any]]
    selection: Selection
    metrics: dict[str, dict[str, Measured]]
    facts: dict[str, Any] | None = None
    phases: dict[str, dict[str, list[float]]] | None = None
    bytes: dict[str, dict[str, dict[str, int]]]
    seconds: dict[str, float]
    peak_memory_mb: float
    device: str
    threads: int

    def at(self, probe: str, selection: str) -> Measured | None:
        """What a probe gave at the ``best`` validation round or at the ``last``; None if there is no such probe."""
        return self.metrics.get(probe, {}).get(selection)

    def fact(self, name: str) -> Any:
        """What the method recorded under ``name``; None if nothing."""
        return (self.facts or {}).get(name)

    def problems(self) -> Iterator[str]:
        """What cannot be true of a finished run, one clause each."""
        if self.status != "ok":
            yield f"its status is {self.status}"
        if not all(isinstance(self.config.get(axis), dict) for axis in AXES):
            yield "its config lacks an axis"
            return
        if digest(self.config) != self.key:
            yield "its key is not the digest of its config"
        if digest({name: value for name, value in self.config.items() if name != "seed"}) != self.cell:
            yield "its cell is not the digest of its config without the seed"
        rows = self.partition.get("test_rows", {})
        if not isinstance(rows, dict):
            yield "its test_rows are no mapping"
            return
        expected = {"validation", *rows}
        if expected != set(self.metrics) or len(expected) < 2:
            yield f"its probes are {', '.join(sorted(self.metrics)) or 'none'}, not {', '.join(sorted(expected))}"
        for probe, found in self.metrics.items():
            if set(found) != set(SELECTIONS):
                yield f"its probe {probe} is not measured at the best and the last round"
            yield from (f"its {probe} at the {at} round {what}" for at, m in found.items() for what in m.problems())
        at = self.selection
        if not 0 <= at.best_round <= at.last_round:
            yield f"its best round is {at.best_round} of {at.last_round}"
        for value in (at.validation_best, at.validation_last):
            if not 0 <= value <= 1:
                yield f"its validation accuracy is {value}, which is no fraction"
        sizes = [n for sent in self.bytes.values() for named in sent.values() for n in named.values()]
        amounts: dict[str, Sequence[float]] = {"bytes": sizes, "seconds": [*self.seconds.values()]}
        amounts["memory"] = [self.peak_memory_mb]
        for name, values in amounts.items():
            if not all(0 <= value < math.inf for value in values):
                yield f"its {name} are not all finite and zero or more"
        if not {"train", "total"} <= self.seconds.keys():
            yield "its seconds lack train or total"

    def as_json(self) -> dict[str, Any]:
        """Plain JSON types, with the checksum; what a record of its time did not have is left out."""
        content = asdict(self)
        for at in (at for found in content["metrics"].values() for at in found.values()):
            if at["predicted"] is None:
                del at["predicted"]
        for name in ("facts", "phases"):
            if content[name] is None:
                del content[name]
        return self._sealed(content)


def checksum_of(content: dict[str, Any]) -> str:
    """SHA-256 hex of a record without its checksum; the same before it is written and after it is read."""
    return digest(json.loads(json.dumps(content)))


# --- types ------------------------------------------------------------------------------------------------------------


def _made(owner: Any, content: object, what: str) -> Any:
    """``content`` as the dataclass ``owner``, every field of its declared type."""
    if not isinstance(content, dict):
        raise UserError(f"{what} is no mapping")
    readers, needed = _fields(owner)
    for name in sorted(needed - content.keys()):
        raise UserError(f"{what} has no {name}")
    for name in sorted(content.keys() - readers.keys()):
        raise UserError(f"{what} has a part {name} that no run writes")
    return owner(**{name: readers[name](value, name) for name, value in content.items()})


@cache
def _fields(owner: Any) -> tuple[dict[str, _Reader], set[str]]:
    """A reader for each field of a dataclass, and the names of those without default."""
    hints = get_type_hints(owner)
    needed = {f.name for f in fields(owner) if f.default is MISSING and f.default_factory is MISSING}
    return {f.name: _reader(hints[f.name]) for f in fields(owner)}, needed


@cache
def _reader(hint: Any) -> _Reader:
    """What turns a JSON value into one of the declared type, or refuses it."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Any:
        return lambda value, what: value
    if is_dataclass(origin):
        return lambda value, what: _made(origin, value, f"its {what}")
    if origin in (Union, UnionType):
        inner = _reader(arguments[0])
        return lambda value, what: None if value is None else inner(value, what)
    accepted = {float: (int, float)}.get(origin, (origin,))

    def plain(value: Any, what: str) -> Any:
        if type(value) not in accepted:
            raise UserError(f"its {what} is {type(value).__name__} where {origin.__name__} belongs")
        return value

    if origin not in (list, dict) or arguments[-1] is Any:
        return plain
    each = _reader(arguments[-1])
    if origin is list:
        return lambda value, what: [each(item, what) for item in plain(value, what)]
    return lambda value, what: {name: each(item, name) for name, item in plain(value, what).items()}
