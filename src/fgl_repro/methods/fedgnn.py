"""FedGNN: clients average gradients, and see the neighbours that other clients know of nodes they share.

Paper: Wu et al., "FedGNN: Federated Graph Neural Network for Privacy-Preserving Recommendation", 2021: users' graphs
are widened by the embeddings of users with the same items, matched by a third party, and gradients (blurred by noise
and pseudo items) are averaged by data size. FED-PUB's supplement lists it as a baseline by name only (B.2), its code
does not hold it, and a node classifier has neither items nor users: everything below is our reading.

* Widening: a client's graph gets the neighbours of its nodes on edges that some other client holds, with their features
  and the edges that any client holds among them. Clients without common nodes hold no such edge: nothing is widened.
* Averaging, by variant:
      gradients  one gradient a round, weighted by training nodes; every client takes the same Adam step with it, so all
                 have one model. Local epochs are then meaningless: one, whatever the protocol says.
      weights    as FedAvg by training nodes, with the protocol's local epochs.

Not done: noise and pseudo items. Bytes of the widening (features, once) are a mean over clients.
Tables: FED-PUB 2, 3, 4, 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.lazy import lazy, torch
from fgl_repro.fl.messages import Exchange, Features, Message, Weights
from fgl_repro.fl.mixing import average
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from fgl_repro.federation.world import World
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.fedgcn import halo
    from fgl_repro.methods.fedgcn.halo import Widened
    from fgl_repro.nn.models.model import Model, Params
    from fgl_repro.nn.view import View, Views
else:
    halo = lazy("fgl_repro.methods.fedgcn.halo")


@dataclass
class Gradients(Message):
    """Gradients by the names of the weights, ``[K, ...]`` each."""

    gradients: Params


@dataclass
class FedGNN(FedAvg):
    name: ClassVar[str] = "fedgnn"
    display: ClassVar[str] = "FedGNN"
    variants: ClassVar[tuple[str, ...]] = ("gradients", "weights")
    shares_features: ClassVar[bool] = True
    batched: ClassVar[bool] = False

    variant: str = "gradients"

    def view(self, model: Model, views: Views, world: World, rows: np.ndarray) -> View:
        wider = self.widened(views, world)
        view: View = model.view(views, wider.graph, wider.own[rows])
        return view

    def widened(self, views: Views, world: World) -> Widened:
        """The clients' widened graphs, made once."""
        return views.once(world.graph, "widened", lambda: halo.widened(world.graph))

    def begin(self, clients: Clients) -> Exchange:
        added = self.widened(clients.views, clients.world).graph.num_nodes - clients.world.graph.num_nodes
        return Exchange(down=Features(clients.model.num_features * added / clients.count) if added else None)

    def fit(self, clients: Clients, memory: None, round: int, epochs: int) -> Tensor:
        if self.variant == "weights":
            return super().fit(clients, memory, round, epochs)
        loss = self.loss(clients, clients.logits(), memory, round)
        found = torch.autograd.grad(loss.sum(), list(clients.params.values()))
        clients.state = dict(zip(clients.params, found, strict=True))
        return loss.detach()

    def upload(self, clients: Clients, evaluated: Params) -> Message:
        return Weights(clients.params) if self.variant == "weights" else Gradients(clients.state)

    def aggregate(self, clients: Clients, upload: Message) -> Message:
        if isinstance(upload, Gradients):
            return Gradients(average(upload.gradients, clients.samples))
        return Weights(average(upload.tensors(), clients.samples))

    def receive(self, clients: Clients, message: Message) -> None:
        if isinstance(message, Gradients):
            clients.adam.step([message.gradients[name].contiguous() for name in clients.params])
        else:
            super().receive(clients, message)
