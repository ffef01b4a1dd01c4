"""What a run leaves behind: one schema, written as JSON, validated wherever it is read.

A :class:`Note` says which run it was and how it ended; a :class:`Record` is the note of a finished run with its
results. ``from_json`` refuses in one sentence whatever could not have been written by a run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Self

from fgl_repro.config.identity import digest
from fgl_repro.config.schema import AXES
from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import Strict
from fgl_repro.fl.metrics import Measured
from fgl_repro.runs.formats import FORMAT, READ, brought_up

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

LATER = ("predicted", "confusion", "nodes_mean", "f1", "metric", "facts", "phases", "resting_memory_mb")
"""Parts that are written only where there are some, and that older records lack."""

SELECTIONS = ("best", "last")
SELECTION_OF: Mapping[str, Literal["best", "last"]] = {"best_validation": "best", "last": "last"}
"""Which of the two a protocol prints, by its ``selection``."""
DIVERGED = "diverged"


class OtherVersionError(UserError):
    """A whole record, by its checksum, that another version of this software wrote: it is no damage to set aside."""


@dataclass(frozen=True)
class Selection(Strict):
    """The best and the last of the rounds, counted from 0, and the validation accuracy (or error) of each.

    They are the rounds whose models a record measures, unless the protocol fine-tunes: the models that are measured
    then are those after fine-tuning, and these are the rounds and the validation of the models before it.
    """

    best_round: int
    last_round: int
    validation_best: float
    validation_last: float


@dataclass(frozen=True, kw_only=True)
class Note(Strict):
    """Identity and provenance of a run: all that is known before it has results, or when it has none.

    Attributes:
        key: Digest of ``config``, 64 hex digits.
        cell: Digest of ``config`` without its seed.
        status: ``ok``, ``failed``, ``oom``, or ``diverged``: its loss or validation was not finite.
        error: Traceback of a run that did not finish; of one that diverged a sentence.
        wandb: ``{attempt, id, url}`` of the run's mirror, and ``purposes``: the tables for which it was pushed, and
            where to.
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

    @property
    def tested(self) -> bool:
        """Whether test rows select its round, as some protocols ask."""
        return bool(self.config["protocol"].get("selected_by") == "test")

    @classmethod
    def from_json(cls, content: object) -> Self:
        """Read the note or record that ``as_json`` wrote.

        Raises:
            OtherVersionError: It is whole and has a format, or parts, that this version does not know.
            UserError: It says what is wrong with ``content``, as a clause without a full stop.
        """
        if not isinstance(content, dict):
            raise UserError("it is no mapping")
        content = dict(content)
        checksum = content.pop("checksum", None)
        sealed = checksum is not None and checksum == digest(content)
        if content.get("format") not in READ:
            what = f"it has format {content.get('format')}, this version reads {', '.join(map(str, READ))}"
            raise OtherVersionError(what) if sealed else UserError(what)
        if (checksum is not None) != (content["format"] > 1) or (checksum is not None and not sealed):
            raise UserError("its checksum is not that of its content")
        from pydantic import ValidationError

        try:
            found: Self = cls._reader().validate_json(json.dumps(brought_up(content)))
        except ValidationError as error:
            unknown = [each for each in error.errors() if each["type"] == "unexpected_keyword_argument"]
            if sealed and len(unknown) == error.error_count():
                raise OtherVersionError(_clause(unknown[0])) from None
            raise UserError(_clause(error.errors()[0])) from None
        for problem in found.problems():
            raise UserError(problem)
        return found

    @classmethod
    @cache
    def _reader(cls) -> TypeAdapter[Any]:
        from pydantic import TypeAdapter

        return TypeAdapter(cls)

    def problems(self) -> Iterator[str]:
        """Yield what cannot be true of a run, one clause each."""
        if self.status not in ("failed", "oom", DIVERGED):
            yield f"its status is {self.status}"
        if self.status == DIVERGED:  # which counts for something
            yield from self._misnamed()

    def _misnamed(self) -> Iterator[str]:
        if digest(self.config) != self.key:
            yield "its key is not the digest of its config"
        if digest({name: value for name, value in self.config.items() if name != "seed"}) != self.cell:
            yield "its cell is not the digest of its config without the seed"

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON types, with the checksum: SHA-256 of all else."""
        content: dict[str, Any] = json.loads(json.dumps(asdict(self, dict_factory=_written)))
        return content | ({"checksum": digest(content)} if self.format > 1 else {})

    def changed(self, **parts: Any) -> Self:
        """Return a copy with other ``parts``."""
        return replace(self, **parts)

    def without_purposes(self) -> Self:
        """Return it as it was before it was pushed for any table; attempt and id of its mirror stay."""
        return self.changed(wandb={name: value for name, value in self.wandb.items() if name != "purposes"})


@dataclass(frozen=True, kw_only=True)
class Record(Note):
    """A finished run.

    Attributes:
        data: Fingerprint of the graph.
        partition: Who holds what; ``test_rows`` counts the rows of every probe but ``validation``.
        world: ``missing`` classes and numbers of nodes, by client.
        metrics: ``{probe: {"best": ..., "last": ...}}``; where clients were fine-tuned, both are after that.
        bytes: ``{phase: {direction: {field: bytes a client}}}``.
        seconds: Wall time by part, and ``total``; ``server``, of which older records do not tell, is part of ``train``.
            What probes take in every round, where all curves are kept, is part of ``probes``, and in older records of
            ``train``.
        facts: What the method recorded of itself; None in records from before methods could. Where whole graphs have
            classes and all curves were kept, ``alike``, see :func:`fgl_repro.fl.metrics.likeness`; where all curves
            were kept, the method's ``details``, too.
        peak_memory_mb: The most megabytes (10^6) that were taken at once, of the GPU or of the process; in records
            without ``resting_memory_mb`` that of all runs which the process had made.
        resting_memory_mb: Those that were taken before the data was loaded.
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
    resting_memory_mb: float | None = None
    device: str
    threads: int

    def at(self, probe: str, selection: str) -> Measured | None:
        """Return what a probe gave at the ``best`` validation round or at the ``last``; None without such a probe.

        Where clients were fine-tuned, both are what it gave after that.
        """
        return self.metrics.get(probe, {}).get(selection)

    @property
    def probes_of_rounds(self) -> set[str]:
        """Names of the probes that each round can measure; links are predicted once, in a phase of their own."""
        return self.metrics.keys() - {"links"}

    @property
    def on_gpu(self) -> bool:
        """Whether it was made on a GPU, which has random numbers, seconds and megabytes of its own."""
        return self.device != "cpu"

    @property
    def fine_tuned(self) -> bool:
        """Whether the models that were measured are those of clients which trained on after the last round."""
        return bool(self.config["protocol"].get("fine_tuning"))

    def fact(self, name: str) -> Any:
        """Return what the method recorded under ``name``; None if nothing."""
        return (self.facts or {}).get(name)

    def problems(self) -> Iterator[str]:
        """Yield what cannot be true of a finished run, one clause each."""
        if self.status != "ok":
            yield f"its status is {self.status}"
        if not all(isinstance(self.config.get(axis), dict) for axis in AXES):
            yield "its config lacks an axis"
            return
        yield from self._misnamed()
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
        yield from self._strange_numbers()

    def _strange_numbers(self) -> Iterator[str]:
        """Yield what its rounds, bytes, seconds and megabytes cannot be."""
        at = self.selection
        if not 0 <= at.best_round <= at.last_round:
            yield f"its best round is {at.best_round} of {at.last_round}"
        errors = any(m.kind.error for m in self.metrics.get("validation", {}).values())
        for value in (at.validation_best, at.validation_last):
            if not 0 <= value <= (math.inf if errors else 1):
                yield f"its validation accuracy is {value}, which is no fraction"
        sizes = [n for sent in self.bytes.values() for named in sent.values() for n in named.values()]
        amounts = {
            "bytes": sizes,
            "seconds": self.seconds.values(),
            "memory": [self.peak_memory_mb, self.resting_memory_mb or 0],
        }
        for name, values in amounts.items():
            if not all(0 <= value < math.inf for value in values):
                yield f"its {name} are not all finite and zero or more"
        if not {"train", "total"} <= self.seconds.keys():
            yield "its seconds lack train or total"


def on_cpus(records: Iterable[Record]) -> Iterator[Record]:
    """Pick the runs whose seconds and megabytes can be averaged: those of a GPU are of another kind."""
    return (record for record in records if not record.on_gpu)


def _written(parts: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in parts if name not in LATER or value is not None}


def _clause(first: ErrorDetails) -> str:
    """Tell what Pydantic found first, as the other problems are told."""
    *above, name = [part for part in first["loc"] if isinstance(part, str)]
    if first["type"] == "missing":
        return f"{f'its {above[-1]}' if above else 'it'} has no {name}"
    if first["type"] == "unexpected_keyword_argument":
        return f"{f'its {above[-1]}' if above else 'it'} has a part {name} that no run of this version writes"
    return f"its {name} is {type(first['input']).__name__} where {first['type'].removesuffix('_type')} belongs"
