"""The models there are, and ``model=auto``: the method's own architecture, or FED-PUB's GCN."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from omegaconf.errors import ValidationError

from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import added, converted, unknown
from fgl_repro.nn.architectures import Architecture

if TYPE_CHECKING:
    from fgl_repro.data.graph import Graph
    from fgl_repro.nn.models.model import Model

USUAL = {"node": "gcn", "graph": "gin"}
"""What is taken where any model will do, by what it predicts something about."""


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
    revision: ClassVar[int] = 1  # reads weights of links
    network: ClassVar[str] = "fgl_repro.nn.models.gat:GAT"

    hidden: int = 64
    dropout: float = 0.0


@dataclass
class Sgc(Architecture):
    """A linear map of features averaged over neighbours ``steps`` times; ``hidden`` and ``dropout`` say nothing.

    Attributes:
        steps: Power K of the normalised adjacency.
    """

    name: ClassVar[str] = "sgc"
    network: ClassVar[str] = "fgl_repro.nn.models.decoupled:Averaging"
    maps: ClassVar[int] = 1

    hidden: int = 64
    dropout: float = 0.0
    steps: int = 2

    def check(self) -> None:
        super().check()
        self.at_least(1, "steps")

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight that each power of the adjacency has in the average, from power 0 on."""
        return (*[0.0] * self.steps, 1.0)

    def details(self) -> dict[str, Any]:
        """Return what the network is told beside its widths and dropout."""
        return {"weights": self.weights, "maps": self.maps}

    def build(self, num_features: int, num_classes: int) -> Model:
        network = resolve_name(self.network)
        model: Model = network(num_features, num_classes, self.hidden, self.dropout, **self.details())
        return model


@dataclass
class Ssgc(Sgc):
    """As SGC with a mean over all powers up to K, in which a node's own features have a weight of their own.

    Attributes:
        teleport: Weight of the own features; the powers share the rest.
    """

    name: ClassVar[str] = "ssgc"

    teleport: float = 0.1

    def check(self) -> None:
        super().check()
        if not 0 <= self.teleport <= 1:
            raise UserError(f"model.teleport={self.teleport} must lie in [0, 1].")

    @property
    def weights(self) -> tuple[float, ...]:
        return (self.teleport, *[(1 - self.teleport) / self.steps] * self.steps)


@dataclass
class Appnp(Ssgc):
    """Two linear maps, whose logits are averaged over neighbours by a walk that goes back to its start.

    Attributes:
        teleport: Probability of going back at each of the ``steps``.
        relu: Whether there is a ReLU between the maps.
    """

    name: ClassVar[str] = "appnp"
    maps: ClassVar[int] = 2

    relu: bool = True

    @property
    def weights(self) -> tuple[float, ...]:
        go = 1 - self.teleport
        return (*(self.teleport * go**k for k in range(self.steps)), go**self.steps)

    def details(self) -> dict[str, Any]:
        return {**super().details(), "relu": self.relu}


@dataclass
class Sign(Architecture):
    """Two linear maps, of features and their averages over neighbours side by side.

    Attributes:
        steps: How often features are averaged at most.
    """

    name: ClassVar[str] = "sign"
    network: ClassVar[str] = "fgl_repro.nn.models.decoupled:SIGN"

    hidden: int = 64
    dropout: float = 0.0
    steps: int = 2

    def check(self) -> None:
        super().check()
        self.at_least(1, "steps")


