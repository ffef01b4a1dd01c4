"""From raw arrays to a ``Graph``, and to its file: symmetrise, largest connected component, feature form."""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from fgl_repro.core.errors import UserError
from fgl_repro.core.files import write_atomic
from fgl_repro.data import compact
from fgl_repro.data.catalog import Facts
from fgl_repro.data.graph import Graph
from fgl_repro.data.graphset import GraphSet
from fgl_repro.data.sources.source import RawGraph

_NO_ARCHIVE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)
_NO_GRAPH = (AttributeError, LookupError, TypeError, ValueError, UserError)


def difference(raw: RawGraph, graph: Graph, known: Facts) -> str:
    """Tell in what a graph's largest component differs from the published one.

    Where no fingerprint is known, its sizes alone tell.
    """
    expected = known.fingerprint.get("raw")
    if expected is not None:
        same = graph.fingerprint == expected
        return "" if same else f"contents {graph.fingerprint[:12]}..., expected {expected[:12]}..."
    sizes = {
        "nodes": (raw.labels.shape[0], known.full_nodes),
        "directed edges": (raw.edges.shape[1], known.full_edges),
        "features": (graph.num_features, known.features),
        "classes": (graph.num_classes, known.classes),
        "nodes of the largest component": (graph.num_nodes, known.nodes),
        "undirected edges of it": (graph.num_edges, known.edges),
    }
    known_sizes = {what: both for what, both in sizes.items() if both[1]}  # the component's may not be known
    return ", ".join(f"{found} {what}, expected {size}" for what, (found, size) in known_sizes.items() if found != size)


def whole_graph(name: str, raw: RawGraph) -> Graph:
    """Build the undirected graph without self-loops, every node of the files in it."""
    n = raw.labels.shape[0]
    source, target = raw.edges[:, raw.edges[0] != raw.edges[1]]
    directed = sp.csr_matrix((np.ones(source.shape[0], dtype=np.float32), (source, target)), shape=(n, n))
    adjacency = _canonical(directed + directed.T)
    adjacency.data[:] = 1.0
    return Graph(name, _canonical(raw.features), adjacency, raw.labels, raw.num_classes, np.arange(n, dtype=np.int32))


def largest_component(whole: Graph) -> Graph:
    """Cut out the part of a graph that is its largest connected component, nodes in ascending raw id."""
    _, component = connected_components(whole.adjacency, directed=False)
    nodes = np.flatnonzero(component == np.bincount(component).argmax())
    part = whole.subgraph(nodes)
    return replace(part, features=_canonical(part.features), adjacency=_canonical(part.adjacency))


def featured(whole: Graph) -> Graph:
    """Return a graph without the nodes whose features are all zero."""
    return whole.subgraph(np.flatnonzero(np.diff(whole.features.indptr)))


def row_normalised(graph: Graph) -> Graph:
    """Normalise features as FED-PUB does: ``x <- (x - min x) / max(1, sum_j x_ij)``.

    The minimum is taken over the whole matrix. Sums are taken in float64, so that the result does not hang on the order
    of summation.
    """
    x = graph.features
    full = x.nnz == x.shape[0] * x.shape[1]
    low = float(x.data.min()) if full else min(0.0, float(x.data.min(initial=0.0)))
    shifted = x.astype(np.float64) if low == 0.0 else sp.csr_matrix(x.toarray().astype(np.float64) - low)
    total = np.maximum(np.asarray(shifted.sum(axis=1)).ravel(), 1.0)
    shifted.data /= np.repeat(total, np.diff(shifted.indptr))
    return replace(graph, features=_canonical(shifted))


def write_cache(path: Path, graph: Graph) -> None:
    """Write the arrays of ``graph`` as one uncompressed ``.npz`` without pickles, whole or not at all."""
    buffer = io.BytesIO()
    if isinstance(graph, GraphSet):
        np.savez(buffer, allow_pickle=False, **compact.pack(graph))
        write_atomic(path, buffer.getvalue())
        return
    np.savez(
        buffer,
        num_classes=np.int64(graph.num_classes),
        num_features=np.int64(graph.num_features),
        original_id=graph.original_id.astype(np.int32),
        labels=graph.labels.astype(np.int64),
        adjacency_indptr=graph.adjacency.indptr,
        adjacency_indices=graph.adjacency.indices,
        features_indptr=graph.features.indptr,
        features_indices=graph.features.indices,
        features_data=graph.features.data,
    )
    write_atomic(path, buffer.getvalue())


def read_cache(path: Path, name: str) -> Graph | None:
    """Read a cached graph, or None if the file is missing, truncated or damaged (the archive's CRC-32)."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = dict(stored)
        if "sizes" in arrays:
            graphs = compact.unpack(name, arrays)
            return graphs if graphs.fingerprint else None
        n, indices = len(arrays["labels"]), arrays["adjacency_indices"]
        ones = np.ones(len(indices), dtype=np.float32)
        words = (arrays["features_data"], arrays["features_indices"], arrays["features_indptr"])
        graph = Graph(
            name=name,
            features=sp.csr_matrix(words, shape=(n, int(arrays["num_features"]))),
            adjacency=sp.csr_matrix((ones, indices, arrays["adjacency_indptr"]), shape=(n, n)),
            labels=arrays["labels"],
            num_classes=int(arrays["num_classes"]),
            original_id=arrays["original_id"],
        )
        return graph if graph.fingerprint else None  # arrays of another type or shape have none
    except (*_NO_ARCHIVE, *_NO_GRAPH):
        return None


def _canonical(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Bring a matrix into its one CSR form.

    That is float32, 32-bit indices, ascending, no duplicates, no stored zeros.
    """
    result = sp.csr_matrix(matrix, dtype=np.float32, copy=True)
    result.sum_duplicates()
    result.eliminate_zeros()
    result.sort_indices()
    result.indices = result.indices.astype(np.int32, copy=False)
    result.indptr = result.indptr.astype(np.int32, copy=False)
    return result
