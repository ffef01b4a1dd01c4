"""Sizes of the data sets: the whole graph, its largest component, and what is printed (FedLoG's Table 10).

``options.column`` and ``options.value`` name the columns of the reference that hold quantity and number, if not
``split`` and ``count``; ``options.prefix`` is what its quantities begin with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fgl_repro.data.catalog import facts, printed_as
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import spelled
from fgl_repro.tables.kinds import common
from fgl_repro.tables.printing import decimal
from fgl_repro.tables.spec import TableSpec

QUANTITIES = ("nodes", "edges", "features", "classes")


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid: data sets down; per quantity the printed number, the whole graph's, the largest component's."""
    options, prefix = spec.options, str(spec.options.get("prefix", ""))
    columns = "dataset", str(options.get("column", "split"))
    paper = reference.numbers(spec.printed_file, *columns, value=str(options.get("value", "count")))
    rows: list[dict[str, Any]] = []
    body = []
    for dataset in spec.datasets:
        whole, component = whole_graph(dataset), largest_component(spec, dataset, protocol)
        words = [spelled(dataset)]
        for quantity in QUANTITIES:
            printed = paper.get((printed_as(dataset).lower(), prefix + quantity))
            found = {"whole": whole[quantity], "component": component.get(quantity)}
            texts = [decimal(value, 0) for value in (printed, *found.values())]
            row = common.data_head(spec, protocol, dataset) | {"quantity": quantity}
            row |= dict(zip(("printed", "whole_graph", "largest_component"), texts, strict=True))
            same = [name for name, value in found.items() if printed is not None and value == printed]
            rows.append(row | {"equal": " ".join(same)})
            words += texts
        body.append(words)
    heads = ["data set", *(f"{q}, {which}" for q in QUANTITIES for which in ("printed", "whole", "component"))]
    met = sum("whole" in row["equal"] for row in rows)
    tally = f"{met} of {len(rows)} printed numbers are those of the whole graph."
    done = sum(row["largest_component"] != "" for row in rows)
    body_text = "\n\n".join([common.grid(spec, heads, body), *([tally] if spec.printed_file else [])])
    return Content(rows, body_text, done, len(rows))


def whole_graph(dataset: str) -> dict[str, int]:
    """Count the graph as its files hold it; half the directed edges, which may be counted twice there."""
    known = facts(dataset)
    sizes = {"nodes": known.full_nodes, "edges": known.full_edges // 2}
    return sizes | {"features": known.features, "classes": known.classes}


def largest_component(spec: TableSpec, dataset: str, protocol: str) -> dict[str, int]:
    """Load and count the graph that runs use; empty where it cannot be had."""
    config = common.example(spec, dataset, spec.clients[0], protocol)
    graph = common.graph_of(replace(config.dataset, component="largest"), config.paths.cache)
    return {} if graph is None else graph.sizes
