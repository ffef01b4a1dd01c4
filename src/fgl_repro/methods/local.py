"""Local: every client trains alone.

Paper: every federated table has it, as what federation has to be better than; on FedVN's Motif/Basis FedAvg is not.
No message is sent, so nothing is aggregated.
Variants: none. FedSage calls it LocSage and, with one client who has everything, GlobSage.
Known differences: Adam's moments outlive the protocol's rounds, where FedLoG's code begins Adam anew in each. All
clients start from the same weights, where FedSage's code draws each owner's anew. The model is the FED-PUB code's
unmasked GCN, as byte counts show for FedLoG's baselines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fgl_repro.fl.method import Method


@dataclass
class Local(Method[None]):
    name: ClassVar[str] = "local"
    display: ClassVar[str] = "Local"
    units: ClassVar[tuple[str, ...]] = ("node", "graph")
    fleets: ClassVar[bool] = True

    @classmethod
    def can_sit_out(cls) -> bool:
        return True
