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
    """Whoever says so: the method."""

    def start(self, model: Model, seed: int) -> Start:
        """The network and its weights, built on the architecture ``model``."""

    def inputs(self, own: Inputs) -> Inputs:
        """What clients see, who have ``own`` subgraphs."""
