"""What clients are made of: the network that all start from, and what each sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fgl_repro.fl.inputs import Inputs
    from fgl_repro.nn.models.model import Model, Params


@dataclass(frozen=True)
class Start:
    """What every client starts from: one network, without client axis.

    Attributes:
        network: What is trained.
        weights: The model's weights.
        personal: Further trained tensors, which belong to each client (masks, ...).
    """

    network: Model
    weights: Params
    personal: Params = field(default_factory=dict)


class Starter(Protocol):
    """What clients ask of a method before a run: what they start from, and what they see."""

    def start(self, model: Model, seed: int) -> Start:
        """Build the network and its weights on the architecture ``model``."""

    def inputs(self, own: Inputs) -> Inputs:
        """Say what clients see that have the subgraphs ``own``."""
