"""GraphSAGE, whose layers add neighbours and own features (:mod:`fgl_repro.nn.models.sage`) or keep them in halves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import added
from fgl_repro.nn.architectures import Architecture

if TYPE_CHECKING:
    from fgl_repro.nn.models.model import Model


@dataclass
class Sage(Architecture):
    """Layers of width H and H / 2.

    Attributes:
        fanout: Neighbours drawn of each node and layer when a mini-batch is trained on; 0: all of them.
        test_fanout: The same for validation and tests.
    """

    name: ClassVar[str] = "sage"

    fanout: int = added(0)
    test_fanout: int = added(0)

    def check(self) -> None:
        super().check()
        for name in ("fanout", "test_fanout"):
            if (fan := getattr(self, name)) < 0:
                raise UserError(f"model.{name}={fan} draws nothing: give a number of neighbours, or 0 for all.")

    def build(self, num_features: int, num_classes: int) -> Model:
        from fgl_repro.nn.models.sage import SAGE

        return SAGE(num_features, num_classes, self.hidden, self.dropout, self.fanout, self.test_fanout)


@dataclass
class SageHalves(Sage):
    """FedSage's classifier (:mod:`fgl_repro.nn.models.sage_halves`)."""

    name: ClassVar[str] = "sage_halves"

    def check(self) -> None:
        super().check()
        if self.hidden % 4:
            raise UserError(f"model.hidden={self.hidden} cannot be halved twice: give a multiple of 4.")

    def build(self, num_features: int, num_classes: int) -> Model:
        from fgl_repro.nn.models.sage_halves import SageHalves as Network

        return Network(num_features, num_classes, self.hidden, self.dropout, self.fanout, self.test_fanout)
