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
has 16 hidden units and plain SGD. Uniform mean, as the released code. Bytes are means over clients.
Tables: FedLoG 1, 2, 5, 6, 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import lazy, torch
from fgl_repro.fl.messages import Exchange, Features
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from fgl_repro.federation.world import World
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.fedgcn import halo
    from fgl_repro.nn.models.model import Model
    from fgl_repro.nn.view import View, Views
else:
    halo = lazy("fgl_repro.methods.fedgcn.halo")


@dataclass
class FedGCN(FedAvg):
    name: ClassVar[str] = "fedgcn"
    display: ClassVar[str] = "FedGCN"
    variants: ClassVar[tuple[str, ...]] = ("paper", "release")
    shares_features: ClassVar[bool] = True
    models: ClassVar[tuple[str, ...]] = ("gcn",)

    variant: str = "paper"
    hops: int = 2

    def check(self) -> None:
        super().check()
        if self.hops not in (0, 1, 2):
            raise UserError(f"method.hops={self.hops} is not defined for fedgcn: choose 0, 1 or 2.")

    def view(self, model: Model, views: Views, world: World, rows: np.ndarray) -> View:
        if self.hops == 0:
            return super().view(model, views, world, rows)
        # Exact sums carry one hop inside them; raw features carry none.
        rings = self.hops - 1 if self.variant == "paper" else self.hops
        around = views.once(world.graph, f"halo-{rings}", lambda: halo.halo_of(world.graph, rings))
        if self.variant == "release":
            return views.of(around.graph, around.own[rows])
        return views.propagated(around.graph, around.own[rows], around.adjacency, around.sums)

    def begin(self, clients: Clients) -> Exchange:
        if self.hops == 0:
            return Exchange()
        graph, width = clients.world.graph, clients.model.num_features
        own = graph.num_nodes / clients.count
        if self.variant == "release":
            return Exchange(down=Features(width * float(halo.halo_of(graph, self.hops).ring.mean())))
        ring = float(halo.halo_of(graph, 1).ring.mean())
        return Exchange(up=Features(width * (own + ring)), down=Features(width * (own + ring * (self.hops == 2))))

    def share(self, clients: Clients) -> Tensor:
        return torch.ones_like(clients.samples)
