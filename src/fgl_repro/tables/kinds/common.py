"""What several kinds share: the runs behind a cell, columns of their CSVs, worlds without training."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from fgl_repro.config import Config, build, conf_dir, digest
from fgl_repro.config.yamls import searched
from fgl_repro.core.errors import UserError
from fgl_repro.data.dataset import Dataset
from fgl_repro.data.download import DataUnavailableError, data_root
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.metrics import Metric
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RunSource, loaded
from fgl_repro.tables import needs, results
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell, Panel, place
from fgl_repro.tables.printing import grid_text
from fgl_repro.tables.remembered import remembered, version_of_code
from fgl_repro.tables.results import Stat
from fgl_repro.tables.spec import TableSpec

T = TypeVar("T")


def columns(spec: TableSpec) -> Iterator[tuple[str, list[Cell]]]:
    """Yield title and cells, one a row, of every panel, data set and client count."""
    for panel, (dataset, clients) in product(spec.panels, spec.places):
        yield place(dataset, clients), [Cell(panel, row, dataset, clients) for row in spec.rows]


def only_panel(spec: TableSpec) -> Panel:
    """Return the panel of a table of a kind that has one.

    Raises:
        UserError: It has several.
    """
    if len(spec.panels) != 1:
        raise UserError(f"{spec.name} has {len(spec.panels)} panels, and its kind, {spec.kind}, has room for one.")
    return spec.panels[0]


def only_column(spec: TableSpec) -> tuple[Panel, str, int]:
    """Return panel, data set and client count of a table of a kind that has one column.

    Raises:
        UserError: It has several.
    """
    if len(spec.places) != 1:
        raise UserError(f"{spec.name} has {len(spec.places)} columns, and its kind, {spec.kind}, has room for one.")
    return (only_panel(spec), *spec.places[0])


CellLines = tuple[list[object], list[dict[str, Any]]]
"""What is told about a cell: the words of its row on the page, and its lines of the CSV."""


def filled(
    spec: TableSpec, heads: Sequence[str], line: Callable[[Cell], CellLines], seeds: int, bare: Sequence[str] = ()
) -> Content:
    """Fill a grid for every panel, data set and client count.

    Args:
        seeds: With how many seeds a number counts as done.
        bare: Why runs do not have the curves which the table is read from, as for ``without_curves``.
    """
    rows: list[dict[str, Any]] = []
    parts = []
    for title, cells in columns(spec):
        found = [line(cell) for cell in cells]
        rows += [row for _, lines in found for row in lines]
        parts.append(f"### {title}\n\n{grid(spec, heads, [words for words, _ in found])}")
    body = "\n\n".join([*parts, *without_curves(spec, bare)])
    return Content(rows, body, count_done(rows, seeds), len(rows))


def count_done(rows: Iterable[Mapping[str, Any]], seeds: int) -> int:
    """Count the lines of a CSV whose numbers are of at least so many seeds."""
    return sum(row["n_seeds"] >= seeds for row in rows)


def grid(spec: TableSpec, heads: Sequence[str], rows: Sequence[Sequence[object]], numbers_from: int = 1) -> str:
    """Write a grid, without the columns of printed numbers where a table has none."""
    kept = [at for at, head in enumerate(heads) if spec.printed_file or not _of_print(head)]
    return grid_text([heads[at] for at in kept], [[row[at] for at in kept] for row in rows], numbers_from)


def _of_print(head: str) -> bool:
    return head in ("paper", "ours / paper") or head.endswith((", paper", ", printed"))


UNASKED, UNPUBLISHED, UNTRACED = "unasked", "unpublished", "untraced"
"""Why a run lacks a curve: it was not asked to keep it; every run keeps it, but it was not published; none has it."""


def run_command(spec: TableSpec) -> str:
    """Write the command that runs a table, with the folder in which that of one's own is found."""
    folders = [f" --config-dir {shlex.quote(str(folder))}" for folder in searched if spec.path.is_relative_to(folder)]
    return f"fgl-table run {spec.name}{''.join(folders)}"


def without_curves(spec: TableSpec, bare: Sequence[str]) -> list[str]:
    """Say what to do about runs without the curves which a table is read from; nothing where all have them.

    Args:
        bare: One of the three words for each such run.
    """
    yaml = spec.path.relative_to(conf_dir().parent) if spec.is_ours else spec.path
    run = run_command(spec)
    again = f"`{run}` does them again with"
    if spec.curves != "all":
        again = f"write `curves: all` in {yaml}, and {again}"
    name = spec.options.get("curve")
    advice = {
        UNASKED: f"runs were recorded without curves: {again}.",
        UNPUBLISHED: f"runs were published without curves: `{run} --fresh` does them again with.",
        UNTRACED: f"runs trace nothing called {name}: correct options.curve in {yaml}, or leave out their rows.",
    }
    return [f"{bare.count(why)} {what}" for why, what in advice.items() if why in bare]