@dataclass
class Fleet(Architecture):
    """Clients with different architectures; ``hidden`` and ``dropout`` say nothing.

    Attributes:
        models: A model for each client in turn, with what it is told: ``gcn2 hidden=64 dropout=0``.
    """

    name: ClassVar[str] = "fleet"

    models: list[str] = field(default_factory=lambda: ["gat", "sgc"])

    def check(self) -> None:
        if not self.models:
            raise UserError("model.models names nothing: give it a model for each client in turn.")
        for text in self.models:
            self.member(text)

    @staticmethod
    def member(text: str) -> Architecture:
        """Build the model that a word and its fields name."""
        name, *settings = text.split() or [""]
        pairs = [pair.partition("=")[::2] for pair in settings]
        kind = registry.option("model", name)
        if name in ("auto", "fleet"):
            raise UserError(f"model.models has {name}, which is no single model: name another one.")
        for field_name, _ in pairs:
            if field_name not in {f.name for f in fields(kind)}:
                raise UserError(unknown(f"model.{field_name}", kind))
        try:
            built: Architecture = kind(**{key: converted(kind, key, value) for key, value in pairs})
        except ValidationError as error:
            raise UserError(f"model.models has '{text}', whose values no {name} takes ({error}): mend it.") from None
        for field_name in ("fanout", "test_fanout"):
            if getattr(built, field_name):
                raise UserError(
                    f"model.models has '{text}', and clients of a fleet look at all neighbours: leave {field_name} out."
                )
        return built

    def build(self, num_features: int, num_classes: int) -> Model:
        built = tuple(self.member(text).build(num_features, num_classes) for text in self.models)
        model: Model = resolve_name("fgl_repro.nn.models.fleet:FleetModel")(built)
        return model


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
class GraphSage(Sage):
    """GraphSAGE whose second layer gives the logits."""

    name: ClassVar[str] = "graphsage"
    revision: ClassVar[int] = 1  # reads weights of links
    fixed: ClassVar[dict[str, Any]] = {"linear": False}

    hidden: int = 64
    dropout: float = 0.0


@dataclass
class SageHalves(Sage):
    """FedSage's classifier, whose layers keep neighbours and own features in halves."""

    name: ClassVar[str] = "sage_halves"
    network: ClassVar[str] = "fgl_repro.nn.models.sage:SAGEHalves"

    def check(self) -> None:
        super().check()
        if self.hidden % 4:
            raise UserError(f"model.hidden={self.hidden} cannot be halved twice: give a multiple of 4.")


@dataclass
class Gin(Architecture):
    """Graph isomorphism layers, the mean over a graph's nodes, and a perceptron of two layers.

    Attributes:
        layers: How many isomorphism layers.
        together: Graphs of a client whose nodes share the statistics of a batch norm; 0: all that are predicted.
    """

    name: ClassVar[str] = "gin"
    unit: ClassVar[str] = "graph"

    hidden: int = 100
    layers: int = 3
    together: int = 32

    def check(self) -> None:
        super().check()
        self.at_least(1, "layers")
        self.at_least(0, "together")

    def of_data(self, data: Graph) -> Model:
        from fgl_repro.nn.models.gin import BONDS, GIN

        known: dict[str, Any] = {
            "fields": getattr(data, "fields", ()),
            "bonds": getattr(data, "bond_fields", ()) or BONDS,
        }
        return GIN(data.num_features, data.num_classes, **asdict(self), **known)


@dataclass
class Auto(Architecture):
    """Becomes another model as soon as the method is known; what is None stays as that model has it."""

    name: ClassVar[str] = "auto"

    hidden: int | None = None  # type: ignore[assignment]
    dropout: float | None = None  # type: ignore[assignment]
    fanout: int | None = None  # type: ignore[assignment]
    test_fanout: int | None = None  # type: ignore[assignment]

    def check(self) -> None:
        """Refuse nothing before it is known which model this becomes."""

    def of(self, models: tuple[str, ...], unit: str = "node") -> Architecture:
        """Choose the first of ``models`` for such a unit, or the GCN (the GIN for whole graphs) where any will do.

        Raises:
            UserError: That model does not have what is set here.
        """
        able = [name for name in models if registry.option("model", name).unit == unit] or [*models, USUAL[unit]]
        chosen = registry.option("model", able[0])
        given = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}
        for name in given:
            if name not in {f.name for f in fields(chosen)}:
                raise UserError(unknown(f"model.{name}", chosen))
        built: Architecture = chosen(**given)
        return built
