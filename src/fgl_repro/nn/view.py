"""Views: a union graph cut down to what a set of predictions needs, padded to ``[K, n_max]`` once and for all.

A two-layer network that is scored on rows R needs its second propagation only at R and its first only on R's closed
neighbourhood. Both are cut here, at set-up; inside a step there is no indexing, padding or loop over clients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.data.graph import offsets
from fgl_repro.federation.world import UnionGraph
from fgl_repro.nn.adjacency import gcn_norm
from fgl_repro.nn.sparse import DenseOp, SparseOp, csr_tensor, product

T = TypeVar("T")
Affine = Callable[[Tensor, Tensor], Tensor]  # a DenseOp, or what stands for one
Linear = Callable[[Tensor], Tensor]  # a SparseOp, or what stands for one

SPARSE_BELOW = 0.05
"""Feature density under which a sparse product beats a dense one (measured: 5 against 60 GMAC/s on one core)."""


def few(entries: int, rows: int, width: int) -> bool:
    """Tell whether so many entries of a matrix ``[rows, width]`` are few enough for sparse products."""
    return bool(entries < SPARSE_BELOW * rows * width)


def thin(features: sp.csr_matrix) -> bool:
    """Tell whether products with these features are to be sparse."""
    return few(features.nnz, *features.shape)


@dataclass(frozen=True)
class Padded:
    """Union nodes laid out as ``[K, width]``: ``slot`` of each, int64 ``[n]``, and how many clients and columns."""

    nodes: np.ndarray
    slot: np.ndarray
    clients: int
    width: int

    @staticmethod
    def of(nodes: np.ndarray, graph: UnionGraph) -> Padded:
        owner = graph.owner[nodes]
        counts = np.bincount(owner, minlength=graph.num_clients)
        start = offsets(counts)[:-1]
        width = max(int(counts.max(initial=0)), 1)
        return Padded(nodes, owner * width + np.arange(len(nodes)) - start[owner], graph.num_clients, width)

    @property
    def size(self) -> int:
        return self.clients * self.width

    def scatter(self, values: np.ndarray) -> np.ndarray:
        """Scatter values ``[n, ...]`` to their slots, zero elsewhere: ``[K, width, ...]``."""
        out = np.zeros((self.size, *values.shape[1:]), dtype=values.dtype)
        out[self.slot] = values
        return out.reshape(self.clients, self.width, *values.shape[1:])

    def tensors(self, graph: UnionGraph, device: torch.device) -> dict[str, Tensor]:
        """Return what a :class:`View` says of these rows of ``graph``."""
        labels, ones = self.scatter(graph.labels[self.nodes]), self.scatter(np.ones(len(self.nodes), np.float32))
        arrays = {"labels": labels, "mask": ones, "counts": ones.sum(1), "slots": self.slot}
        return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}

    def spread(self, matrix: sp.csr_matrix) -> sp.csr_matrix:
        """Spread ``matrix`` ``[n, m]`` with rows at these slots and empty elsewhere."""
        indptr = offsets(self.scatter(np.diff(matrix.indptr)))
        return sp.csr_matrix((matrix.data, matrix.indices, indptr), shape=(self.size, matrix.shape[1]))

    def place(self, matrix: sp.csr_matrix, columns: Padded) -> sp.csr_matrix:
        """Place ``matrix`` ``[n, m]`` with rows at these slots and columns at those of ``columns``."""
        coo = sp.coo_array(matrix)
        shape = (self.size, columns.size)
        return sp.csr_matrix((coo.data, (self.slot[coo.row], columns.slot[coo.col])), shape=shape)


@dataclass(frozen=True)
class View:
    """Everything a two-convolution network needs to predict ``rows`` of a union graph.

    Attributes:
        dense: Propagated features ``A X`` of the inner nodes, ``[K, n1, d]``; None on the sparse path.
        sparse: Block-diagonal features ``[K * n0, K * d]``; None on the dense path.
        inner: First propagation ``[K * n1, K * n0]`` on the sparse path; None where features are propagated already.
        outer: Second propagation ``[K * r, K * n1]``.
        labels: Class of each row, int64 ``[K, r]``; 0 where padded.
        mask: 1.0 at real rows, ``[K, r]``.
        counts: Rows of each client, float ``[K]``.
        slots: Position of each given row in the flattened ``[K * r]``, int64 ``[R]``.
    """

    dense: Affine | None
    sparse: Linear | None
    inner: Linear | None
    outer: Linear
    labels: Tensor
    mask: Tensor
    counts: Tensor
    slots: Tensor

    @staticmethod
    def of_all(dense: Affine, outer: Linear, clients: int, nodes: int, device: torch.device) -> View:
        """View all nodes of K graphs of n nodes each that have no labels; their features are propagated already."""
        return View(
            dense=dense,
            sparse=None,
            inner=None,
            outer=outer,
            labels=torch.zeros(clients, nodes, dtype=torch.int64, device=device),
            mask=torch.ones(clients, nodes, device=device),
            counts=torch.full((clients,), float(nodes), device=device),
            slots=torch.arange(clients * nodes, device=device),
        )

    @property
    def num_clients(self) -> int:
        return int(self.mask.shape[0])

    @property
    def steps(self) -> tuple[Linear, ...]:
        """The propagations after the first layer."""
        return (self.outer,)

    @property
    def numbers(self) -> Tensor | None:
        """The number to predict for each row ``[K, r]``; None where it is a class."""
        return None

    def mean(self, values: Tensor) -> Tensor:
        """Average over each client's rows, ``[K, r] -> [K]``; 0 for a client without rows."""
        return (values * self.mask).sum(1) / self.counts.clamp_min(1)

    def placed(self, values: Tensor) -> Tensor:
        """Place values of the given rows ``[R, ...]`` at their slots, 0 where padded: ``[K, r, ...]``."""
        out = values.new_zeros(self.mask.numel(), *values.shape[1:])
        out[self.slots] = values
        return out.view(*self.mask.shape, *values.shape[1:])


