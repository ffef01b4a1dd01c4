"""A paper's table or figure as data: ``conf/table/*.yaml``, and the grid of runs it asks for.

The grid is expanded here and not by Hydra, which mishandles several experiments with sweeps in files.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from fgl_repro.core.errors import UserError
from fgl_repro.data.catalog import NAMES, facts

if TYPE_CHECKING:
    from fgl_repro.config import Config

FORMATS = ("percent", "fraction")
COLUMNS = ("clients", "panels")
ACCURACY = "accuracy"


PAPERS = {"fedlog": "FedLoG", "fedpub": "FED-PUB", "fedsage": "FedSage"}


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
        said = [f"{dotted.rpartition('.')[2]} = {value}" for dotted, value in zip(sweep, values, strict=True)]
        overrides = row.overrides | dict(zip(sweep, values, strict=True))
        rows.append(Row(", ".join(said), row.method, overrides, "-".join([row.id, *said]).replace(" ", "")))
    return rows


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
class Difference:
    """A line that a table prints below its rows: row ``more`` minus row ``less`` (their ids), in points."""

    name: str
    more: str
    less: str


@dataclass(frozen=True)
class TableSpec:
    """``conf/table/<name>.yaml``.

    Attributes:
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
    differences: tuple[Difference, ...] = ()
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def heading(self) -> str:
        """``Table 9`` or ``Figure 9``."""
        return f"{self.sort.capitalize()} {self.table}"

    @property
    def said(self) -> str:
        """``FedLoG, Table 9``."""
        return f"{PAPERS.get(self.paper, self.paper)}, {self.heading}"

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
        """The run of ``cell`` at ``seed``, before any tuning."""
        overrides = tuple(cell.row.overrides.items())
        axes = (self.partitioner, protocol, self.model)
        base = _built(cell.row.method, overrides, cell.dataset, cell.clients, cell.panel.setting, *axes)
        out = copy.deepcopy(base)
        out.seed = seed
        out.runtime.curves = "all" if self.curves else out.runtime.curves
        return out

    @property
    def axes(self) -> dict[str, Sequence[Any]]:
        """What ``narrow`` may be asked for."""
        methods = {row.method for row in self.rows} | {row.id for row in self.rows}
        return {"datasets": self.datasets, "clients": self.clients, "seeds": self.seeds, "methods": sorted(methods)}

    def narrow(
        self,
        datasets: Sequence[str] = (),
        clients: Sequence[int] = (),
        methods: Sequence[str] = (),
        seeds: Sequence[int] = (),
    ) -> TableSpec:
        """The part of the table that was asked for; an empty list keeps the whole axis.

        Raises:
            UserError: Something that the table does not have.
        """
        for axis, asked in (("datasets", datasets), ("clients", clients), ("seeds", seeds), ("methods", methods)):
            self._within(axis, asked, self.axes[axis])
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
        from fgl_repro.config import method_classes

        def short(row: Row) -> Row:
            quick = {f"method.{name}": value for name, value in method_classes()[row.method].quick.items()}
            return replace(row, overrides={"protocol.rounds": 2, **quick, **row.overrides})

        rows = tuple(map(short, self.rows))
        return replace(self, rows=rows, datasets=self.datasets[:1], clients=self.clients[:1], seeds=self.seeds[:1])

    def _within(self, axis: str, asked: Sequence[Any], has: Sequence[Any]) -> None:
        for item in asked:
            if item not in has:
                choices = ", ".join(map(str, has))
                raise UserError(f"{self.name} has no {axis} {item}: choose from {choices}.")


@cache
def _built(
    method: str,
    overrides: tuple[tuple[str, Any], ...],
    dataset: str,
    clients: int,
    setting: str,
    partitioner: str,
    protocol: str,
    model: str,
) -> Config:
    from fgl_repro.config import build

    return build(
        dict(overrides),
        dataset=dataset,
        partitioner=partitioner,
        clients=clients,
        setting=setting,
        protocol=protocol,
        model=model,
        method=method,
    )


def _folder() -> Path:
    from fgl_repro.config import conf_dir

    return conf_dir() / "table"


