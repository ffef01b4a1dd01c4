"""A linear map of features that were spread over the graph as heat would be."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, factorial
from typing import ClassVar

from fgl_repro.nn.architectures.options import Sgc


@dataclass
class Heat(Sgc):
    """As SGC with the heat kernel's mean over all powers, of which the k-th weighs exp(-t) t^k / k!.

    Paper: Gasteiger et al., "Diffusion Improves Graph Learning", NeurIPS 2019.

    Attributes:
        time: How long the heat spreads, t.
    """

    name: ClassVar[str] = "heat"

    steps: int = 4
    time: float = 1.0

    def check(self) -> None:
        super().check()
        self.at_least(0, "time")

    @property
    def weights(self) -> tuple[float, ...]:
        """Of each power of the adjacency, from 0."""
        return tuple(exp(-self.time) * self.time**k / factorial(k) for k in range(self.steps + 1))
