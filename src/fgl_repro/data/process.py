"""From raw files to a cached ``Graph``: symmetrise, largest connected component, feature form, fingerprint, cache."""

from __future__ import annotations

import io
import json
import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from fgl_repro.core.errors import UserError
from fgl_repro.data import download as files
from fgl_repro.data.catalog import NAMES, Facts, facts
from fgl_repro.data.graph import Graph, induced
from fgl_repro.data.sources.source import RawGraph, of_pyg

UNREADABLE = (OSError, zipfile.BadZipFile, zlib.error)
CACHE_VERSION = 1  # raise by hand when the processing or the cache's layout changes


class Processed(Protocol):
    """What is asked of a data set in one of its forms, see :class:`fgl_repro.data.dataset.Dataset`."""

    name: ClassVar[str]
    features: str
    component: str

    @property
    def form(self) -> str:
        """Both in a word."""

    def raw(self, cache: Path) -> Any:
        """The whole graph as it comes."""


def load(dataset: Processed, cache: Path) -> Graph:
    """Processed graph from the cache, built first if it is not there, cannot be read or is not what it should be."""
    path = cache_path(dataset, cache)
    known, pin = facts(dataset.name).fingerprint.get(dataset.form) if dataset.name in NAMES else None, pinned(path)
    expected = known or pin.get("fingerprint")
    graph = read_cache(path, dataset.name)
    if graph is not None and not trusted(graph, expected, dataset, pin):
        print(f"{path} does not hold the {dataset.name} it should: built again from the raw files.", file=sys.stderr)
        graph = None
    if graph is None:
        graph = build(dataset, cache)
        if expected is not None and graph.fingerprint != expected:
            raise UserError(
                f"{dataset.name} ({dataset.form}) has fingerprint {graph.fingerprint[:12]}..., expected "
                f"{expected[:12]}...: if it was changed on purpose, raise its revision and delete {pin_path(path)}"
            )
        write_cache(path, graph)
    if expected is None:
        sizes = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
        learned = {"fingerprint": graph.fingerprint, **sizes, "classes": graph.num_classes}
        files.write(pin_path(path), (json.dumps(learned, indent=1) + "\n").encode())
    return graph


def cache_path(dataset: Processed, cache: Path) -> Path:
    """File of the processed graph."""
    return cache / "graphs" / f"{dataset.name}-{dataset.form}-v{CACHE_VERSION}.npz"


def pin_path(path: Path) -> Path:
    """File beside a processed graph that says what it was at first load; only where nobody has published that."""
    return path.with_suffix(".json")


def pinned(path: Path) -> dict[str, Any]:
    """Fingerprint and sizes at first load; empty before that, or where the file is damaged."""
    try:
        found = json.loads(pin_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("fingerprint"), str) else {}


def trusted(graph: Graph, expected: str | None, dataset: Processed, pin: Mapping[str, Any]) -> bool:
    """Whether a cached graph has the expected fingerprint or, where there is none, the sizes that are known.

    The numbers of features and classes, which no fingerprint counts, must be the published or the pinned ones.
    """
    known = facts(dataset.name) if dataset.name in NAMES else None
    wide = {"features": graph.num_features, "classes": graph.num_classes}
    if any(size != (getattr(known, name) if known else pin.get(name, size)) for name, size in wide.items()):
        return False
    if expected is not None or known is None:
        return expected in (None, graph.fingerprint)
    if dataset.component == "whole":
        return graph.num_nodes == known.full_nodes
    return (graph.num_nodes, graph.num_edges) == (known.nodes, known.edges)


def build(dataset: Processed, cache: Path) -> Graph:
    """Graph from the raw files, past the cache of processed graphs.

    Raises:
        UserError: The contents are not the published graph's.
    """
    raw = of_pyg(dataset.name, dataset.raw(cache))
    whole = whole_graph(dataset.name, raw)
    graph = largest_component(whole)
    wrong = difference(raw, graph, facts(dataset.name)) if dataset.name in NAMES else ""
    if wrong:
        raise UserError(
            f"{raw.origin} does not hold the published {dataset.name} ({wrong}): replace its files with the originals, "
            "or remove them to download them again"
        )
    graph = whole if dataset.component == "whole" else graph
    return graph if dataset.features == "raw" else row_normalised(graph)


