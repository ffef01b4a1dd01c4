"""ReNode: training nodes deep inside their class weigh more in the loss than those near the border of another one.

Paper: Chen et al., "Topology-Imbalance Learning for Semi-Supervised Node Classification", NeurIPS 2021, section 3. With
Pi = ``teleport`` (I - (1 - ``teleport``) A~)^-1 of a client's graph, A~ normalised with self-loops, and P_c the mean of
its rows at training nodes of class c, the conflict of a training node u with class y is

    T_u = sum_v Pi_uv sum_{c != y} P_c(v);   w_u = ``lowest`` + ``scale`` / 2 (1 + cos(pi rank(T_u) / (L - 1)))

with L training nodes, the least conflict first (rank 0), ties in the order of nodes. The loss is sum_u w_u CE_u / L.
Weights are not normalised; they have mean 1 where ``lowest`` + ``scale`` / 2 is 1. A single training node weighs 1.

Variants:
    fedavg   local training of FedAvg (mean weighted by training nodes), and fine-tuning where the protocol says so.
    local    clients on their own.

How O-pFGL ran it in a federation is not written; its numbers lie between the two variants' (results/opfgl/notes).
Known differences: Pi is never built; P and T come from power steps until float precision. Learning rate, its decay and
early stopping are the protocol's, not the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fgl_repro.core.lazy import lazy, torch
from fgl_repro.data.graph import offsets
from fgl_repro.fl.messages import Message
from fgl_repro.methods.fedavg import FedAvg
from fgl_repro.nn.adjacency import gcn_norm

if TYPE_CHECKING:
    from collections.abc import Iterable

    import scipy.sparse as sp
    from torch import Tensor

    from fgl_repro.federation.world import World
    from fgl_repro.fl import stage
    from fgl_repro.fl.clients import Clients
    from fgl_repro.fl.phase import Phase
    from fgl_repro.fl.steps import LocalStep, Loss
    from fgl_repro.nn import ops
else:
    stage, ops = lazy("fgl_repro.fl.stage"), lazy("fgl_repro.nn.ops")

PRECISION = 1e-9
"""What is left of the power series when it is cut."""

LEAST_TELEPORT = 1e-4
"""As low as ``teleport`` may be, for the power series has about 21 / teleport terms."""


@dataclass
class ReNode(FedAvg["Tensor"]):
    """Attributes:
    teleport: Share of the walk that begins anew.
    lowest, scale: Least weight, and how much more the largest has.
    """

    name: ClassVar[str] = "renode"
    display: ClassVar[str] = "ReNode"
    units: ClassVar[tuple[str, ...]] = ("node",)
    variants: ClassVar[tuple[str, ...]] = ("fedavg", "local")
    uniform: ClassVar[tuple[str, ...]] = ()
    batched: ClassVar[bool] = False
    least: ClassVar[dict[str, float]] = {"teleport": LEAST_TELEPORT, "lowest": 0, "scale": 0}
    greatest: ClassVar[dict[str, float]] = {"teleport": 1}

    variant: str = "fedavg"
    teleport: float = 0.15
    lowest: float = 0.5
    scale: float = 1.0

    def state(self, clients: Clients) -> Tensor:
        """Return the weights of the training rows ``[K, r]``."""
        found = weights(clients.world, self.teleport, self.lowest, self.scale)
        return clients.inputs.train.placed(torch.from_numpy(found.astype(np.float32)).to(clients.device))

    def objective(self, clients: Clients, state: Tensor, round: int) -> Loss:
        def loss(step: LocalStep) -> Tensor:
            log_p = torch.log_softmax(clients.logits(step), -1)
            return step.mean(-state * ops.log_likelihood(log_p, step.view.labels))

        return loss

    def closing(self, clients: Clients, state: Tensor) -> Iterable[Phase]:
        def objective(some: Clients) -> Loss:
            return self.objective(some, some.among(state, some.inputs.train), 0)

        yield from stage.fine_tuning(clients, objective, clients.protocol.fine_tuning_lr)

    def publish(self, clients: Clients, state: Tensor) -> Message | None:
        return super().publish(clients, state) if self.variant == "fedavg" else None


def weights(world: World, teleport: float, lowest: float, scale: float) -> np.ndarray:
    """Weigh each training node, in their order, float64 ``[T]``."""
    graph, owner = world.graph, world.graph.owner[world.train]
    labels = graph.labels[world.train]
    norm = gcn_norm(graph.adjacency).astype(np.float64)
    share = np.zeros((graph.num_nodes, graph.base.num_classes))
    share[world.train, labels] = 1 / world.class_counts[owner, labels]
    influence = visited(norm, share, teleport)
    others = influence.sum(1, keepdims=True) - influence
    conflict = visited(norm, others, teleport)[world.train, labels]
    # Rounding must not break ties: what differs by less is one conflict.
    order = np.lexsort((world.train, np.round(conflict, 12), owner))
    held = world.class_counts.sum(1)
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order)) - np.repeat(offsets(held)[:-1], held)
    last = np.maximum(held[owner] - 1, 1)
    found = lowest + scale / 2 * (1 + np.cos(np.pi * rank / last))
    out: np.ndarray = np.where(held[owner] > 1, found, 1.0)
    return out


def visited(norm: sp.csr_matrix, values: np.ndarray, teleport: float) -> np.ndarray:
    """Compute Pi times ``values`` ``[N, C]``: the series sum_s teleport (1 - teleport)^s A~^s, as far as it counts."""
    steps = int(np.ceil(np.log(PRECISION) / np.log(1 - teleport))) if teleport < 1 else 0
    out = term = teleport * values
    for _ in range(steps):
        term = (1 - teleport) * (norm @ term)
        out = out + term
    return out
