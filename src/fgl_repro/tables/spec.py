"""A paper's table or figure as data, and the grid of runs that it asks for.

The grid is expanded here and not by Hydra, which mishandles several experiments with sweeps in files.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from fgl_repro.core.errors import UserError
from fgl_repro.data.catalog import NAMES, facts

if TYPE_CHECKING:
    from fgl_repro.config import Config
    from fgl_repro.federation.settings import Setting

ACCURACY = "accuracy"


def spelled(dataset: str) -> str:
    """A data set's name as papers print it."""
    return facts(dataset).display if dataset in NAMES else dataset


@dataclass(frozen=True)
class Row:
    """A method as one line of the table. ``name`` is the paper's spelling, by which the printed number is found.

    ``key`` tells apart rows of one method and variant that differ in other overrides.
    """

    name: str
    method: str
    overrides: dict[str, Any] = field(default_factory=dict, hash=False)
    key: str = ""

    @property
    def variant(self) -> str:
        """Version of the method, where the row names one."""
        return str(self.overrides.get("method.variant", ""))

    @property
    def id(self) -> str:
        """``fedpub-release``: what ``--methods`` and results call this row."""
        return self.key or (f"{self.method}-{self.variant}" if self.variant else self.method)

    @property
    def label(self) -> str:
        """``FED-PUB (release)``: what tables print, so that the version that ran is always in sight."""
        return f"{self.name} ({self.variant})" if self.variant else self.name


def swept(row: Row, sweep: Mapping[str, Sequence[Any]]) -> list[Row]:
    """``row`` with every combination of the values of ``sweep``, the last override moving fastest."""
    rows = []
    for values in product(*sweep.values()):
        parts = [f"{dotted.rpartition('.')[2]} = {value}" for dotted, value in zip(sweep, values, strict=True)]
        overrides = row.overrides | dict(zip(sweep, values, strict=True))
        rows.append(Row(", ".join(parts), row.method, overrides, "-".join([row.id, *parts]).replace(" ", "")))
    return rows


class Options(dict[str, Any]):
    """What a kind of table needs besides, as a yaml says it; the sentence for what it does not say names the yaml."""

    def __init__(self, values: Mapping[str, Any], of: str) -> None:
        super().__init__(values)
        self._of = of

    def __missing__(self, name: str) -> Any:
        raise UserError(f"{self._of} lacks options.{name}, which its kind needs: see another table of that kind.")


@dataclass(frozen=True)
class Panel:
    """A part of a table with one probe of one setting.

    Attributes:
        name: As printed, e.g. ``2a``.
        setting: Option of ``conf/setting`` whose runs are read.
        probe: Which of the run's probes.
        reference: Tidy CSV of the printed numbers, below ``fgl_repro/reference``; empty where none are printed.
        reference_setting: Value of that CSV's ``setting`` column.
        reference_rows: Column of that CSV by which a row's name is found: ``method``, ``variant``, or both as
            ``method+variant``.
    """

    name: str
    title: str
    setting: str
    probe: str
    reference: str = ""
    reference_setting: str = ""
    reference_rows: str = "method"


@dataclass(frozen=True)
class Cell:
    """One number of a table, before it is averaged over seeds."""

    panel: Panel
    row: Row
    dataset: str
    clients: int


@dataclass(frozen=True)
class RowDifference:
    """A line that a table prints below its rows: row ``more`` minus row ``less`` (their ids), in points."""

    name: str
    more: str
    less: str


