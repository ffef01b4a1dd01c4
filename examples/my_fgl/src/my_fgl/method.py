"""FedTrim: FedAvg whose server leaves out the extremes of every weight.

Paper: Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", ICML 2018, Definition 2,
there of gradients and here of weights: of the K values of each coordinate the floor(trim * K) largest and smallest are
dropped, and the mean of the rest is sent down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.fl.messages import Message, Weights
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients


@dataclass
class FedTrim(FedAvg[None]):
    """Attributes:
    trim: Share of the clients that is left out at either end.
    """

    name: ClassVar[str] = "fedtrim"
    display: ClassVar[str] = "FedTrim"
    variants: ClassVar[tuple[str, ...]] = ("paper",)
    least: ClassVar[dict[str, float]] = {"trim": 0}
    below: ClassVar[dict[str, float]] = {"trim": 0.5}

    variant: str = "paper"
    trim: float = 0.1

    def aggregate(self, clients: Clients, state: None, upload: Message) -> Message:
        """The trimmed mean of each weight ``[K, ...]``, a row per client."""
        drop = int(self.trim * clients.count)
        kept = {name: w.sort(0).values[drop : clients.count - drop] for name, w in upload.tensors().items()}
        return Weights({name: w.mean(0, keepdim=True).expand(clients.count, *w.shape[1:]) for name, w in kept.items()})
