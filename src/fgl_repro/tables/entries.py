"""What a table is made of: rows, panels, where their printed numbers are, and the cells that these make.

The fields are the entries of ``conf/table``, and their types are what pydantic checks when one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, ConfigDict, Field

from fgl_repro.config import options
from fgl_repro.data.catalog import printed_as, rebuilt
from fgl_repro.fl.metrics import METRICS

ACCURACY = "accuracy"

T = TypeVar("T")


def among(names: Callable[[], Iterable[str]]) -> AfterValidator:
    """Make a validator that refuses a word that is none of ``names()``."""

    def known(word: str) -> str:
        if word not in names():
            raise ValueError(f"choose from {', '.join(names())}")
        return word

    return AfterValidator(known)


def option_of(group: str) -> AfterValidator:
    """Make a validator that refuses what is no file of ``conf/<group>``."""
    return among(lambda: options(group))


def _distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    if not values or len(set(values)) < len(values):
        raise ValueError("give at least one, each once")
    return values


Several = Annotated[tuple[T, ...], AfterValidator(_distinct)]
Whole = Annotated[int, Field(strict=True)]


def spelled(dataset: str) -> str:
    """Spell a data set's name wherever a number of ours stands: as papers print it, but that of a rebuild says so."""
    return f"{printed_as(dataset)}{' (rebuild)' if rebuilt(dataset) else ''}"


def place(dataset: str, clients: int) -> str:
    """Name a column of a table: ``Cora, 3 clients``."""
    return f"{spelled(dataset)}, {clients} clients"


def brief_place(dataset: str, clients: int) -> str:
    """Name a column in fewer words, where a head says what they are: ``Cora 3``."""
    return f"{spelled(dataset)} {clients}"


class Entries:
    """What a yaml says; it may say nothing else."""

    __pydantic_config__ = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Row(Entries):
    """A method as one line of the table. ``name`` is the paper's spelling, by which the printed number is found.

    ``id``, ``fedpub-release`` unless the yaml says otherwise, is what ``--methods`` and results call it; it tells apart
    rows of one method and variant that differ in other overrides. ``model`` is the row's own, where the table's cannot
    carry its method; ``panel_model`` is the one of the panels that it has numbers for, where it is not all of them.
    ``line`` is the id of the yaml's row that was swept into this one, and others.
    """

    name: str
    method: Annotated[str, option_of("method")]
    overrides: dict[str, Any] = field(default_factory=dict, hash=False)
    id: str = ""
    model: Annotated[str, option_of("model")] | None = None
    panel_model: Annotated[str, option_of("model")] | None = None
    line: str = ""

    def __post_init__(self) -> None:
        usual = f"{self.method}-{self.variant}" if self.variant else self.method
        object.__setattr__(self, "id", self.id or usual)

    @property
    def variant(self) -> str:
        """Version of the method, where the row names one."""
        return str(self.overrides.get("method.variant", ""))

    @property
    def label(self) -> str:
        """``FED-PUB (release)``: what tables print, so that the version that ran is always in sight."""
        return f"{self.name} ({self.variant})" if self.variant else self.name


@dataclass(frozen=True)
class Printed(Entries):
    """Where the printed numbers of a panel are.

    Attributes:
        file: Tidy CSV below ``fgl_repro/tables/reference``.
        setting: Value of its ``setting`` column; empty: the panel's probe.
        rows: Its column by which a row's name is found: ``method``, ``variant``, or both as ``method+variant``.
        metric: Value of its ``metric`` column.
    """

    file: str
    setting: str = ""
    rows: str = "method"
    metric: str = ACCURACY


@dataclass(frozen=True)
class Panel(Entries):
    """A part of a table with one probe of one setting; ``name`` as printed, e.g. ``2a``.

    Attributes:
        metric: What its numbers are means of; empty: the table's.
        model: Its own option of ``conf/model``; a row's comes first.
    """

    name: str
    title: str
    setting: Annotated[str, option_of("setting")]
    probe: str
    reference: Printed | None = None
    metric: Annotated[str, among(lambda: ("", *METRICS))] = ""
    model: Annotated[str, option_of("model")] | None = None


@dataclass(frozen=True)
class Cell:
    """One number of a table, before it is averaged over seeds."""

    panel: Panel
    row: Row
    dataset: str
    clients: int

    @property
    def fits(self) -> bool:
        """Whether its row has runs for its panel."""
        return self.row.panel_model in (None, self.panel.model)