@dataclass(frozen=True)
class TableSpec:
    """A table or figure, as ``conf/table/<paper>/<number>.yaml`` describes it.

    Attributes:
        name: What users call the table: ``fedlog/1``, ``fedlog/fig9``.
        paper: Folder of the yaml.
        display: The paper's name in print: ``FedLoG``.
        table: Its number in the paper.
        sort: ``table`` or ``figure``.
        kind: What its numbers are: ``accuracy``, or a module of ``fgl_repro.tables.kinds``.
        columns: What runs across: ``clients`` (a grid for each panel and data set) or ``panels``.
        sweep: Dotted overrides and the values they take: ``rows`` holds the one row of the yaml with every combination.
        model: Option of ``conf/model``; ``auto``: the architecture of each method's own paper.
        curves: Whether it is read from every probe in every round, which a run keeps only if asked.
        proposed: The paper's own method, where rows compare methods.
        note: What a reader must know: how the printed thing was understood, where it is read from.
        options: Whatever the kind needs besides.
    """

    name: str
    paper: str
    display: str
    table: str
    title: str
    rows: tuple[Row, ...]
    datasets: tuple[str, ...]
    clients: tuple[int, ...]
    seeds: tuple[int, ...]
    partitioner: str
    protocols: tuple[str, ...]
    metric: str
    format: str
    panels: tuple[Panel, ...]
    sort: str = "table"
    kind: str = ACCURACY
    model: str = "auto"
    columns: str = "clients"
    sweep: dict[str, list[Any]] = field(default_factory=dict, hash=False)
    curves: bool = False
    proposed: str = ""
    note: str = ""
    differences: tuple[RowDifference, ...] = ()
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def heading(self) -> str:
        """``Table 9`` or ``Figure 9``."""
        return f"{self.sort.capitalize()} {self.table}"

    @property
    def full_title(self) -> str:
        """``FedLoG, Table 9: Unseen data accuracy, open set``."""
        return f"{self.display}, {self.heading}: {self.title}"

    @property
    def stem(self) -> str:
        """``table_9``: what its files are called."""
        return f"{self.sort}_{self.table}"

    def cells(self) -> Iterator[Cell]:
        """Every number of the table: by panel, data set, clients, row."""
        for panel in self.panels:
            for dataset in self.datasets:
                for clients in self.clients:
                    for row in self.rows:
                        yield Cell(panel, row, dataset, clients)

    def config(self, cell: Cell, protocol: str, seed: int) -> Config:
        """The run of ``cell`` at ``seed``, before any tuning.

        Raises:
            UserError: The setting of the cell has no such probe.
        """
        overrides = json.dumps(cell.row.overrides)  # which can be looked up, lists and all
        axes = (self.partitioner, protocol, self.model)
        shared = _same_world(cell.panel.setting, tuple(panel.setting for panel in self.panels))
        base = _built(cell.row.method, overrides, cell.dataset, cell.clients, shared, *axes)
        if cell.panel.probe not in base.setting.probes:
            probes = ", ".join(base.setting.probes)
            raise UserError(
                f"panel {cell.panel.name} of {self.name} has probe {cell.panel.probe}: choose from {probes}."
            )
        out = copy.deepcopy(base)
        out.seed = seed
        out.setting = replace(out.setting, focus=_setting(cell.panel.setting).focus)
        out.runtime.curves = "all" if self.curves else out.runtime.curves
        return out

    def under(self, protocol: str) -> TableSpec:
        """The table with the seeds that the protocol asks for, where it does."""
        from fgl_repro.config import unchecked

        return replace(self, seeds=tuple(unchecked(None, protocol=protocol).protocol.seeds) or self.seeds)

    def by_protocol(self) -> list[tuple[TableSpec, str]]:
        """The table under each of its protocols."""
        return [(self.under(protocol), protocol) for protocol in self.protocols]

    @property
    def axes(self) -> dict[str, Sequence[Any]]:
        """What ``narrow`` can keep of each axis."""
        methods = {row.method for row in self.rows} | {row.id for row in self.rows}
        return {"datasets": self.datasets, "clients": self.clients, "seeds": self.seeds, "methods": sorted(methods)}

    def narrow(
        self,
        datasets: Sequence[str] = (),
        clients: Sequence[int] = (),
        methods: Sequence[str] = (),
        seeds: Sequence[int] = (),
    ) -> TableSpec:
        """A part of the table; an empty list keeps the whole axis.

        Raises:
            UserError: A list holds something that the table does not have.
        """
        for axis, wanted in (("datasets", datasets), ("clients", clients), ("seeds", seeds), ("methods", methods)):
            self._within(axis, wanted, self.axes[axis])
        return replace(
            self,
            datasets=tuple(d for d in self.datasets if not datasets or d in datasets),
            clients=tuple(k for k in self.clients if not clients or k in clients),
            seeds=tuple(s for s in self.seeds if not seeds or s in seeds),
            rows=tuple(r for r in self.rows if not methods or r.method in methods or r.id in methods),
        )

    def smoke(self) -> TableSpec:
        """Two rounds of one seed for the first data set and client count: does everything work?

        The shorter runs have keys of their own, so they can never be taken for the table's.
        """
        from fgl_repro.core.registry import options

        def short(row: Row) -> Row:
            quick = {f"method.{name}": value for name, value in options("method")[row.method].quick.items()}
            return replace(row, overrides={"protocol.rounds": 2, **quick, **row.overrides})

        rows = tuple(map(short, self.rows))
        return replace(self, rows=rows, datasets=self.datasets[:1], clients=self.clients[:1], seeds=self.seeds[:1])

    def _within(self, axis: str, wanted: Sequence[Any], has: Sequence[Any]) -> None:
        for item in wanted:
            if item not in has:
                choices = ", ".join(map(str, has))
                raise UserError(f"{self.name} has no {axis} {item}: choose from {choices}.")


def _setting(option: str) -> Setting:
    from fgl_repro.config import unchecked

    return unchecked(None, setting=option).setting


@cache
def _same_world(option: str, options: tuple[str, ...]) -> str:
    """The first of ``options`` that differs from ``option`` in nothing but its focus: their runs are composed once."""
    own = _setting(option)
    return next(other for other in options if replace(_setting(other), focus=own.focus) == own)


@cache
def _built(
    method: str,
    overrides: str,
    dataset: str,
    clients: int,
    setting: str,
    partitioner: str,
    protocol: str,
    model: str,
) -> Config:
    from fgl_repro.config import build

    return build(
        json.loads(overrides),
        dataset=dataset,
        partitioner=partitioner,
        clients=clients,
        setting=setting,
        protocol=protocol,
        model=model,
        method=method,
    )
