"""What methods have in common whose server distils the clients' models into one, on graphs that it makes up.

Fine-tuning after that is the protocol's (``protocol.fine_tuning``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from fgl_repro.core.errors import UserError
from fgl_repro.fl.messages import Message, Weights
from fgl_repro.fl.method import S
from fgl_repro.fl.mixing import average
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.nn.models.model import Params


class Distiller(Protocol):
    """Who distils: a :class:`fgl_repro.methods.generated.server.Server`."""

    def distil(self, teachers: Params, start: Params) -> Params:
        """One model ``[1, ...]`` from the clients' ``[K, ...]`` and a start ``[1, ...]``."""

    def facts(self) -> dict[str, Any]:
        """What the record keeps of it; plain JSON types."""


@dataclass
class Generated(FedAvg[S]):
    """FedAvg whose mean is the start of a student that the server teaches.

    Attributes:
        nodes: Of a graph that the server makes up.
        noise: Random numbers that a node is made of.
        neighbours: Nearest nodes that each is linked with, itself among them.
        epochs: Turns of generator and student in a round.
        generator_steps: Steps of the generator in a turn.
        lr_generator, lr_student: Their learning rates.
    """

    units: ClassVar[tuple[str, ...]] = ("node",)
    variants: ClassVar[tuple[str, ...]] = ("paper",)
    models: ClassVar[tuple[str, ...]] = ("gcn2", "gcn", "graphsage", "gat", "sgc", "ssgc", "appnp", "sign")
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
        """Who distils."""
        raise NotImplementedError(f"{self.name} does not say who distils")

    def aggregate(self, clients: Clients, state: S, upload: Message) -> Message:
        teachers = upload.tensors()
        start = {name: value[:1] for name, value in average(teachers, self.share(clients)).items()}
        learnt = self.distiller(state).distil(teachers, start)
        return Weights({name: value.expand_as(teachers[name]) for name, value in learnt.items()})

    def facts(self, clients: Clients, state: S) -> dict[str, Any]:
        return self.distiller(state).facts()
