"""What FedLoG's clients and server send each other, and what lives between rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fgl_repro.fl.messages import Message

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from fgl_repro.fl.batches import Batches
    from fgl_repro.nn.models.model import Params


@dataclass
class Knowledge(Message):
    """What travels in both directions every round: the model and the learnable nodes of one branch, ``[K, C s, d]``."""

    weights: Params
    synthetic: Tensor

    def tensors(self) -> Params:
        return self.weights


@dataclass
class Setup(Message):
    """Once, before round 0: prompt generators and (up only) the class shares r ``[K, C]``."""

    generators: Params
    rates: Tensor | None = None


@dataclass
class State:
    """What lives between rounds beside the trained tensors.

    Attributes:
        batches: Each client's draws of training nodes.
        shares: Weights w of the clients in the mean of each class ``[K, C]``.
        gamma: Feature scaling of each client and class ``[K, C]``, private.
        synthetic: Global nodes of this round ``[K, C s, d]``, equal rows.
        dropout: Stream of the local phase.
        shuffles: Stream of slot permutations (release) or of the order of global nodes (paper).
        above: Share of classes whose global nodes were recognised at the last step, one number.
        generators: One prompt generator a class, leaves ``[C, ...]``, from the set-up on.
    """

    batches: Batches
    shares: Tensor
    gamma: Tensor
    synthetic: Tensor
    dropout: Generator
    shuffles: Generator
    above: Tensor
    generators: Params = field(default_factory=dict)
