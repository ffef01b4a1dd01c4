"""How far neighbourhoods are from the global graph's, before and after mending (FedSage's Table D1).

L2 distance of the mean feature of a node's neighbours, mean and std over nodes, from what runs of FedSage+ record;
means over seeds. ``options``: ``reference``, the printed numbers; ``nodes``: ``all``, or those that ``lost`` some.
"""

from __future__ import annotations

from typing import Any

from fgl_repro.runs.store import Source
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.common import decimal
from fgl_repro.tables.results import grid_text
from fgl_repro.tables.spec import TableSpec, spelled

GRAPHS = ("mended", "original")


def content(spec: TableSpec, protocol: str, source: Source) -> Content:
    """A line a cell: both distances and their ratio, ours and printed."""
    printed = reference.numbers(spec.option("reference"), "dataset", "n_clients", "variant")
    theirs = {(*place, graph.partition(" ")[0]): value for (*place, graph), value in printed.items()}
    rows: list[dict[str, Any]] = []
    body, wanted = [], len(spec.seeds)
    for cell in spec.cells():
        told = [
            distance[spec.option("nodes")]
            for record in common.recorded(spec, cell, protocol, source)
            if (distance := record.fact("distance")) is not None
        ]
        ours = {graph: common.stat([d[graph][0] for d in told]) for graph in GRAPHS}
        spread = {graph: common.stat([d[graph][1] for d in told]) for graph in GRAPHS}
        other = {graph: theirs.get((cell.dataset, cell.clients, graph)) for graph in GRAPHS}
        own = {graph: None if value is None else value.mean for graph, value in ours.items()}
        row = common.head(spec, protocol, cell)
        for graph in GRAPHS:
            within = spread[graph]
            row |= {graph: decimal(own[graph], 6), f"{graph}_std": decimal(within.mean if within else None, 6)}
            row[f"paper_{graph}"] = decimal(other[graph], 4)
        row |= {"ratio": decimal(_ratio(own), 4), "paper_ratio": decimal(_ratio(other), 4)}
        rows.append(row | {"n_seeds": len(told), "wanted": wanted})
        shown = [decimal(side[graph], 4) for side in (own, other) for graph in GRAPHS]
        shares = [decimal(_ratio(side), 2) for side in (own, other)]
        seeds = f"{len(told)} of {wanted}"
        body.append([spelled(cell.dataset), cell.clients, cell.row.label, *shown, *shares, seeds])
    heads = ["data set", "owners", "method", "mended", "original", "mended, paper", "original, paper"]
    heads += ["mended / original", "paper", "seeds"]
    return Content(rows, grid_text(heads, body, numbers_from=3), sum(r["n_seeds"] == wanted for r in rows), len(rows))


def _ratio(values: dict[str, float | None]) -> float | None:
    mended, original = values["mended"], values["original"]
    return mended / original if mended is not None and original else None