def recorded(spec: TableSpec, cell: Cell, protocol: str, source: RunSource) -> list[Record]:
    """Load the finished runs of a cell, in the order of seeds."""
    keys, _ = needs.chosen_keys(spec, cell, protocol, source)
    return list(loaded(source, keys).values())


def data_head(spec: TableSpec, protocol: str, dataset: str) -> dict[str, Any]:
    """Fill the first columns of a CSV line about a data set."""
    return {"paper": spec.paper, spec.sort: spec.table, "protocol": protocol, "dataset": dataset}


def head(spec: TableSpec, protocol: str, cell: Cell) -> dict[str, Any]:
    """Fill the first columns of a CSV line about a cell."""
    row = {"method": cell.row.method, "name": cell.row.name, "variant": cell.row.variant}
    row |= results.chosen_on(spec, protocol, cell.dataset)
    return {**data_head(spec, protocol, cell.dataset), "clients": cell.clients, **row}


def stat_text(value: Stat | None, digits: int, wanted: int) -> str:
    """Write mean, std where seeds differ, and how many seeds there are where some are missing."""
    if value is None:
        return ""
    spread = f" ± {value.std:.{digits}f}" if value.std and round(value.std, digits) else ""
    missing = f" [{value.n} of {wanted}]" if value.n < wanted else ""
    return f"{value.mean:.{digits}f}{spread}{missing}"


def scaled(value: Stat, kind: Metric) -> Stat:
    """Scale mean and std as they are told: shares in percent."""
    return Stat(kind.scale * value.mean, None if value.std is None else kind.scale * value.std, value.n)


def stat(values: Sequence[float]) -> Stat | None:
    """Compute mean and population std."""
    return results.stat(values, 0)


def example(spec: TableSpec, dataset: str, clients: int, protocol: str) -> Config:
    """Build a config of the closed set (or what ``options.setting`` names) with a method: for its world, not to run."""
    setting = str(spec.options.get("setting", "seen_graph"))
    named = {"dataset": dataset, "partitioner": spec.partitioner, "setting": setting, "protocol": protocol}
    return build({}, **named, model=spec.model, clients=clients, method="local")


_WORLDS: dict[str, World] = {}
"""Worlds that were built, by what they are built from."""


def world_of(config: Config) -> World | None:
    """Return what clients of ``config`` would train on; None where the graph cannot be had."""
    key = digest(_division(config) | {"dataset": config.dataset.identity(), "cache": config.paths.cache})
    if key not in _WORLDS:
        graph = graph_for(config)
        if graph is None:
            return None
        _WORLDS[key] = config.setting.build(graph, config.partitioner, config.split)
    return _WORLDS[key]


def _division(config: Config) -> dict[str, Any]:
    """Return what decides, beside the graph, who holds which nodes and in which role, as plain JSON types."""
    drawn = config.split
    axes = {part.axis: part.identity() for part in (config.partitioner, config.setting)}
    return axes | {"split": [*drawn.ratios, drawn.seed, drawn.source]}


def kept(config: Config, graph: Graph, what: str, compute: Callable[[], T]) -> T:
    """Keep what takes long to find out about a world without training, in the cache until code or data are others.

    Args:
        graph: What the world is made of.
        what: Which number it is; with the partition, setting and split of ``config`` it says what is computed.
        compute: Finds it, in plain JSON types.
    """
    asked = _division(config) | {"what": what, "graph": graph.fingerprint}
    return remembered(Path(config.paths.cache), asked, version_of_code(), compute)


def graph_for(config: Config) -> Graph | None:
    """Load the graph that runs of ``config`` use, or None where no source has it."""
    return graph_of(config.dataset, config.paths.cache)


_GRAPHS: dict[tuple[str, str, Path | None], Graph | None] = {}
"""Graphs that were loaded, by the identity of the data set and the folders where its files are looked for."""


def graph_of(dataset: Dataset, cache: str) -> Graph | None:
    """Load a data set's graph as it is configured, or None where no source has it: its numbers are then left blank."""
    key = digest(dataset.identity()), cache, data_root()
    if key not in _GRAPHS:
        try:
            _GRAPHS[key] = dataset.load(Path(cache))
        except DataUnavailableError:
            _GRAPHS[key] = None
    return _GRAPHS[key]