@dataclass(frozen=True)
class DeepView(View):
    """A view for more convolutions; propagations ``between`` the first and ``outer`` lead to ever fewer nodes."""

    between: tuple[Linear, ...]

    @property
    def steps(self) -> tuple[Linear, ...]:
        return (*self.between, self.outer)


@dataclass(frozen=True)
class WholeView(View):
    """A view whose inputs are the features of all ``n1`` nodes of a client's graph; its last step alone is cut.

    Attributes:
        step: From all nodes to all nodes ``[K * n1, K * n1]``; ``outer`` is the same from all nodes to the rows.
        pick: Slot of each row among all nodes, int64 ``[K * r]``; 0 where padded.
    """

    outer: Any
    step: Any
    pick: Tensor

    def picked(self, values: Tensor) -> Tensor:
        """Pick values of the rows, ``[K * r, H]``, from those of all nodes ``[K, n1, H]``."""
        return values.flatten(0, 1).index_select(0, self.pick)


def around(matrix: sp.csr_matrix, graph: UnionGraph, rows: np.ndarray) -> tuple[Padded, Padded, sp.csr_matrix]:
    """Pad rows and their closed neighbourhood in ``matrix`` ``[N, N]``, cut it from there to here ``[K * r, K * n]``.

    Cheap enough for every mini-batch: nothing is as long as the graph but two masks.
    """
    links = matrix[rows]
    mark = np.zeros(graph.num_nodes, dtype=bool)
    mark[rows] = mark[links.indices] = True
    outer, inner = Padded.of(rows, graph), Padded.of(np.flatnonzero(mark), graph)
    slot = np.empty(graph.num_nodes, dtype=np.int64)
    slot[inner.nodes] = inner.slot
    placed = sp.csr_matrix((links.data, slot[links.indices], links.indptr), shape=(len(rows), inner.size))
    return outer, inner, outer.spread(placed)


def gathered(source: Tensor, nodes: Padded, kept: bool) -> DenseOp:
    """Gather rows ``nodes`` of ``source`` ``[N + 1, d]`` at their slots, its last row, zeros, elsewhere."""
    index = np.full(nodes.size, len(source) - 1)
    index[nodes.slot] = nodes.nodes
    inputs = source.index_select(0, torch.from_numpy(index).to(source.device))
    return DenseOp(inputs.view(nodes.clients, nodes.width, -1), kept)


