"""Models as options: sizes and rates by name. What they build loads torch only then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import Option

if TYPE_CHECKING:
    from fgl_repro.data.graph import Graph
    from fgl_repro.nn.models.model import Model


@dataclass
class Architecture(Option):
    """An architecture is a model by name. Subclasses add what is theirs and name what they build, or build it.

    Attributes:
        network: Module and class of the stacked network, which takes d, C and the fields below by name.
        fixed: Further values that the network takes, which nobody chooses.
        unit: What it predicts something about, a ``node`` or a ``graph``.
        hidden: Width H of the first hidden layer.
        dropout: Share of hidden values that training drops.
        fanout, test_fanout, together: As in ``sage`` and ``gin``, which have them as fields; 0 for all others.
    """

    axis: ClassVar[str] = "model"
    unit: ClassVar[str] = "node"
    revision: ClassVar[int] = 0
    network: ClassVar[str]
    fixed: ClassVar[Mapping[str, Any]] = {}
    fanout = test_fanout = together = 0  # without annotations: a ClassVar could be no field of a subclass

    hidden: int = 128
    dropout: float = 0.5

    def check(self) -> None:
        self.at_least(1, "hidden")
        if not 0 <= self.dropout < 1:
            raise UserError(f"model.dropout={self.dropout} must lie in [0, 1).")

    def build(self, num_features: int, num_classes: int) -> Model:
        """Build the stacked network for features of width d and C classes."""
        model: Model = resolve_name(self.network)(num_features, num_classes, **asdict(self), **self.fixed)
        return model

    def of_data(self, data: Graph) -> Model:
        """Build the stacked network for what is known of these data."""
        return self.build(data.num_features, data.num_classes)
