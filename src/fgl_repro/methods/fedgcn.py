"""FedGCN: before training, clients exchange sums of neighbours' features once; then FedAvg.

Paper: Yao et al., "FedGCN: Convergence-Communication Tradeoffs in Federated Training of Graph Convolutional Networks",
NeurIPS 2023. With A the normalised adjacency of the graph of all clients (self-loops, degrees of that graph) and
g_i = sum_m A_im x_m, the first layer at node i is relu(g_i W1 + b1), so clients need sums, never single features:

    hops 0   nothing is exchanged: FedAvg on the clients' subgraphs.
    hops 1   client k gets g_i for its own nodes; the second layer sums over local neighbours only.
    hops 2   client k gets g_j for its own nodes and their neighbours: both layers are those of the central GCN.

Variants:
    paper    as above. Once: up (own + ring-1 nodes) * d numbers, down own * d (1 hop) or (own + ring-1) * d (2 hops).
    release  what the released code does: no sums; every client gets the raw features and edges of the ring of ``hops``
             steps around it and normalises with the degrees of that cropped graph, too small at its rim.

Inference on other graphs (unseen nodes, a new client) propagates on the graph at hand. The part of a held-out client
takes no part in the exchange. FedLoG ran it on its 128-128-linear GCN and did not count the exchange; the released code
has 16 hidden units, three steps a round of plain SGD (rate 0.5, weight decay 5e-4), and reports the last round. Uniform
mean, as the released code. Bytes are means over clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fgl_repro.core.lazy import sparse as sp
from fgl_repro.data.graph import induced, within
from fgl_repro.federation.world import UnionGraph
from fgl_repro.fl.inputs import Inputs
from fgl_repro.fl.messages import Features
from fgl_repro.fl.phase import Phase, Turn
from fgl_repro.methods.fedavg import FedAvg
from fgl_repro.nn.adjacency import gcn_norm

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.nn.view import View, Views


class Halo:
    """Every client's own nodes with those around them, in the joint graph of all training clients.

    The joint graph A_g has the nodes of all clients and all edges of the base graph among them: cross-client edges are
    in it, a held-out client and removed nodes are not.

    Attributes:
        graph: Own nodes and the first rings around them, induced on A_g.
        own: Union nodes of ``graph`` that are client k's own, in the order of the training graph, int64 ``[N]``.
        ring: Nodes of the halo alone, per client, int64 ``[K]``.
    """

    def __init__(self, union: UnionGraph, hops: int) -> None:
        """Build the first ``hops`` rings around the clients of ``union``."""
        joint = np.zeros(union.base.num_nodes, dtype=np.float32)
        joint[union.node] = 1
        adjacency = sp.csr_matrix(sp.diags_array(joint) @ union.base.adjacency @ sp.diags_array(joint))
        adjacency.eliminate_zeros()
        self.graph, self.own = surrounded(union, adjacency, hops)
        self.ring = np.diff(self.graph.ptr) - np.diff(union.ptr)

    @cached_property
    def normal(self) -> sp.csr_matrix:
        """D_g^-1/2 (A_g + I) D_g^-1/2 over the nodes of the base graph."""
        return gcn_norm(self.graph.base.adjacency)  # `surrounded` puts A_g there

    @cached_property
    def adjacency(self) -> sp.csr_matrix:
        """The blocks of ``graph``, cut from ``normal``: degrees are those of A_g."""
        blocks = [induced(self.normal, nodes) for nodes in np.split(self.graph.node, self.graph.ptr[1:-1])]
        return sp.csr_matrix(sp.block_diag(blocks, format="csr", dtype=np.float32))

    @cached_property
    def sums(self) -> sp.csr_matrix:
        """Rows of ``normal`` times the features: exact neighbour sums of every union node, ``[N', d]``."""
        return sp.csr_matrix(self.normal @ self.graph.base.features)[self.graph.node]


def surrounded(union: UnionGraph, adjacency: sp.csr_matrix, hops: int) -> tuple[UnionGraph, np.ndarray]:
    """Find every client's nodes and those at most ``hops`` edges away, and which of them are its own, as in a halo.

    Args:
        adjacency: Edges among nodes of the base graph, symmetric 0/1 CSR.
    """
    nodes, own, offset = [], [], 0
    for mine in np.split(union.node, union.ptr[1:-1]):
        start = np.zeros(union.base.num_nodes, dtype=bool)
        start[mine] = True
        nodes.append(np.flatnonzero(within(adjacency, start, hops)))
        own.append(offset + np.searchsorted(nodes[-1], mine))
        offset += len(nodes[-1])
    return UnionGraph.induced(replace(union.base, adjacency=adjacency), nodes), np.concatenate(own)


def halo(views: Views, graph: UnionGraph, rings: int) -> Halo:
    """Build the halo of ``rings`` steps once for a graph."""
    found: Halo = views.once(graph, f"halo-{rings}", lambda: Halo(graph, rings))
    return found


@dataclass(frozen=True)
class HaloInputs(Inputs):
    """Own rows among the nodes ``rings`` steps around a client, with ``exact`` sums of the features one step further.

    Exact sums carry one hop inside them; raw features carry none.
    """

    rings: int
    exact: bool

    def cut(self, views: Views, rows: np.ndarray) -> View:
        around = halo(views, self.world.graph, self.rings)
        if self.exact:
            return views.propagated(around.graph, around.own[rows], around.adjacency, around.sums)
        return views.of(around.graph, around.own[rows])


@dataclass
class FedGCN(FedAvg[None]):
    """Attributes:
    hops: Layers, 0 to 2, in which clients see neighbours at other clients.
    """

    name: ClassVar[str] = "fedgcn"
    display: ClassVar[str] = "FedGCN"
    units: ClassVar[tuple[str, ...]] = ("node",)
    variants: ClassVar[tuple[str, ...]] = ("paper", "release")
    shares_features: ClassVar[bool] = True
    models: ClassVar[tuple[str, ...]] = ("gcn",)
    choices: ClassVar[dict[str, tuple[int, ...]]] = {"hops": (0, 1, 2)}
    uniform: ClassVar[tuple[str, ...]] = variants

    variant: str = "paper"
    hops: int = 2

    def inputs(self, own: Inputs) -> Inputs:
        if self.hops == 0:
            return own
        exact = self.as_paper
        return HaloInputs(own.world, own.model, own.views, own.seed, rings=self.hops - exact, exact=exact)

    def phases(self, clients: Clients, state: None) -> Iterable[Phase]:
        if self.hops:
            yield Phase("setup", 1, lambda *_: self.exchanged(clients))

    def exchanged(self, clients: Clients) -> Turn:
        """Exchange sums of features, up of a client's part in them, down of what it needs; or raw features, down."""
        graph, number = clients.world.graph, 4 * clients.model.num_features
        if self.variant == "release":
            return Turn(down=Features(number * halo(clients.views, graph, self.hops).ring))
        own, ring = np.diff(graph.ptr), halo(clients.views, graph, 1).ring
        return Turn(up=Features(number * (own + ring)), down=Features(number * (own + ring * (self.hops == 2))))
