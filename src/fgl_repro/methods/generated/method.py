"""What methods have in common whose server distils the clients' models into one, on graphs that it makes up.

Fine-tuning after that is the protocol's (``protocol.fine_tuning``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import lazy
from fgl_repro.fl.messages import Message, Weights
from fgl_repro.fl.method import S
from fgl_repro.fl.mixing import average
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.nn.models import fleet
    from fgl_repro.nn.models.model import Params
else:
    fleet = lazy("fgl_repro.nn.models.fleet")


class Distiller(Protocol):
    """Who distils: a :class:`fgl_repro.methods.generated.server.DistillingServer`."""

    def distil(self, teachers: Params, start: Params) -> Params:
        """Distil the clients' models ``[K, ...]`` into students ``[S, ...]``, which begin as ``start`` ``[S, ...]``."""

    def facts(self) -> dict[str, Any]:
        """Return what the record keeps of it; plain JSON types."""


@dataclass
class DistilledOnGenerated(FedAvg[S]):
    """FedAvg whose mean is the start of a student that the server teaches. In a fleet each client has a student of its
    own, which starts as what the client has trained: models of different architectures have no mean.

    Attributes:
        nodes: Nodes of a graph that the server makes up.
        noise: Random numbers that a node is made of.
        neighbours: Nearest nodes that each is linked with, itself among them.
        epochs: Turns of generator and student in a round.
        generator_steps: Steps of the generator in a turn.
        lr_generator, lr_student: Their learning rates.
    """

    units: ClassVar[tuple[str, ...]] = ("node",)
    variants: ClassVar[tuple[str, ...]] = ("paper",)
    uniform: ClassVar[tuple[str, ...]] = ()
    models: ClassVar[tuple[str, ...]] = ("gcn2", "gcn", "graphsage", "gat", "sgc", "ssgc", "appnp", "sign", "fleet")
    fleets: ClassVar[bool] = True
    least: ClassVar[dict[str, float]] = {
        **dict.fromkeys(("noise", "neighbours", "epochs", "generator_steps"), 1),
        **dict.fromkeys(("lr_generator", "lr_student"), 0),
    }

    variant: str = "paper"
    nodes: int = 100
    noise: int = 32
    neighbours: int = 5
    epochs: int = 5
    generator_steps: int = 1
    lr_generator: float = 1e-3
    lr_student: float = 1e-3

    def check(self) -> None:
        super().check()
        self.at_least(self.neighbours, "nodes")

    def check_nodes(self, clients: Clients) -> None:
        """Refuse graphs that cannot have a node of each class."""
        classes = clients.model.num_classes
        if self.nodes < classes:
            raise UserError(f"method.nodes={self.nodes} is fewer than there are classes: give at least {classes}.")

    def distiller(self, state: S) -> Distiller:
        """Say who distils."""
        raise NotImplementedError(f"{self.name} does not say who distils")

    def aggregate(self, clients: Clients, state: S, upload: Message) -> Message:
        teachers = start = upload.tensors()
        if not isinstance(clients.model, fleet.FleetModel):
            start = {name: value[:1] for name, value in average(teachers, self.share(clients)).items()}
        learnt = self.distiller(state).distil(teachers, start)
        return weights_of(clients, {name: value.expand_as(teachers[name]) for name, value in learnt.items()})

    def publish(self, clients: Clients, state: S) -> Message:
        return weights_of(clients, clients.params)

    def facts(self, clients: Clients, state: S) -> dict[str, Any]:
        return self.distiller(state).facts()


def weights_of(clients: Clients, params: Params) -> Weights:
    """Make a message of models, of which each client of a fleet has the tensors of its architecture."""
    if not isinstance(clients.model, fleet.FleetModel):
        return Weights(params)
    return FleetWeights(params, clients.model, clients.count)


@dataclass
class FleetWeights(Weights):
    """Models of different architectures; tensor ``c.W1`` is of the clients of architecture c, ``[K_c, ...]``."""

    model: fleet.FleetModel
    clients: int

    def bytes_by_field(self) -> dict[str, np.ndarray]:
        sizes = np.zeros(self.clients, dtype=np.int64)
        for name, tensor in self.weights.items():
            sizes[self.model.holders(name, self.clients)] += tensor[0].numel() * tensor.element_size()
        return {"weights": sizes}
