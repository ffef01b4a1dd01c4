"""A data set of graphs as a few narrow arrays, for its file: nodes count from 0 in each graph, categories are codes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fgl_repro.core.lazy import sparse as sp
from fgl_repro.data.graphset import GraphSet


def pack(graphs: GraphSet) -> dict[str, np.ndarray]:
    """Make arrays from which :func:`unpack` makes ``graphs`` again; what it lacks is left out."""
    sizes, degrees = np.diff(graphs.ptr), np.diff(graphs.links.indptr)
    neighbours = graphs.links.indices - np.repeat(_starts(graphs.ptr), degrees)
    arrays: dict[str, np.ndarray] = {
        "num_classes": np.array(graphs.num_classes),
        "num_features": np.array(graphs.num_features),
        "labels": narrow(graphs.labels),
        "environment": narrow(graphs.environment),
        "sizes": narrow(sizes),
        "degrees": narrow(degrees),
        "neighbours": narrow(neighbours),
        "fields": np.array(graphs.fields, dtype=np.int64),
        "bond_fields": np.array(graphs.bond_fields, dtype=np.int64),
    }
    if graphs.fields:
        codes = graphs.inner.indices.reshape(-1, len(graphs.fields)) - _blocks(graphs.fields)
        arrays["codes"] = narrow(codes)
    else:
        arrays["values"] = graphs.inner.data
    if not graphs.fields and graphs.inner.nnz < np.prod(graphs.inner.shape):  # else all values are there, row by row
        arrays["words"] = narrow(np.diff(graphs.inner.indptr))
        arrays["columns"] = narrow(graphs.inner.indices)
    arrays |= {} if graphs.targets is None else {"targets": graphs.targets}
    return arrays | ({} if graphs.bonds is None else {"bonds": graphs.bonds})


def unpack(name: str, arrays: Mapping[str, np.ndarray]) -> GraphSet:
    """Rebuild the data set called ``name`` from what :func:`pack` made of it."""
    ptr = _sums(arrays["sizes"], np.int64)
    nodes = int(ptr[-1])
    neighbours = np.repeat(_starts(ptr), arrays["degrees"])
    neighbours += arrays["neighbours"]
    fields = tuple(arrays["fields"].tolist())
    if fields:
        columns = (arrays["codes"] + _blocks(fields)).ravel()
        starts = np.arange(nodes + 1, dtype=np.int32) * np.int32(len(fields))
        inner = (np.ones(len(columns), np.float32), columns, starts)
    elif "columns" in arrays:
        inner = (arrays["values"], arrays["columns"].astype(np.int32), _sums(arrays["words"], np.int32))
    else:
        width = np.int32(arrays["num_features"])
        columns = np.tile(np.arange(width, dtype=np.int32), nodes)
        inner = (arrays["values"], columns, np.arange(nodes + 1, dtype=np.int32) * width)
    links = (np.ones(len(neighbours), np.float32), neighbours, _sums(arrays["degrees"], np.int32))
    return GraphSet.of(
        name,
        ptr,
        sp.csr_matrix(inner, shape=(nodes, int(arrays["num_features"]))),
        sp.csr_matrix(links, shape=(nodes, nodes)),
        arrays["environment"],
        labels=arrays["labels"],
        num_classes=int(arrays["num_classes"]),
        targets=arrays.get("targets"),
        fields=fields,
        bonds=arrays.get("bonds"),
        bond_fields=tuple(arrays["bond_fields"].tolist()),
    )


def narrow(values: np.ndarray) -> np.ndarray:
    """Convert whole numbers from 0 to the narrowest type that holds them."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _starts(ptr: np.ndarray) -> np.ndarray:
    """Find the first node of the graph that each node belongs to, int32 ``[M]``."""
    return np.repeat(ptr[:-1].astype(np.int32), np.diff(ptr))


def _blocks(fields: tuple[int, ...]) -> np.ndarray:
    """Find the first column of each category, int32 ``[F]``."""
    return np.concatenate([[0], np.cumsum(fields)[:-1]]).astype(np.int32)


def _sums(counts: np.ndarray, dtype: type[np.signedinteger]) -> np.ndarray:
    out = np.zeros(len(counts) + 1, dtype=dtype)
    np.cumsum(counts, out=out[1:])
    return out
