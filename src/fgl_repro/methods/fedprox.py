"""FedProx: FedAvg whose clients are drawn back to the model they received.

Paper: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, equation 2:
L = CE + mu / 2 * ||theta - theta_received||^2, over all weights and biases.

Variants: as FedAvg's, uniform mean (release) or by training nodes (paper). Neither FED-PUB's supplement and code nor
FedVN's paper say which mu they ran; 0.01 is that of GCFL's code. With one full-batch step a round the term has no
gradient (theta is still what was received), so that the run is FedAvg's bit for bit: every graph of FED-PUB's tables
with one local epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.fl.mixing import copied, drift
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl.clients import Clients
    from fgl_repro.fl.steps import LocalStep, Loss


@dataclass
class FedProx(FedAvg[None]):
    """Attributes:
    mu: Weight of the proximal term.
    """

    name: ClassVar[str] = "fedprox"
    display: ClassVar[str] = "FedProx"
    least: ClassVar[dict[str, float]] = {"mu": 0}

    mu: float = 0.01

    def objective(self, clients: Clients, state: None, round: int) -> Loss:
        received = copied(clients.params)

        def loss(step: LocalStep) -> Tensor:
            return step.task_loss(clients.logits(step)) + self.mu / 2 * drift(clients.params, received)

        return loss
