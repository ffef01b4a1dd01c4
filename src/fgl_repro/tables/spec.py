"""A paper's table or figure as data, and the grid of runs that it asks for.

The grid is expanded here and not by Hydra, which mishandles several experiments with sweeps in files. The fields are
the entries of ``conf/table``, as are those of :mod:`fgl_repro.tables.entries`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from fgl_repro.config import Config, assembled, cache_of_options, compose_ahead, conf_dir, copied, options, unchecked
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError, nearest
from fgl_repro.federation.settings import Setting
from fgl_repro.fl.metrics import METRICS, Metric
from fgl_repro.tables.entries import ACCURACY, Cell, Entries, Panel, Row, Several, Whole, among, option_of, spelled


@dataclass(frozen=True)
class TableSpec(Entries):
    """A table or figure, as ``conf/table/<paper>/<number>.yaml`` describes it.

    Attributes:
        path: That yaml. Its folder is the paper, its name the number in the paper (``fig9``: Figure 9).
        display: The paper's name in print: ``FedLoG``.
        kind: What its numbers are: ``accuracy``, or a module of ``fgl_repro.tables.kinds``.
        columns: What runs across: ``clients`` (a grid for each panel and data set) or ``panels``.
        sweep: Dotted overrides and the values they take: ``rows`` holds those of the yaml with every combination.
        around: A value of each swept override: no more than one of them leaves it at a time. Empty: all combinations.
        lines: The rows of the yaml, where something is swept.
        model: Option of ``conf/model``; ``auto``: the architecture of each method's own paper.
        curves: Which curves it is read from: ``validation``, which runs always keep, for what methods trace and, where
            test rows select the round, for accuracy on them; ``all`` (``runtime.curves=all``) for that of any probe.
            Where the yaml says none, a kind that is read from curves has its own.
        proposed: The paper's own method, where rows compare methods.
        note: What a reader must know: how the printed thing was understood, where it is read from.
        differences: Lines that a table prints below its rows: the first of two rows (their ids) minus the second.
        options: Whatever the kind needs besides.
        absent: Data sets whose files are not at hand, and the reason: nothing of them is run, and cells stay blank,
            unless they are what a table is narrowed to.
        added_rows: Ids of rows that a user has added, see :mod:`fgl_repro.tables.added`.
        repeats: A table of the same paper with whose printed numbers it compares other runs: these numbers count there.
        whole: The table that it is a part of, with the seeds of the part; None for a whole one.
    """

    path: Path
    display: str
    title: str
    datasets: Several[Annotated[str, option_of("dataset")]]
    clients: Several[Annotated[Whole, Field(ge=1)]]
    seeds: Several[Annotated[Whole, Field(ge=0)]]
    partitioner: Annotated[str, option_of("partitioner")]
    protocols: Several[Annotated[str, option_of("protocol")]]
    rows: tuple[Row, ...] = ()
    panels: tuple[Panel, ...] = ()
    kind: str = ACCURACY
    metric: Annotated[str, among(lambda: METRICS)] = ACCURACY
    format: Literal["percent", "fraction"] = "percent"
    model: Annotated[str, option_of("model")] = "auto"
    columns: Literal["clients", "panels"] = "clients"
    sweep: dict[str, list[Any]] = field(default_factory=dict, hash=False)
    around: dict[str, Any] = field(default_factory=dict, hash=False)
    lines: tuple[Row, ...] = ()
    curves: Literal["none", "validation", "all"] = "none"
    proposed: str = ""
    note: Annotated[str, StringConstraints(strip_whitespace=True)] = ""
    differences: dict[str, list[str]] = field(default_factory=dict, hash=False)
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    absent: dict[str, str] = field(default_factory=dict, hash=False)
    added_rows: tuple[str, ...] = ()
    repeats: str = ""
    whole: TableSpec | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """What users call it: ``fedlog/1``, ``fedlog/fig9``."""
        return f"{self.paper}/{self.path.stem}"

    def metric_name(self, panel: Panel) -> str:
        """Name what a panel's numbers are means of."""
        return panel.metric or self.metric

    def metric_of(self, panel: Panel) -> Metric:
        """Give the metric of a panel's numbers: whether they are shares or errors, and so which of two is better."""
        return METRICS[self.metric_name(panel)]

    def format_of(self, panel: Panel) -> str:
        """Say how a panel's numbers are told: ``percent``, ``fraction`` or ``error``."""
        return "error" if self.metric_of(panel).error else self.format

    @property
    def has_errors(self) -> bool:
        """Whether some of its numbers are errors."""
        return any(self.metric_of(panel).error for panel in self.panels)

    @property
    def measure(self) -> str:
        """What its numbers are, and how they are told: ``accuracy and macro-F1 in percent``."""
        return self.measure_of(self.panels)

    def measure_of(self, panels: Iterable[Panel]) -> str:
        """Say what the numbers of ``panels`` are, and how they are told."""
        kinds = list(dict.fromkeys(map(self.metric_of, panels))) or [METRICS[self.metric]]
        shares = " and ".join(kind.title for kind in kinds if not kind.error)
        errors = " and ".join(kind.title for kind in kinds if kind.error)
        told = "in percent" if self.format == "percent" else "in fractions"
        return "; ".join([f"{shares} {told}"] * bool(shares) + [f"{errors}, less is better"] * bool(errors))

    @property
    def unit(self) -> str:
        """What gaps to print are told in: points, of errors percent of the printed number."""
        return " or ".join(dict.fromkeys(self.metric_of(panel).unit for panel in self.panels)) or "points"

    @property
    def paper(self) -> str:
        """``fedlog``."""
        return self.path.parent.name

    @property
    def is_ours(self) -> bool:
        """Whether its yaml is one of this project's, and not of a user's folder or package."""
        return self.path.is_relative_to(conf_dir())

    @property
    def sort(self) -> str:
        """``table`` or ``figure``."""
        return "figure" if self.path.stem.startswith("fig") else "table"

    @property
    def table(self) -> str:
        """Its number in the paper."""
        return self.path.stem.removeprefix("fig")

    @property
    def heading(self) -> str:
        """``Table 9``, ``Table D2``, ``Figure 9``; ``Figure ranks (ours)`` where the paper has none of that number."""
        ours = "" if re.match(r"[A-Z]?\d", self.table) else " (ours)"
        return f"{self.sort.capitalize()} {self.table}{ours}"

    @property
    def full_title(self) -> str:
        """``FedLoG, Table 9: Unseen data accuracy, open set``."""
        return f"{self.display}, {self.heading}: {self.title}"

    @property
    def stem(self) -> str:
        """``table_9``: what its files are called."""
        return f"{self.sort}_{self.table}"

    @property
    def places(self) -> list[tuple[str, int]]:
        """Data sets and client counts: the columns of a panel."""
        return list(product(self.datasets, self.clients))

    @property
    def drawn(self) -> list[tuple[str, int]]:
        """Columns that a drawing has: those of data sets at hand, or all where none is."""
        return [at for at in self.places if at[0] not in self.absent] or self.places

    @property
    def printed_file(self) -> str:
        """Path below ``reference`` of the printed numbers that its kind compares with; empty: there are none."""
        return str(self.options.get("reference", ""))

    def option(self, name: str) -> Any:
        """Return an entry of ``options`` that the kind cannot do without.

        Raises:
            UserError: The yaml does not say it.
        """
        if name not in self.options:
            raise UserError(
                f"the table {self.path} lacks options.{name}, which its kind needs: see another table of that kind."
            )
        return self.options[name]

    def cells(self) -> Iterator[Cell]:
        """Yield every number of the table: by panel, data set, clients, row."""
        for panel, (dataset, clients), row in product(self.panels, self.places, self.rows):
            yield Cell(panel, row, dataset, clients)

    def planned(self) -> list[Cell]:
        """List cells that can have a number: of data sets at hand, and of rows that have runs for their panel."""
        return [cell for cell in self.cells() if cell.dataset not in self.absent and cell.fits]

    @property
    def blank(self) -> str:
        """``Left blank: Flickr (no raw files).``; empty where all data sets are at hand."""
        reasons: dict[str, list[str]] = {}
        for dataset, reason in self.absent.items():
            reasons.setdefault(reason, []).append(spelled(dataset))
        blanks = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
        return f"Left blank: {blanks}." if blanks else ""

    def config(self, cell: Cell, protocol: str, seed: int) -> Config:
        """Compose the run of ``cell`` at ``seed``, before any tuning.

        Raises:
            UserError: The setting of the cell has no such probe.
        """
        base = _built(
            json.dumps(cell.row.overrides),  # which can be looked up, lists and all
            dataset=cell.dataset,
            partitioner=self.partitioner,
            clients=cell.clients,
            setting=_same_world(cell.panel.setting, tuple(panel.setting for panel in self.panels)),
            protocol=protocol,
            model=cell.row.model or cell.panel.model or self.model,
            method=cell.row.method,
        )
        if cell.panel.probe not in base.setting.probes:
            probes = ", ".join(base.setting.probes)
            raise UserError(
                f"panel {cell.panel.name} of {self.name} has probe {cell.panel.probe}: choose from {probes}."
            )
        out = copied(base)
        out.seed = seed
        out.setting = replace(out.setting, focus=_setting(cell.panel.setting).focus)
        out.runtime.curves = "all" if self.curves == "all" else out.runtime.curves
        return out

    def under(self, protocol: str) -> TableSpec:
        """Give the table the seeds that the protocol asks for, where it does."""
        return replace(self, seeds=tuple(unchecked(None, protocol=protocol).protocol.seeds) or self.seeds)

    def by_protocol(self) -> list[tuple[TableSpec, str]]:
        """Return the table under each of its protocols."""
        compose_ahead(("protocol", protocol) for protocol in self.protocols)
        return [(self.under(protocol), protocol) for protocol in self.protocols]

    @property
    def axes(self) -> dict[str, Sequence[Any]]:
        """What ``narrow`` can keep of each axis."""
        methods = {name for row in self.rows for name in (row.method, row.id, row.line) if name}
        return {"datasets": self.datasets, "clients": self.clients, "methods": sorted(methods), "seeds": self.seeds}

    def narrow(
        self,
        datasets: Sequence[str] = (),
        clients: Sequence[int] = (),
        methods: Sequence[str] = (),
        seeds: Sequence[int] = (),
    ) -> TableSpec:
        """Keep a part of the table; an empty list keeps the whole axis.

        Raises:
            UserError: A list holds something that the table does not have.
        """
        for (axis, has), wanted in zip(self.axes.items(), (datasets, clients, methods, seeds), strict=True):
            for item in wanted:
                if item not in has:
                    known = axis == "methods" and item in options("method")
                    more = f', or add it as a further row (--add {item}, in Python add=["{item}"])' if known else ""
                    near = "" if known or axis not in ("datasets", "methods") else nearest(str(item), has)
                    choose = f"choose from {', '.join(map(str, has))}{more}"
                    raise UserError(f"{self.name} has no {axis} {item}{near}: {choose}.")
        absent = {d: reason for d, reason in self.absent.items() if not datasets}
        whole = replace(self, seeds=tuple(s for s in self.seeds if not seeds or s in seeds), absent=absent)
        part = replace(
            whole,
            datasets=tuple(d for d in self.datasets if not datasets or d in datasets),
            clients=tuple(k for k in self.clients if not clients or k in clients),
            rows=tuple(r for r in self.rows if not methods or {r.method, r.id, r.line} & {*methods}),
        )
        return part if part == whole else replace(part, whole=whole)

    def smoke(self) -> TableSpec:
        """Shorten the table to two rounds of one seed for the first data set and client count: does everything work?

        The shorter runs have keys of their own, so they can never be taken for the table's.
        """

        def short(row: Row) -> Row:
            quick = {f"method.{name}": value for name, value in registry.options("method")[row.method].quick.items()}
            alike = [other.overrides for other in self.rows if other.method == row.method]
            varied = {key for key in quick if any(each.get(key) != row.overrides.get(key) for each in alike)}
            quick = {key: value for key, value in quick.items() if key not in varied}
            return replace(row, overrides={**row.overrides, **quick, "protocol.rounds": 2})

        rows = tuple(map(short, self.rows))
        corner = replace(self, datasets=self.datasets[:1], clients=self.clients[:1], seeds=self.seeds[:1])
        return replace(corner, rows=rows, whole=None)


def _setting(option: str) -> Setting:
    return unchecked(None, setting=option).setting


@cache_of_options
def _same_world(option: str, every: tuple[str, ...]) -> str:
    """Find the first of ``every`` that differs from ``option`` in nothing but focus: their runs are composed once."""
    own = _setting(option)
    return next(other for other in every if replace(_setting(other), focus=own.focus) == own)


@cache_of_options
def _built(overrides: str, **choices: str | int) -> Config:
    return assembled(json.loads(overrides), **choices)
