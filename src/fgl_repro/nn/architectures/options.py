"""The models there are, and ``model=auto``: the architecture of the method's own paper."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import added, unknown
from fgl_repro.nn.architectures import Architecture


@dataclass
class Gcn(Architecture):
    """Two graph convolutions and a linear classifier."""

    name: ClassVar[str] = "gcn"
    network: ClassVar[str] = "fgl_repro.nn.models.gcn:GCN"


@dataclass
class Gcn2(Architecture):
    """Graph convolutions alone, of which the last gives the logits.

    Attributes:
        layers: How many there are.
    """

    name: ClassVar[str] = "gcn2"
    network: ClassVar[str] = "fgl_repro.nn.models.gcn:GCN"
    fixed: ClassVar[dict[str, Any]] = {"linear": False}

    layers: int = added(2)

    def check(self) -> None:
        super().check()
        self.at_least(2, "layers")


@dataclass
class Gat(Architecture):
    """Two layers of graph attention with one head, of which the second gives the logits."""

    name: ClassVar[str] = "gat"
    network: ClassVar[str] = "fgl_repro.nn.models.gat:GAT"

    hidden: int = 64
    dropout: float = 0.0


@dataclass
class Sage(Architecture):
    """GraphSAGE with layers of width H and H / 2, which add neighbours and own features.

    Attributes:
        fanout: Neighbours drawn of each node and layer when a mini-batch is trained on; 0: all of them.
        test_fanout: The same for validation and tests.
    """

    name: ClassVar[str] = "sage"
    network: ClassVar[str] = "fgl_repro.nn.models.sage:SAGE"

    fanout: int = added(0)
    test_fanout: int = added(0)

    def check(self) -> None:
        super().check()
        self.at_least(0, "fanout", "test_fanout")


@dataclass
class SageHalves(Sage):
    """FedSage's classifier, whose layers keep neighbours and own features in halves."""

    name: ClassVar[str] = "sage_halves"
    network: ClassVar[str] = "fgl_repro.nn.models.sage:SageHalves"

    def check(self) -> None:
        super().check()
        if self.hidden % 4:
            raise UserError(f"model.hidden={self.hidden} cannot be halved twice: give a multiple of 4.")


@dataclass
class Auto(Architecture):
    """Becomes another model as soon as the method is known; what is None stays as that model has it."""

    name: ClassVar[str] = "auto"

    hidden: int | None = None  # type: ignore[assignment]
    dropout: float | None = None  # type: ignore[assignment]
    fanout: int | None = None
    test_fanout: int | None = None

    def check(self) -> None:
        """Nothing to refuse before it is known which model this becomes."""

    def of(self, models: tuple[str, ...]) -> Architecture:
        """The first of ``models``, or the GCN where any will do.

        Raises:
            UserError: That model does not have what is set here.
        """
        chosen = registry.option("model", models[0] if models else "gcn")
        given = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}
        for name in given:
            if name not in {f.name for f in fields(chosen)}:
                raise UserError(unknown(f"model.{name}", chosen))
        built: Architecture = chosen(**given)
        return built