def difference(raw: RawGraph, graph: Graph, known: Facts) -> str:
    """What tells a graph's largest component from the published one; its sizes alone where no fingerprint is known."""
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
    return ", ".join(f"{found} {what}, expected {size}" for what, (found, size) in sizes.items() if found != size)


def whole_graph(name: str, raw: RawGraph) -> Graph:
    """Undirected graph without self-loops, every node of the files in it."""
    n = raw.labels.shape[0]
    source, target = raw.edges[:, raw.edges[0] != raw.edges[1]]
    directed = sp.csr_matrix((np.ones(source.shape[0], dtype=np.float32), (source, target)), shape=(n, n))
    adjacency = _canonical(directed + directed.T)
    adjacency.data[:] = 1.0
    return Graph(name, _canonical(raw.features), adjacency, raw.labels, raw.num_classes, np.arange(n, dtype=np.int32))


def largest_component(whole: Graph) -> Graph:
    """The part of a graph that is its largest connected component, nodes in ascending raw id."""
    _, component = connected_components(whole.adjacency, directed=False)
    nodes = np.flatnonzero(component == np.bincount(component).argmax())
    return Graph(
        name=whole.name,
        features=_canonical(whole.features[nodes]),
        adjacency=_canonical(induced(whole.adjacency, nodes)),
        labels=whole.labels[nodes],
        num_classes=whole.num_classes,
        original_id=nodes.astype(np.int32),
    )


def row_normalised(graph: Graph) -> Graph:
    """FED-PUB's normalisation: ``x <- (x - min x) / max(1, sum_j x_ij)``, the minimum taken over the whole matrix.

    Sums are taken in float64, so that the result does not hang on the order of summation.
    """
    x = graph.features
    full = x.nnz == x.shape[0] * x.shape[1]
    low = float(x.data.min()) if full else min(0.0, float(x.data.min(initial=0.0)))
    shifted = x.astype(np.float64) if low == 0.0 else sp.csr_matrix(x.toarray().astype(np.float64) - low)
    total = np.maximum(np.asarray(shifted.sum(axis=1)).ravel(), 1.0)
    shifted.data /= np.repeat(total, np.diff(shifted.indptr))
    return Graph(
        name=graph.name,
        features=_canonical(shifted),
        adjacency=graph.adjacency,
        labels=graph.labels,
        num_classes=graph.num_classes,
        original_id=graph.original_id,
    )


def write_cache(path: Path, graph: Graph) -> None:
    """Write the arrays of ``graph`` as one uncompressed ``.npz`` without pickles, whole or not at all."""
    buffer = io.BytesIO()
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
    files.write(path, buffer.getvalue())


def read_cache(path: Path, name: str) -> Graph | None:
    """Cached graph, or None if the file is missing, truncated or damaged (the archive's CRC-32)."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            graph = _from_arrays(name, {key: stored[key] for key in stored.files})
            return graph if graph.fingerprint else None  # arrays of another type or shape have none
    except (*UNREADABLE, AttributeError, EOFError, IndexError, KeyError, NotImplementedError, TypeError, ValueError):
        return None


def _from_arrays(name: str, arrays: dict[str, np.ndarray]) -> Graph:
    n = arrays["labels"].shape[0]
    indices = arrays["adjacency_indices"]
    features = (arrays["features_data"], arrays["features_indices"], arrays["features_indptr"])
    return Graph(
        name=name,
        features=sp.csr_matrix(features, shape=(n, int(arrays["num_features"]))),
        adjacency=sp.csr_matrix(
            (np.ones(indices.shape[0], dtype=np.float32), indices, arrays["adjacency_indptr"]), shape=(n, n)
        ),
        labels=arrays["labels"],
        num_classes=int(arrays["num_classes"]),
        original_id=arrays["original_id"],
    )


def _canonical(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """The one CSR form of a matrix: float32, 32-bit indices, ascending, no duplicates, no stored zeros."""
    result = sp.csr_matrix(matrix, dtype=np.float32, copy=True)
    result.sum_duplicates()
    result.eliminate_zeros()
    result.sort_indices()
    result.indices = result.indices.astype(np.int32, copy=False)
    result.indptr = result.indptr.astype(np.int32, copy=False)
    return result
