"""FedRep: FedAvg of the base layers, which are trained after the classifier, not with it.

Paper: Collins et al., "Exploiting Shared Representations for Personalized Federated Learning", ICML 2021, Algorithm 1:
in each round a client trains its classifier with the received base fixed, then the base with that classifier fixed;
the base alone is sent and averaged. Both take the protocol's local epochs, as in PFLlib, whose default is one each.

Variants: as FedAvg's, uniform mean (release) or by training nodes (paper; PFLlib, too).
FedVN, in whose Table 1 it stands, says only that encoders are shared and classifiers stay local; its code lacks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.lazy import lazy
from fgl_repro.methods.fedper import FedPer, base

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl import steps
    from fgl_repro.fl.clients import Clients
else:
    steps = lazy("fgl_repro.fl.steps")


@dataclass
class FedRep(FedPer):
    name: ClassVar[str] = "fedrep"
    display: ClassVar[str] = "FedRep"
    own_optimisers: ClassVar[bool] = True

    @classmethod
    def can_sit_out(cls) -> bool:
        return True

    def fit(self, clients: Clients, state: None, round: int, epochs: int) -> Tensor:
        """Train the classifier for its epochs, then the base for as many."""
        shared = base(clients)
        own = {name: value for name, value in clients.params.items() if name not in shared}
        loss = self.objective(clients, state, round)
        steps.descend(clients.steps(epochs), loss, [clients.optimiser_of("classifier", own)])
        return steps.descend(clients.steps(epochs), loss, [clients.optimiser_of("base", shared)])
