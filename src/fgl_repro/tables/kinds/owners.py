"""Sizes of the graphs and of what owners hold of them, beside the printed ones (FedSage's Table 1). Needs no run.

``options``: ``reference``, printed numbers.
"""

from __future__ import annotations

from typing import Any

from fgl_repro.runs.store import RunSource
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import spelled
from fgl_repro.tables.kinds import common
from fgl_repro.tables.printing import decimal
from fgl_repro.tables.spec import TableSpec

GLOBAL = ("n_classes", "n_nodes", "n_edges")
OWNERS = ("avg_subgraph_nodes", "avg_subgraph_edges", "missing_cross_edges")


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill two grids: data sets and numbers of owners down; each quantity, ours and printed, across."""
    theirs = reference.numbers(spec.printed_file, "dataset", "n_clients", "metric")
    rows: list[dict[str, Any]] = []
    whole: list[list[object]] = []
    parts: list[list[object]] = []
    for dataset in spec.datasets:
        for clients in (0, *spec.clients):
            ours = counted(spec, dataset, clients, protocol)
            line: list[object] = [spelled(dataset), *([clients] if clients else [])]
            for name in OWNERS if clients else GLOBAL:
                value, other = ours.get(name), theirs.get((dataset, clients, name))
                line += [decimal(value, 0), decimal(other, 0)]
                row = common.data_head(spec, protocol, dataset) | {"clients": clients or "", "quantity": name}
                rows.append(row | {"value": decimal(value, 2), "printed": decimal(other, 0)})
            (parts if clients else whole).append(line)
    heads = [[x for name in names for x in (name.replace("_", " "), "paper")] for names in (GLOBAL, OWNERS)]
    grids = [
        common.grid(spec, ["data set", *heads[0]], whole),
        common.grid(spec, ["data set", "owners", *heads[1]], parts),
    ]
    return Content(rows, "\n\n".join(grids), sum(row["value"] != "" for row in rows), len(rows))


def counted(spec: TableSpec, dataset: str, clients: int, protocol: str) -> dict[str, float]:
    """Count the whole graph (no clients) or its owners, for the first seed; empty where the graph cannot be had."""
    config = common.example(spec, dataset, max(clients, 1), protocol)
    graph = common.graph_for(config)
    if graph is None:
        return {}
    if not clients:
        return {"n_classes": graph.num_classes, "n_nodes": graph.num_nodes, "n_edges": graph.num_edges}
    cut = common.kept(
        config, graph, "cut", lambda: int(config.partitioner.divide(graph, clients, config.split.seed).cut)
    )
    inside = (graph.num_edges - cut) / clients
    return {OWNERS[0]: graph.num_nodes / clients, OWNERS[1]: inside, OWNERS[2]: cut}
