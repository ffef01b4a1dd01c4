"""Views of tasks whose unit is a whole graph: what a network reads to predict some graphs of a union.

The graphs of all clients lie end to end without padding. A batch is cut out of them by index alone, cheap enough for
every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import offsets
from fgl_repro.data.graphset import GraphSet
from fgl_repro.nn.norm import Groups
from fgl_repro.nn.sparse import SparseOp, csr_tensor
from fgl_repro.nn.view import Linear, Padded, View

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.view import Views


@dataclass(frozen=True)
class Bonds:
    """The L stored links of a batch one by one, for networks that look at their categories.

    Attributes:
        codes: Categories as ones in blocks of columns, ``[L, B]``.
        ptr: Client k has the links ``ptr[k]:ptr[k + 1]``.
        pick: The neighbour at the end of each link, ``[L, n]``.
        collect: Sums over the links of each inner node, ``[n, L]``.
    """

    codes: Tensor
    ptr: list[int]
    pick: SparseOp
    collect: SparseOp


@dataclass(frozen=True)
class GraphsView(View):
    """What is inside the given rows, each of them a graph; R graphs with n inner nodes in all.

    Attributes:
        features: Of the inner nodes, ``[n, d]``.
        links: Sums over neighbours ``[n, n]``.
        outer: Sums over a graph's inner nodes, ``[K * r, n]``.
        inside: Inner nodes of each row, float ``[K, r]``; 1 where padded.
        ptr: Client k has the inner nodes ``ptr[k]:ptr[k + 1]``.
        rows: Units of the union in the order in which they lie here, int64 ``[R]``; ``slots`` is in ascending order.
        row_ptr: Client k has the graphs ``row_ptr[k]:row_ptr[k + 1]``.
        sizes: Inner nodes of each graph, int64 ``[R]``.
        groups: Inner nodes that share the statistics of a batch norm.
        batches: Graphs that do.
        targets: The number to predict for each row, ``[K, r]``, 0 where padded; None where it is a class.
        bonds: What tells links from each other; None where all are alike.
    """

    features: Tensor
    links: SparseOp
    inside: Tensor
    ptr: list[int]
    rows: np.ndarray
    row_ptr: list[int]
    sizes: np.ndarray
    groups: Groups
    batches: Groups
    targets: Tensor | None
    bonds: Bonds | None

    @property
    def numbers(self) -> Tensor | None:
        return self.targets

    def pooled(self, values: Tensor) -> Tensor:
        """Average over the inner nodes of each graph, ``[K, r, F]``, from values ``[n, F]``."""
        return self.totals(values) / self.inside.unsqueeze(2)

    def totals(self, values: Tensor) -> Tensor:
        """Sum over the inner nodes of each graph, ``[K, r, F]``, from values ``[n, F]``."""
        return self.outer(values).view(self.num_clients, -1, values.shape[1])

    @cached_property
    def padding(self) -> Padding:
        """Inner nodes laid out graph by graph."""
        return Padding(self.sizes, self.features.device)


class Padding:
    """Inner nodes of R graphs laid out graph by graph, ``[R, m]``, m being the largest graph's number of them.

    Args:
        sizes: Inner nodes of each graph, int64 ``[R]``.
    """

    def __init__(self, sizes: np.ndarray, device: torch.device) -> None:
        self.graphs, self.width = len(sizes), int(sizes.max(initial=1))
        slots = spans(np.arange(self.graphs) * self.width, sizes)
        self.slots = torch.from_numpy(slots).to(device)

    def spread(self, values: Tensor) -> Tensor:
        """Lay values of the nodes ``[n, F]`` out as ``[R, m, F]``, 0 where padded."""
        out: Tensor = _Moved.apply(values, self._spread, self._gather)  # type: ignore[no-untyped-call]
        return out

    def gather(self, values: Tensor) -> Tensor:
        """Gather values ``[R, m, F]`` of the nodes, ``[n, F]``."""
        out: Tensor = _Moved.apply(values, self._gather, self._spread)  # type: ignore[no-untyped-call]
        return out

    def _spread(self, values: Tensor) -> Tensor:
        out = values.new_zeros(self.graphs * self.width, values.shape[1])
        out[self.slots] = values
        return out.view(self.graphs, self.width, values.shape[1])

    def _gather(self, values: Tensor) -> Tensor:
        return values.flatten(0, 1).index_select(0, self.slots)


class _Moved(torch.autograd.Function):
    """Spreading or gathering; as no slot has two nodes, the gradient of either is the other."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, there: Linear, back: Linear) -> Tensor:
        ctx.back = back
        return there(values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(grad), None, None


@dataclass(frozen=True)
class Inside:
    """The insides of all graphs of a union, laid end to end in its order: M inner nodes, L stored links.

    Attributes:
        ptr: Graph u of the union has the nodes ``ptr[u]:ptr[u + 1]``, int64.
        features: ``[M, d]``.
        start: Node i has the links ``start[i]:start[i + 1]``, int64 ``[M + 1]``.
        to: Node inside the same graph, counted from its first one, that each link leads to, int64 ``[L]``.
        targets: Of each graph; or None.
        bonds: Of each link, ``[L, B]``; or None.
    """

    ptr: np.ndarray
    features: Tensor
    start: np.ndarray
    to: np.ndarray
    targets: np.ndarray | None
    bonds: Tensor | None

    @staticmethod
    def of(graph: UnionGraph, device: torch.device) -> Inside:
        """Take the insides out of the data set that ``graph`` is a union of."""
        base, units = graph.base, graph.node
        assert isinstance(base, GraphSet), "its nodes are no graphs"
        first = base.ptr[units]
        sizes = base.ptr[units + 1] - first
        nodes = spans(first, sizes)
        degree = np.diff(base.links.indptr)[nodes]
        links = spans(base.links.indptr[nodes].astype(np.int64), degree)
        to = base.links.indices[links] - np.repeat(np.repeat(first, sizes), degree)
        features = torch.from_numpy(base.inner[nodes].toarray()).to(device)
        bonds = None if base.bonds is None else one_hot(base.bonds[links], base.bond_fields).to(device)
        targets = None if base.targets is None else base.targets[units]
        return Inside(offsets(sizes), features, offsets(degree), to, targets, bonds)


def spans(first: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """List ``first[i], first[i] + 1, ...``, as many as ``lengths[i]``, for one i after the other; int64."""
    shift = np.repeat(first - offsets(lengths)[:-1], lengths)
    return shift + np.arange(len(shift))


def one_hot(codes: np.ndarray, widths: tuple[int, ...]) -> Tensor:
    """Turn codes ``[n, B]`` of B categories into ones in a block of columns each, float ``[n, sum of widths]``."""
    columns = codes.astype(np.int64) + offsets(np.array(widths))[:-1]
    return torch.zeros(len(codes), sum(widths)).scatter_(1, torch.from_numpy(columns), 1.0)


def norm_order(graph: UnionGraph, rows: np.ndarray, together: int) -> np.ndarray:
    """Order graphs so that those which share a batch norm are no more alike than their client's are, int64 ``[R]``.

    A data set of one's own may be sorted by class, and a client's environments lie one after the other: batches in that
    order would be of one class each, whose statistics hide it. Such graphs are laid out in an order drawn once for all.
    Those of one environment of a released data set lie in random order, and stay in it.

    Args:
        rows: Their numbers in the union, ascending.
        together: Graphs that share one; 0: all of a client.
    """
    base, owner, units = graph.base, graph.owner[rows], graph.node[rows]
    assert isinstance(base, GraphSet), "its nodes are no graphs"
    one_batch = not together or np.bincount(owner).max(initial=0) <= together
    mixed = ((np.diff(base.environment[units]) != 0) & (np.diff(owner) == 0)).any()
    if one_batch or (base.shuffled and not mixed):
        return np.arange(len(rows))
    drawn = numpy_rng("norm-order", 0).permutation(base.num_nodes)
    return np.lexsort((drawn[units], owner))


def of_graphs(views: Views, graph: UnionGraph, rows: np.ndarray, together: int) -> GraphsView:
    """Build the view of some graphs of a union.

    Args:
        rows: Their numbers in the union, ascending.
        together: Graphs of a client whose nodes share the statistics of a batch norm, ordered by ``norm_order``; the
            last such batch may be smaller, but no single graph. 0: all of them.
    """
    device = views.device
    order = norm_order(graph, rows, together)
    rows = rows[order]
    inside = views.once(graph, "inside", lambda: Inside.of(graph, device))
    first = inside.ptr[rows]
    sizes = inside.ptr[rows + 1] - first
    nodes, place = spans(first, sizes), offsets(sizes)
    degree = (inside.start[nodes + 1] - inside.start[nodes]).astype(np.int64)
    taken = spans(inside.start[nodes], degree)
    start = np.repeat(place[:-1], sizes)
    to = inside.to[taken] + np.repeat(start, degree)
    adjacency = csr_tensor(matrix(offsets(degree), to, len(nodes)), device)
    padded, owner = Padded.of(rows, graph), graph.owner[rows]
    row = np.repeat(np.arange(len(rows)), sizes)
    slot = np.repeat(padded.slot, sizes)
    ones = np.ones(len(nodes), np.float32)
    readout = sp.csr_matrix((ones, (slot, np.arange(len(nodes)))), shape=(padded.size, len(nodes)))
    held = np.bincount(owner, minlength=graph.num_clients)
    batch = (np.arange(len(rows)) - np.repeat(offsets(held)[:-1], held)) // (together or len(rows) + 1)
    if together > 1:  # a graph alone has no spread, and would be predicted without being looked at
        batch = np.minimum(batch, np.repeat(np.maximum(held - 2, 0) // together, held))
    _, begins = np.unique(np.stack([owner, batch]), axis=1, return_index=True)
    bonds = None
    if inside.bonds is not None:
        codes = inside.bonds[torch.from_numpy(taken).to(device)]
        pick, collect = (
            matrix(np.arange(len(to) + 1), to, len(nodes)),
            matrix(offsets(degree), np.arange(len(to)), len(to)),
        )
        of_owner = offsets(np.bincount(owner[row], degree, graph.num_clients))
        bonds = Bonds(codes, of_owner.tolist(), SparseOp.of(pick, device), SparseOp.of(collect, device))
    tensors: dict[str, Any] = dict(padded.tensors(graph, device))
    tensors["slots"] = tensors["slots"][torch.from_numpy(np.argsort(order)).to(device)]
    return GraphsView(
        dense=None,
        sparse=None,
        inner=None,
        outer=SparseOp.of(readout, device),
        features=inside.features.index_select(0, torch.from_numpy(nodes).to(device)),
        links=SparseOp(adjacency, adjacency, ones=True),
        inside=torch.from_numpy(np.maximum(padded.scatter(sizes), 1).astype(np.float32)).to(device),
        ptr=offsets(np.bincount(owner, sizes, graph.num_clients)).tolist(),
        rows=rows,
        row_ptr=offsets(held).tolist(),
        sizes=sizes,
        groups=Groups.of(np.add.reduceat(sizes, begins), owner[begins], device),
        batches=Groups.of(np.diff([*begins, len(rows)]), owner[begins], device),
        targets=None if inside.targets is None else torch.from_numpy(padded.scatter(inside.targets[rows])).to(device),
        bonds=bonds,
        **tensors,
    )


def matrix(start: np.ndarray, to: np.ndarray, columns: int) -> sp.csr_matrix:
    """Build the 0/1 CSR whose row i has ones at ``to[start[i]:start[i + 1]]``."""
    return sp.csr_matrix((np.ones(len(to), np.float32), to, start), shape=(len(start) - 1, columns))
