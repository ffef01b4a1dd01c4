"""The scaling factor gamma of one client for each class after the last round (FedLoG's Table 8)."""

from __future__ import annotations

from typing import Any

from fgl_repro.runs.store import RunSource
from fgl_repro.tables import printed_pairs, reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.common import stat_text
from fgl_repro.tables.printed_pairs import PrintedPair
from fgl_repro.tables.printing import columns_of, decimal
from fgl_repro.tables.results import Stat
from fgl_repro.tables.spec import TableSpec


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid: classes down; training nodes and gamma of client ``options.client`` (from 0), ours and printed."""
    rows: list[dict[str, Any]] = []
    pairs: list[PrintedPair] = []
    grids = []
    for title, cells in common.columns(spec):
        lines, own, body = _column(spec, cells, protocol, source)
        rows += lines
        pairs += own
        grids.append(f"### {title}, client {spec.option('client')}\n\n{body}")
    content = Content(rows, "\n\n".join(grids), sum(row["gamma"] != "" for row in rows), len(rows))
    return printed_pairs.with_verdicts(content, pairs)


def _column(
    spec: TableSpec, cells: list[Cell], protocol: str, source: RunSource
) -> tuple[list[dict[str, Any]], list[PrintedPair], str]:
    """Make CSV lines, what is compared in each, and grid of a data set and client count; ``cells`` are the variants."""
    client, wanted = int(spec.option("client")), len(spec.seeds)
    nodes = dict(enumerate(training_nodes(spec, cells[0].dataset, cells[0].clients, protocol, client), 1))
    found = [dict(enumerate(gammas(spec, cell, protocol, source), 1)) for cell in cells]
    paper_nodes, paper_gamma = by_class(spec, "n_nodes"), by_class(spec, "gamma_final_round")
    rows, pairs, body = [], [], []
    for c in range(1, max(len(nodes), len(paper_nodes), *map(len, found)) + 1):
        sizes = {"nodes": decimal(nodes.get(c), 0), "paper_nodes": decimal(paper_nodes.get(c), 0)}
        theirs = decimal(paper_gamma.get(c), 3)
        own = [values.get(c) for values in found]
        body.append([c, *sizes.values(), *(stat_text(value, 3, wanted) for value in own), theirs])
        for cell, value in zip(cells, own, strict=True):
            line = common.head(spec, protocol, cell) | {"client": client, "class": c, **sizes}
            line |= columns_of(value, 6, "gamma", "std", "n_seeds")
            pairs.append(PrintedPair(f"{cell.row.label}, class {c}", value, paper_gamma.get(c), whole=1))
            rows.append(line | {"wanted": wanted, "paper_gamma": theirs})
    heads = ["class", "training nodes", "paper", *(cell.row.label for cell in cells), "paper"]
    return rows, pairs, common.grid(spec, heads, body)


def gammas(spec: TableSpec, cell: Cell, protocol: str, source: RunSource) -> list[Stat | None]:
    """Read gamma of the client for each class, over seeds; empty where no record has any."""
    client = int(spec.option("client"))
    found = [record.fact("gamma") for record in common.recorded(spec, cell, protocol, source)]
    return [common.stat(values) for values in zip(*(gamma[client] for gamma in found if gamma), strict=True)]


def training_nodes(spec: TableSpec, dataset: str, clients: int, protocol: str, client: int) -> list[int]:
    """Count training nodes of each class at the client; empty where the graph cannot be had."""
    world = common.world_of(common.example(spec, dataset, clients, protocol))
    return [] if world is None else [int(n) for n in world.class_counts[client]]


def by_class(spec: TableSpec, metric: str) -> dict[int, float]:
    """Read printed numbers by class, counted from 1 as there."""
    found = reference.numbers(spec.printed_file, "variant", metric=metric)
    return {int(variant.rpartition("class=")[2]): value for variant, value in found.items()}
