"""FedGNN: clients average gradients, and see the neighbours that other clients know of nodes they share.

Paper: Wu et al., "FedGNN: Federated Graph Neural Network for Privacy-Preserving Recommendation", 2021: users' graphs
are widened by the embeddings of users with the same items, matched by a third party, and gradients (blurred by noise
and pseudo items) are averaged by data size. FED-PUB's supplement lists it as a baseline by name only (B.2), its code
does not hold it, and a node classifier has neither items nor users: everything below is our reading.

* Widening: a client's graph gets the neighbours of its nodes on edges that some other client holds, with their features
  and the edges that any client holds among them. Clients without common nodes hold no such edge: nothing is widened.
* Averaging, by variant:
      gradients  one gradient a round, weighted by training nodes; every client takes the same Adam step with it, so all
                 have one model. Local epochs are then meaningless: one, whatever the protocol says. One optimiser for
                 clients in turn (``protocol.moments=shared``) would move each of them elsewhere, and is refused. The
                 step is taken when the mean comes back, and models are tested before: R rounds are R - 1 steps.
      weights    as FedAvg by training nodes, with the protocol's local epochs.

Not done: noise and pseudo items. Bytes of the widening (features, once) are a mean over clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fgl_repro.core.lazy import sparse as sp
from fgl_repro.core.lazy import torch
from fgl_repro.federation.world import UnionGraph
from fgl_repro.fl.inputs import Inputs
from fgl_repro.fl.messages import Features, Gradients, Message
from fgl_repro.fl.mixing import average
from fgl_repro.fl.phase import Phase, Turn
from fgl_repro.methods.fedavg import FedAvg
from fgl_repro.methods.fedgcn import surrounded

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl.clients import Clients
    from fgl_repro.nn.view import View, Views


def widened(union: UnionGraph) -> tuple[UnionGraph, np.ndarray]:
    """Take every client's own nodes and their neighbours, with all edges among them that some client holds.

    Only edges inside some client's graph are known, so clients that share no node gain nothing. A link that a client
    holds back to be predicted is not, though others may have it.

    Returns:
        That graph, and its union nodes that are client k's own, in the order of ``union``, int64 ``[N]``.
    """
    size, held = union.base.num_nodes, union.adjacency.tocoo()
    known = sp.csr_matrix((held.data, (union.node[held.row], union.node[held.col])), shape=(size, size))
    known.data[:] = 1  # an edge that several clients hold is one edge
    known = sp.csr_matrix(known.multiply(union.base.adjacency))
    return surrounded(union, known, 1)


@dataclass(frozen=True)
class WidenedInputs(Inputs):
    """Own rows in the widened graphs."""

    def widened(self) -> tuple[UnionGraph, np.ndarray]:
        """Return the clients' widened graphs, made once."""
        return self.views.once(self.world.graph, "widened", lambda: widened(self.world.graph))

    def cut(self, views: Views, rows: np.ndarray) -> View:
        graph, own = self.widened()
        view: View = self.model.view(views, graph, own[rows])
        return view

    def evaluation_view(self, rows: np.ndarray) -> View:
        graph, own = self.widened()
        return self.elsewhere(graph, own[rows]) if self.model.test_fanout else self.cut(self.views, rows)


@dataclass
class FedGNN(FedAvg[Gradients]):
    name: ClassVar[str] = "fedgnn"
    display: ClassVar[str] = "FedGNN"
    units: ClassVar[tuple[str, ...]] = ("node",)
    variants: ClassVar[tuple[str, ...]] = ("gradients", "weights")
    shares_features: ClassVar[bool] = True
    batched: ClassVar[bool] = False

    variant: str = "gradients"

    @property
    def in_turn(self) -> bool:
        return self.variant != "gradients"

    def inputs(self, own: Inputs) -> Inputs:
        return WidenedInputs(own.world, own.model, own.views, own.seed)

    def state(self, clients: Clients) -> Gradients:
        return Gradients({})

    def phases(self, clients: Clients, state: Gradients) -> Iterable[Phase]:
        assert isinstance(clients.inputs, WidenedInputs)
        added = np.diff(clients.inputs.widened()[0].ptr) - np.diff(clients.world.graph.ptr)
        if added.any():
            yield Phase.once("setup", Turn(down=Features(4 * clients.model.num_features * added)))

    def fit(self, clients: Clients, state: Gradients, round: int, epochs: int) -> Tensor:
        if self.variant == "weights":
            return super().fit(clients, state, round, epochs)
        loss = self.objective(clients, state, round)(next(clients.steps(1)))
        found = torch.autograd.grad(loss.sum(), list(clients.params.values()))
        state.gradients = dict(zip(clients.params, found, strict=True))
        return loss.detach()

    def upload(self, clients: Clients, state: Gradients) -> Message | None:
        return super().upload(clients, state) if self.variant == "weights" else state

    def aggregate(self, clients: Clients, state: Gradients, upload: Message) -> Message:
        if isinstance(upload, Gradients):
            return Gradients(average(upload.gradients, clients.samples))
        return super().aggregate(clients, state, upload)

    def receive(self, clients: Clients, state: Gradients, message: Message) -> None:
        if isinstance(message, Gradients):
            clients.optimiser().step([message.gradients[name].contiguous() for name in clients.params])
        else:
            super().receive(clients, state, message)
