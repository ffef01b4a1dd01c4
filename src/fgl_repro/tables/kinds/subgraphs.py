"""Sizes, clustering and label differences of the parts that clients get, and of the graph (FED-PUB's Table 1).

``options.scenarios`` are divisions by name, each with its ``partitioner`` and the numbers of ``clients``.
"""

from __future__ import annotations

import math

import numpy as np

from fgl_repro.core.registry import option
from fgl_repro.data.catalog import printed_as
from fgl_repro.data.graph import Graph
from fgl_repro.fl.metrics import jensen_shannon
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import spelled
from fgl_repro.tables.kinds import common
from fgl_repro.tables.printing import decimal
from fgl_repro.tables.spec import TableSpec

DIGITS = {"nodes": 0, "edges": 0, "clustering_coefficient": 3, "heterogeneity": 3, "classes": 0}


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid a scenario: data sets and client counts down, quantities across, ours and printed."""
    paper = reference.numbers(spec.printed_file, "dataset", "scenario", "n_clients", "metric")
    rows, grids, summary = [], [], []
    absent = [name for name in spec.datasets if common.graph_for(common.example(spec, name, 1, protocol)) is None]
    blank = [f"{spelled(name)} is left blank: no raw files (`fgl-data check {name}` says why)." for name in absent]
    for scenario, drawn in spec.option("scenarios").items():
        body: list[list[object]] = []
        same = dict.fromkeys(DIGITS, (0, 0))
        for dataset in spec.datasets:
            for clients in (0, *drawn["clients"]):
                ours = statistics(spec, dataset, str(drawn["partitioner"]), int(clients), protocol)
                line: list[object] = []
                for quantity, digits in DIGITS.items():
                    theirs = paper.get((printed_as(dataset).lower(), scenario, int(clients), quantity))
                    text = [_rounded(value, digits) for value in (ours.get(quantity), theirs)]
                    row = common.data_head(spec, protocol, dataset) | {"scenario": scenario}
                    row |= {"clients": clients or "", "quantity": quantity}
                    both, met = "" not in text, text[0] == text[1]
                    rows.append(row | {"value": text[0], "printed": text[1], "equal": int(met) if both else ""})
                    same[quantity] = (same[quantity][0] + (both and met), same[quantity][1] + both)
                    line += text
                body.append([spelled(dataset), str(clients or "whole"), *line])
        tally = ", ".join(f"{name.replace('_', ' ')} {n} of {of}" for name, (n, of) in same.items())
        title = scenario.replace("_", "-").capitalize()
        told = [f"{title}, printed numbers that are met to the digit: {tally}."] if spec.printed_file else []
        summary += told
        heads = ["data set", "clients", *(h for q in DIGITS for h in (q.replace("_", " "), "paper"))]
        grids += [f"### {title}", *told, common.grid(spec, heads, body)]
    done = sum(row["value"] != "" for row in rows)
    return Content(rows, "\n\n".join(blank + grids), done, len(rows), "\n\n".join(blank + summary))


def _rounded(value: float | None, digits: int) -> str:
    """Round as the paper does: halves up."""
    return decimal(None if value is None else math.floor(value * 10**digits + 0.5) / 10**digits, digits)


def statistics(spec: TableSpec, dataset: str, partitioner: str, clients: int, protocol: str) -> dict[str, float]:
    """Compute means over clients, or the whole graph's numbers for 0 clients; empty where the graph cannot be had."""
    config = common.example(spec, dataset, clients or 1, protocol)
    graph = common.graph_for(config)
    if graph is None:
        return {}
    return common.kept(
        config,
        graph,
        f"statistics of {clients} parts by {partitioner}",
        lambda: _statistics(graph, partitioner, clients, config.protocol.split_seed),
    )


def _statistics(graph: Graph, partitioner: str, clients: int, seed: int) -> dict[str, float]:
    if not clients:
        sizes = {"nodes": graph.num_nodes, "edges": 2 * graph.num_edges, "classes": graph.num_classes}
        return sizes | {"clustering_coefficient": clustering(graph)}
    members = option("partitioner", partitioner)(clients).divide(graph, clients, seed)
    parts = [graph.subgraph(own) for own in members.nodes]
    counts = np.array([np.bincount(part.labels, minlength=graph.num_classes) for part in parts])
    distance = np.sqrt(math.log(2) * jensen_shannon(counts).clip(0))
    found = {"nodes": [part.num_nodes for part in parts], "edges": [2 * part.num_edges for part in parts]}
    means = {name: float(np.mean(values)) for name, values in found.items()}
    means |= {"clustering_coefficient": float(np.mean([clustering(part) for part in parts]))}
    return means | {"heterogeneity": float(np.median(distance))}


def clustering(graph: Graph, block: int = 1000) -> float:
    """Average over nodes the share of pairs of neighbours that are joined, 0 with fewer than two (Watts & Strogatz)."""
    adjacency = graph.adjacency
    closed = [
        np.asarray((adjacency[k : k + block] @ adjacency).multiply(adjacency[k : k + block]).sum(1)).ravel()
        for k in range(0, graph.num_nodes, block)
    ]
    degree = np.diff(adjacency.indptr).astype(float)
    share: np.ndarray = np.concatenate(closed) / np.maximum(degree * (degree - 1), 1)
    return float(share.mean())