def names() -> list[str]:
    """Tables and figures one may ask for, in the order of their numbers, tables first."""

    def order(name: str) -> tuple[bool, str, int, str]:
        word, number, part = re.fullmatch(r"(\D*)(\d*)(.*)", name).groups()  # type: ignore[union-attr]
        return word != "table", word, int(number or 0), part

    return sorted((p.stem for p in _folder().glob("*.yaml")), key=order)


def load(name: str) -> TableSpec:
    """The table or figure called ``name``.

    Raises:
        UserError: It does not exist, or its yaml says something that is not a table.
    """
    path = _folder() / f"{name}.yaml"
    if not path.exists():
        raise UserError(f"there is no table {name}: choose from {', '.join(names())}.")
    return parse(name, path)


def parse(name: str, path: Path) -> TableSpec:
    """Read one yaml."""
    try:
        said = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
        assert isinstance(said, dict)
        rows = tuple(
            Row(_text(r, "name"), _text(r, "method"), dict(r.get("overrides", {})), str(r.get("id", "")))
            for r in said.get("rows", [])
        )
        sweep = {str(dotted): list(values) for dotted, values in said.get("sweep", {}).items()}
        if sweep and len(rows) != 1:  # swept rows are named by what is swept alone
            raise ValueError(f"sweep needs one row, not {len(rows)}")
        rows = tuple(swept(rows[0], sweep)) if sweep else rows
        by_id = {row.id: row for row in rows}
        sort = "figure" if "figure" in said else "table"
        spec = TableSpec(
            name=name,
            paper=str(said["paper"]),
            table=str(said[sort]),
            title=str(said["title"]),
            rows=rows,
            datasets=tuple(map(str, said["datasets"])),
            clients=tuple(map(int, said["clients"])),
            seeds=tuple(map(int, said.get("seeds", [0]))),
            partitioner=str(said["partitioner"]),
            protocols=tuple(map(str, said["protocols"])),
            metric=str(said.get("metric", "accuracy")),
            format=str(said.get("format", "percent")),
            panels=tuple(_panel(str(key), panel) for key, panel in said.get("panels", {}).items()),
            sort=sort,
            kind=str(said.get("kind", ACCURACY)),
            model=str(said.get("model", "auto")),
            columns=str(said.get("columns", "clients")),
            sweep=sweep,
            curves=bool(said.get("curves", False)),
            proposed=str(said.get("proposed", "")),
            note=str(said.get("note", "")).strip(),
            differences=tuple(
                Difference(str(key), by_id[more].id, by_id[less].id)
                for key, (more, less) in said.get("differences", {}).items()
            ),
            options=dict(said.get("options", {})),
        )
    except KeyError as error:
        raise UserError(f"the table {path} lacks {error}: see the other files in that folder.") from None
    except (AssertionError, TypeError, ValueError, AttributeError, OmegaConfBaseException, YAMLError) as error:
        raise UserError(f"the table {path} cannot be read ({' '.join(str(error).split())}): mend the yaml.") from None
    if spec.format not in FORMATS:
        raise UserError(f"format: {spec.format} in {path} is unknown: choose {' or '.join(FORMATS)}.")
    if spec.columns not in COLUMNS:
        raise UserError(f"columns: {spec.columns} in {path} is unknown: choose {' or '.join(COLUMNS)}.")
    if len(by_id) < len(spec.rows):
        raise UserError(f"two rows of {path} are the same method and variant: remove one, or give each an id.")
    if spec.kind == ACCURACY and not (spec.rows and spec.panels):
        raise UserError(f"the table {path} has no rows or no panels: see the other files in that folder.")
    return spec


def _panel(name: str, said: dict[str, Any]) -> Panel:
    panel = (name, _text(said, "title"), _text(said, "setting"), _text(said, "probe"))
    printed = said.get("reference")
    if printed is None:
        return Panel(*panel)
    return Panel(*panel, _text(printed, "file"), _text(printed, "setting"), str(printed.get("rows", "method")))


def _text(said: dict[str, Any], name: str) -> str:
    if not isinstance(said[name], str):
        raise TypeError(f"{name} is {said[name]}, not a word")
    return str(said[name])
