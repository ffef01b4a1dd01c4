"""Whether a data set of graphs of one's own holds what a :class:`GraphSet` promises; each fault is one sentence.

Wrong contents would not stop a run: a link that leads into the next graph is a link like any other there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import sparse as sp
from fgl_repro.data.graphset import GraphSet


def check(graphs: GraphSet) -> None:
    """Refuse ``graphs`` with the first thing that is wrong with them.

    Raises:
        UserError: Something is.
    """
    for faults in (_matrices, _nodes, _links, _categories, _answers):
        for fault in faults(graphs):
            raise UserError(f"the data set {graphs.name}: {fault}.")


def _matrices(graphs: GraphSet) -> Iterator[str]:
    nodes = int(graphs.ptr[-1])
    for what, matrix in (("inner", graphs.inner), ("links", graphs.links)):
        yield from of_matrix(what, matrix)
        if matrix.shape[0] != nodes:
            yield f"{what} has {matrix.shape[0]} rows for {nodes} nodes: give one for each node, graph after graph"
        if not matrix.has_canonical_format:
            yield f"{what} has columns twice or out of order: call {what}.sum_duplicates()"


def of_matrix(what: str, matrix: Any) -> Iterator[str]:
    """Tell what keeps ``matrix``, which its owner calls ``what``, from being a CSR matrix of float32."""
    if not isinstance(matrix, sp.csr_matrix) or matrix.dtype != np.float32:
        found = f"{type(matrix).__name__} of {getattr(matrix, 'dtype', 'something')}"
        yield f"{what} is a {found}: give scipy.sparse.csr_matrix({what}, dtype=numpy.float32)"
    try:
        matrix.check_format()
    except ValueError as error:
        yield f"{what} is no matrix ({error}): give it columns that exist"


def _nodes(graphs: GraphSet) -> Iterator[str]:
    sizes = np.diff(graphs.ptr)
    if graphs.ptr[0] != 0 or sizes.min() < 0:
        yield "ptr must begin with 0 and ascend: give the first node of each graph, and the number of all nodes"
    if not sizes.all():
        yield f"graph {sizes.argmin()} has no node: leave it out"
    if not graphs.inner.shape[1]:
        yield "inner has no columns: give each node a feature, such as a 1"
    if not np.isfinite(graphs.inner.data).all():
        yield "inner has values that are no finite number: replace them"


def _links(graphs: GraphSet) -> Iterator[str]:
    links, sizes = graphs.links, np.diff(graphs.ptr)
    if links.shape[1] != links.shape[0]:
        yield f"links has {links.shape[1]} columns for {links.shape[0]} nodes: give one for each node"
    if (links.data != 1).any():
        yield "links has values other than 1: what tells links apart belongs into bonds"
    graph = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    out = np.repeat(graph, np.diff(links.indptr)) != graph[links.indices]
    if out.any():
        row = np.searchsorted(links.indptr, out.argmax(), side="right") - 1
        yield f"a link leads out of graph {graph[row]}: its ends must be nodes of one graph"
    if links.diagonal().any():
        yield f"node {links.diagonal().argmax()} links to itself: leave such links out"
    back = links.T.tocsr()
    if not (np.array_equal(back.indptr, links.indptr) and np.array_equal(back.indices, links.indices)):
        yield "links go in one direction only: give each in both, as in links.maximum(links.T)"


def _categories(graphs: GraphSet) -> Iterator[str]:
    inner, fields = graphs.inner, graphs.fields
    if fields:
        if (inner.data != 1).any():
            yield "inner has values other than 1 though fields says that they are categories: leave fields out"
        blocks = np.repeat(np.arange(len(fields)), fields)
        one_each = len(blocks) == inner.shape[1] and inner.nnz == inner.shape[0] * len(fields)
        if not one_each or (blocks[inner.indices].reshape(-1, len(fields)) != np.arange(len(fields))).any():
            yield f"inner must have a 1 in each of the {len(fields)} blocks of columns that fields tells of"
    bonds, kinds = graphs.bonds, graphs.bond_fields
    if bonds is None:
        return
    if bonds.dtype != np.uint8 or bonds.shape != (graphs.links.nnz, len(kinds)):
        yield f"bonds must be uint8 [{graphs.links.nnz}, {len(kinds)}]: a row a link, in their order, a column a field"
    if (bonds >= np.array(kinds)).any():
        yield f"bonds has values that bond_fields={kinds} does not: they count from 0"


def _answers(graphs: GraphSet) -> Iterator[str]:
    classes, low, high = graphs.num_classes, graphs.labels.min(), graphs.labels.max()
    if graphs.targets is not None:
        if classes != 1 or high or low:
            yield "it has both classes and targets: give one of them"
        if not np.isfinite(graphs.targets).all():
            yield "targets has values that are no finite number: leave such graphs out"
    elif low < 0 or high >= classes:
        yield f"labels go from {low} to {high} with num_classes={classes}: count classes from 0, and all of them"
    elif classes > graphs.num_nodes:
        yield f"it has {classes} classes for {graphs.num_nodes} graphs: number them 0, 1, 2, ..."
    elif classes < 2:
        yield "of one class there is nothing to learn: give labels of two or more, or targets"
