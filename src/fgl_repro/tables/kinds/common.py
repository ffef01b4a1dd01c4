"""What several kinds share: the runs behind a cell, columns of their CSVs, worlds without training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgl_repro.runs.record import Record
from fgl_repro.runs.store import Source
from fgl_repro.tables import results as tables
from fgl_repro.tables.results import Stat
from fgl_repro.tables.spec import Cell, TableSpec, spelled

if TYPE_CHECKING:
    from fgl_repro.config import Config
    from fgl_repro.data.graph import Graph
    from fgl_repro.federation.world import World


def columns(spec: TableSpec) -> Iterator[tuple[str, list[Cell]]]:
    """Title and cells, one a row, of every panel, data set and client count."""
    for panel in spec.panels:
        for dataset in spec.datasets:
            for clients in spec.clients:
                yield f"{spelled(dataset)}, {clients} clients", [Cell(panel, r, dataset, clients) for r in spec.rows]


def without_curves(spec: TableSpec, runs: int) -> str:
    """What to do about runs that do not have the curves which a table is read from."""
    return f"{runs} runs were recorded without curves: `fgl-table run {spec.name}` does them again with."


def recorded(spec: TableSpec, cell: Cell, protocol: str, source: Source) -> list[Record]:
    """The finished runs of a cell, in the order of seeds."""
    keys, _ = tables.chosen_keys(spec, cell, protocol, source)
    return [record for key in keys if (record := source.load(key)) is not None]


def head(spec: TableSpec, protocol: str, cell: Cell) -> dict[str, Any]:
    """The first columns of a CSV line about a cell."""
    row = cell.row
    return {
        "paper": spec.paper,
        spec.sort: spec.table,
        "protocol": protocol,
        "dataset": cell.dataset,
        "clients": cell.clients,
        "method": row.method,
        "name": row.name,
        "variant": row.variant,
    }


def told(value: Stat | None, digits: int, wanted: int) -> str:
    """Mean, std where seeds differ, and how many seeds there are where some are missing."""
    if value is None:
        return ""
    spread = f" ± {value.std:.{digits}f}" if value.std and round(value.std, digits) else ""
    missing = f" [{value.n} of {wanted}]" if value.n < wanted else ""
    return f"{value.mean:.{digits}f}{spread}{missing}"


def decimal(value: float | None, digits: int) -> str:
    """A number of a CSV, blank for None."""
    return "" if value is None else f"{value:.{digits}f}"


def stat(values: Sequence[float]) -> Stat | None:
    """Mean and population std."""
    return tables.stat(values, 0)


def example(spec: TableSpec, dataset: str, clients: int, protocol: str) -> Config:
    """Config of the closed set (or whatever ``options.setting`` names) with some method: for its world, not to run."""
    from fgl_repro.config import build

    setting = str(spec.options.get("setting", "seen_graph"))
    named = {"dataset": dataset, "partitioner": spec.partitioner, "setting": setting, "protocol": protocol}
    return build({}, **named, model=spec.model, clients=clients, method="local")


_WORLDS: dict[str, World | None] = {}
"""Worlds that were built, by what they are built from."""


def world_of(config: Config) -> World | None:
    """What clients of ``config`` would train on; None where the graph cannot be had."""
    from fgl_repro.config import digest

    data, drawn = config.dataset, config.split
    axes = {part.axis: part.identity() for part in (data, config.partitioner, config.setting)}
    key = digest(axes | {"split": [*drawn.ratios, drawn.seed, drawn.source], "cache": config.paths.cache})
    if key not in _WORLDS:
        graph = graph_of(data.name, data.features, data.component, config.paths.cache)
        _WORLDS[key] = None if graph is None else config.setting.build(graph, config.partitioner, drawn)
    return _WORLDS[key]


@cache
def graph_of(dataset: str, features: str, component: str, cache: str) -> Graph | None:
    """A graph, or None where no source has it: numbers about it are then left blank."""
    from fgl_repro import data
    from fgl_repro.data.download import DataUnavailableError

    try:
        return data.load(dataset, Path(cache), features, component)
    except DataUnavailableError:
        return None
