"""FedBN: FedAvg of all layers but batch norms, which stay with their clients.

Paper: Li et al., "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization", ICLR 2021, Algorithm 1.
Which tensors are those of batch norms the network says; codes that ask for "bn" in a name keep nothing at home in a
network that names them otherwise, and are FedAvg. Scales and shifts are neither sent nor received (PFLlib sends and
averages them, to no effect). It is for graphs as units: no network for nodes here has batch norms, and without any
this is FedAvg.

Variants: as FedAvg's, uniform mean (release) or by training nodes (paper; PFLlib, too).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from fgl_repro.fl.messages import Message, Weights
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.nn.models.gin import GIN


@dataclass
class FedBN(FedAvg[None]):
    name: ClassVar[str] = "fedbn"
    display: ClassVar[str] = "FedBN"
    units: ClassVar[tuple[str, ...]] = ("graph",)
    models: ClassVar[tuple[str, ...]] = ("gin",)

    def publish(self, clients: Clients, state: None) -> Message:
        normalises = cast("GIN", clients.model).normalises
        return Weights({name: value for name, value in clients.params.items() if not normalises(name)})
