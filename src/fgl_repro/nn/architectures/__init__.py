"""Models as options: sizes and rates by name. What they build loads torch only then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import Option

if TYPE_CHECKING:
    from fgl_repro.nn.models.model import Model


@dataclass
class Architecture(Option):
    """A model by name. Subclasses add what is theirs and say what they build.

    Attributes:
        hidden: Width H of the first hidden layer.
        dropout: Share of hidden values that training drops.
    """

    axis: ClassVar[str] = "model"
    revision: ClassVar[int] = 0

    hidden: int = 128
    dropout: float = 0.5

    def check(self) -> None:
        if self.hidden < 1:
            raise UserError(f"model.hidden={self.hidden} leaves no units: give at least 1.")
        if not 0 <= self.dropout < 1:
            raise UserError(f"model.dropout={self.dropout} must lie in [0, 1).")

    def build(self, num_features: int, num_classes: int) -> Model:
        """The stacked network for features of width d and C classes."""
        raise NotImplementedError(f"the model {self.name} builds nothing")