class Views:
    """Builds views on one device; what several views of a union graph share is computed once.

    Args:
        kept: The views serve many steps, see :class:`fgl_repro.nn.sparse.DenseOp`.
    """

    def __init__(self, device: torch.device, kept: bool = True) -> None:
        self.device, self.kept = device, kept
        self._made: dict[tuple[int, str], tuple[UnionGraph, Any]] = {}

    @cached_property
    def brief(self) -> Views:
        """A builder that shares what is made already and keeps nothing further, for views that serve one step."""
        out = Views(self.device, kept=False)
        out._made = self._made
        return out

    def of(self, graph: UnionGraph, rows: np.ndarray, layers: int = 2) -> View:
        """View ``graph`` for predictions of ``rows``, int64 ``[R]``, ascending, by so many convolutions."""
        adjacency, propagated = self._shared(graph)
        outer, needed, last = around(adjacency, graph, rows)
        between: tuple[Linear, ...] = ()
        for _ in range(layers - 2):
            _, needed, step = around(adjacency, graph, needed.nodes)
            between = SparseOp.of(step, self.device), *between
        if propagated is not None:
            return self._view(graph, outer, last, between, dense=gathered(propagated, needed, self.kept))
        _, inputs, inner = around(adjacency, graph, needed.nodes)
        features = graph.base.features[graph.node[inputs.nodes]]
        return self._view(graph, outer, last, between, sparse=blocks(features, inputs, graph), inner=inner)

    def whole(
        self,
        graph: UnionGraph,
        rows: np.ndarray,
        step: Callable[[sp.csr_matrix, torch.device], Any],
        norm: Callable[[sp.csr_matrix], sp.csr_matrix] = gcn_norm,
    ) -> WholeView:
        """View features as they are, for networks that take many steps or weigh their neighbours themselves.

        Args:
            rows: Union nodes to predict, int64 ``[R]``, ascending.
            step: Makes what leads from nodes to nodes from an adjacency with self-loops, as :meth:`SparseOp.of` does.
            norm: Makes that adjacency from the graph's.
        """

        def make() -> tuple[sp.csr_matrix, Padded, dict[str, Any]]:
            adjacency, features = norm(graph.adjacency), graph.base.features[graph.node]
            nodes = Padded.of(np.arange(graph.num_nodes), graph)
            shared: dict[str, Any] = {"dense": None, "sparse": None}
            if thin(graph.base.features):
                shared["sparse"] = SparseOp.of(blocks(features, nodes, graph), self.device)
            else:
                shared["dense"] = DenseOp(torch.from_numpy(nodes.scatter(features.toarray())).to(self.device))
            return adjacency, nodes, {**shared, "step": step(nodes.place(adjacency, nodes), self.device)}

        adjacency, nodes, shared = self.once(graph, f"whole {step.__qualname__} {norm.__qualname__}", make)
        outer = Padded.of(rows, graph)
        tensors: dict[str, Any] = dict(outer.tensors(graph, self.device))
        return WholeView(
            **shared,
            inner=None,
            outer=step(outer.place(adjacency[rows], nodes), self.device),
            pick=torch.from_numpy(outer.scatter(nodes.slot[rows]).ravel()).to(self.device),
            **tensors,
        )

    def propagated(
        self, graph: UnionGraph, rows: np.ndarray, adjacency: sp.csr_matrix, features: sp.csr_matrix
    ) -> View:
        """Build a view whose first propagation was done elsewhere, with more neighbours than ``graph`` has.

        Args:
            graph: Nodes that take part in the second propagation.
            rows: Union nodes to predict, int64 ``[R]``, ascending.
            adjacency: Normalised adjacency of the second propagation ``[N, N]``, as it is to be used.
            features: Propagated features of every union node ``[N, d]``.
        """
        outer, needed, second = around(adjacency, graph, rows)
        base, own = graph.base.features, features[needed.nodes]
        if not thin(base):
            dense = DenseOp(torch.from_numpy(needed.scatter(own.toarray())).to(self.device), self.kept)
            return self._view(graph, outer, second, dense=dense)
        own.sort_indices()
        return self._view(graph, outer, second, sparse=blocks(own, needed, graph))

    def alone(self, graph: UnionGraph, rows: np.ndarray) -> View:
        """View union nodes ``rows``, int64 ``[R]``, ascending, each of which sees itself only."""
        loops = sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr")
        return self.propagated(graph, rows, sp.csr_matrix(loops), graph.base.features[graph.node])

    def _view(
        self,
        graph: UnionGraph,
        outer: Padded,
        last: sp.csr_matrix,
        between: tuple[Linear, ...] = (),
        *,
        dense: DenseOp | None = None,
        sparse: sp.csr_matrix | None = None,
        inner: sp.csr_matrix | None = None,
    ) -> View:
        """Put a view together: ``outer`` are the rows, ``last`` the propagation that leads to them."""
        return DeepView(
            dense=dense,
            sparse=None if sparse is None else SparseOp.of(sparse, self.device),
            inner=None if inner is None else SparseOp.of(inner, self.device),
            outer=SparseOp.of(last, self.device),
            between=between,
            **outer.tensors(graph, self.device),
        )

    def once(self, graph: UnionGraph, name: str, make: Callable[[], T]) -> T:
        """Return ``make()`` on the first call for this graph and name, the same object after that."""
        if (id(graph), name) not in self._made:
            self._made[id(graph), name] = graph, make()  # the graph is kept so that its id stays its own
        made: T = self._made[id(graph), name][1]
        return made

    def _shared(self, graph: UnionGraph) -> tuple[sp.csr_matrix, Tensor | None]:
        """Return the normalised adjacency and, where features are dense, their propagation.

        The latter is for all nodes and a row of zeros.
        """

        def make() -> tuple[sp.csr_matrix, Tensor | None]:
            adjacency, features = gcn_norm(graph.adjacency), graph.base.features
            if thin(features):
                return adjacency, None
            x = torch.from_numpy(features.toarray())[torch.from_numpy(graph.node)]
            return adjacency, F.pad(product(csr_tensor(adjacency, self.device), x.to(self.device)), (0, 0, 0, 1))

        return self.once(graph, "propagated", make)


def blocks(features: sp.csr_matrix, inputs: Padded, graph: UnionGraph) -> sp.csr_matrix:
    """Put features of client k's nodes in column block k, ``[K * n0, K * d]``: one product serves K first layers."""
    return inputs.spread(by_client(features, graph.owner[inputs.nodes], inputs.clients))


def by_client(features: sp.csr_matrix, owner: np.ndarray, clients: int) -> sp.csr_matrix:
    """Put rows ``[n, d]`` of client k in column block k, ``[n, K * d]``."""
    rows, width = features.shape
    columns = features.indices + np.repeat(owner * width, np.diff(features.indptr))
    return sp.csr_matrix((features.data, columns, features.indptr), shape=(rows, clients * width))
