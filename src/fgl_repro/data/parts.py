"""What a data set consists of: of a graph its classes, of a set of graphs its environments."""

from __future__ import annotations

import numpy as np

from fgl_repro.data.graph import Graph
from fgl_repro.data.graphset import GraphSet


def parts(graph: Graph) -> list[dict[str, int | float]]:
    """Return a line for each part, by what its columns are called: counts as int, means and shares as float.

    A class of a graph has its nodes, their share and their mean degree. An environment of a set has its graphs, their
    mean nodes and edges, and the share of each class or, where a number is to be predicted, its mean.
    """
    return environments(graph) if isinstance(graph, GraphSet) else classes(graph)


def classes(graph: Graph) -> list[dict[str, int | float]]:
    """Return a line for each class of a graph."""
    counts = np.bincount(graph.labels, minlength=graph.num_classes)
    ends = np.bincount(graph.labels, graph.degree, graph.num_classes)
    return [
        {"class": c, "nodes": int(n), "share": float(n / graph.num_nodes), "degree": float(sum_ / max(n, 1))}
        for c, (n, sum_) in enumerate(zip(counts, ends, strict=True))
    ]


def environments(graphs: GraphSet) -> list[dict[str, int | float]]:
    """Return a line for each environment of a set of graphs."""
    nodes = np.diff(graphs.ptr)
    edges = np.diff(graphs.links.indptr[graphs.ptr]) / 2
    found: list[dict[str, int | float]] = []
    for number in range(graphs.num_environments):
        own = graphs.environment == number
        line: dict[str, int | float] = {"environment": number, "graphs": int(own.sum())}
        line |= {"nodes": float(nodes[own].mean()), "edges": float(edges[own].mean())}
        if graphs.targets is not None:
            line["target"] = float(graphs.targets[own].mean())
        else:
            line |= {f"class {c}": float((graphs.labels[own] == c).mean()) for c in range(graphs.num_classes)}
        found.append(line)
    return found
