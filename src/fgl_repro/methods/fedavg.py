"""FedAvg: one global model, the mean of the clients' models after local training.

Paper: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017,
Algorithm 1: theta <- sum_k (n_k / n) theta_k.

Variants:
    release  uniform mean. The FED-PUB code, from which FedLoG took this baseline, weighs by the length of a list
             that always has one element.
    paper    mean weighted by the number of training nodes.

The optimiser's moments stay with each client across rounds while weights are overwritten, as in the FED-PUB code, where
the protocol does not begin them anew.
Evaluated model: each client's own after its local epochs, before averaging (FED-PUB's and FedLoG's code), or, where the
protocol says so, the mean itself. With ``release``, FedSage's GraphSAGE and its protocol this is FedSage, whose code
starts from the mean of independent models (here: one model) and has one Adam for all clients, each in turn.
Tables: FedLoG 1, 2, 5, 6, 9; FedSage 2, D2-D4, Figures 4, 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.lazy import torch
from fgl_repro.fl.messages import Message, Weights
from fgl_repro.fl.method import Method, S
from fgl_repro.fl.mixing import average

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl.clients import Clients


@dataclass
class FedAvg(Method[S]):
    name: ClassVar[str] = "fedavg"
    display: ClassVar[str] = "FedAvg"
    variants: ClassVar[tuple[str, ...]] = ("release", "paper")
    uniform: ClassVar[tuple[str, ...]] = ("release",)
    """Variants whose mean weighs all clients alike."""

    variant: str = "release"

    def publish(self, clients: Clients, state: S) -> Message | None:
        return Weights(clients.params)

    def upload(self, clients: Clients, state: S) -> Message | None:
        return Weights(clients.params)

    def aggregate(self, clients: Clients, state: S, upload: Message) -> Message:
        return Weights(average(upload.tensors(), self.share(clients)))

    def share(self, clients: Clients) -> Tensor:
        """Weight of each client in the mean, ``[K]``, up to a factor."""
        return torch.ones_like(clients.samples) if self.variant in self.uniform else clients.samples
