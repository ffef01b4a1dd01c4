"""LocSage+: every client mends its own graph with a generator of its own and trains alone on it.

Paper: Zhang et al., "Subgraph Federated Learning with Missing Neighbor Generation", NeurIPS 2021, section 4.2. The
generator learns at home, on Equation (5), as in FedSage+'s warm-up (see ``fedsageplus``, whose phase 1 this is without
term 6); nothing is sent, then or later.

Variants:
    paper    as FedSage+'s.
    release  as FedSage+'s, but counts are rounded and the generator's dropout is off when graphs are mended.

Known differences from the released code: those of FedSage+; and all owners' classifiers start alike, as Local's. In the
paper Equation (5) trains the classifier that is tested, too; in the code, and here, that one is trained afterwards on
the mended graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.methods.fedsageplus import FedSagePlus

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.fedsageplus.method import State


@dataclass
class LocSagePlus(FedSagePlus):
    name: ClassVar[str] = "locsageplus"
    display: ClassVar[str] = "LocSage+"
    shares_features: ClassVar[bool] = False
    federated: ClassVar[bool] = False

    generator_epochs: int = 0

    def publish(self, clients: Clients, state: State) -> None:
        return None

    def upload(self, clients: Clients, state: State) -> None:
        return None
