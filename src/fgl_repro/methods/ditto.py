"""Ditto: FedAvg, beside which every client trains a model of its own that is drawn to the global one.

Paper: Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021, Algorithm 1 and
equation (Ditto): v_k minimises F_k(v) + mu / 2 * ||v - theta||^2 with the theta received. In each round the own model
takes its epochs first, then the client's copy of the global one, which alone is sent, averaged and received; the own
model answers all tests. Both start from the same weights.

Variants: as FedAvg's, uniform mean (release) or by training nodes (paper; PFLlib, too). FedVN, in whose Table 1 it
stands, gives no mu; PFLlib's default of 0 would be training alone, so that one from the paper's grid stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.lazy import lazy
from fgl_repro.fl.messages import Message, Weights
from fgl_repro.fl.mixing import copied, drift
from fgl_repro.fl.start import Start
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl import steps
    from fgl_repro.fl.clients import Clients
    from fgl_repro.fl.steps import LocalStep
    from fgl_repro.nn.models.model import Model, Params
else:
    steps = lazy("fgl_repro.fl.steps")

GLOBAL = "global_"
"""What the names of a client's copy of the global model begin with."""


@dataclass
class Ditto(FedAvg[None]):
    """Attributes:
    mu: Pull of the global model on the own one.
    """

    name: ClassVar[str] = "ditto"
    display: ClassVar[str] = "Ditto"
    own_optimisers: ClassVar[bool] = True
    least: ClassVar[dict[str, float]] = {"mu": 0}

    mu: float = 0.1

    @classmethod
    def can_sit_out(cls) -> bool:
        return True

    def start(self, model: Model, seed: int) -> Start:
        start = super().start(model, seed)
        return Start(start.network, start.weights, {GLOBAL + name: value for name, value in start.weights.items()})

    def publish(self, clients: Clients, state: None) -> Message:
        return Weights(clients.personal)

    def fit(self, clients: Clients, state: None, round: int, epochs: int) -> Tensor:
        """Train the own model for its epochs, then the copy of the global one; the loss is the own model's."""
        copy = global_model(clients)
        received = copied(copy)

        def own(step: LocalStep) -> Tensor:
            return step.task_loss(clients.logits(step)) + self.mu / 2 * drift(clients.params, received)

        def shared(step: LocalStep) -> Tensor:
            return step.task_loss(clients.logits(step, params=copy))

        last = steps.descend(clients.steps(epochs), own, [clients.optimiser_of("own", clients.params)])
        steps.descend(clients.steps(epochs), shared, [clients.optimiser_of("global", copy)])
        return last


def global_model(clients: Clients) -> Params:
    """Return the clients' copies of the global model, by the names that the network knows."""
    return {name[len(GLOBAL) :]: value for name, value in clients.personal.items()}
