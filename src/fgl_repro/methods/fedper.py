"""FedPer: FedAvg of the base layers; every client keeps its own classifier.

Paper: Arivazhagan et al., "Federated Learning with Personalization Layers", 2019. Base and classifier are trained
together; only the base (here all layers but the last, of the GIN all but its perceptron) is sent, averaged and
received.

Variants: as FedAvg's, uniform mean (release) or by training nodes (paper). The released code of FED-PUB, in whose
tables it stands, does not hold it; "shares base layers only" is all that the supplement says (B.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.errors import UserError
from fgl_repro.fl.messages import Message, Weights
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.nn.models.model import Params


@dataclass
class FedPer(FedAvg[None]):
    name: ClassVar[str] = "fedper"
    display: ClassVar[str] = "FedPer"
    # Of the one layer of SGC and SSGC nothing would be left to share.
    models: ClassVar[tuple[str, ...]] = (
        "gcn",
        "gcn2",
        "sage",
        "graphsage",
        "sage_halves",
        "gat",
        "appnp",
        "sign",
        "gin",
    )

    def publish(self, clients: Clients, state: None) -> Message:
        return Weights(base(clients))


def base(clients: Clients) -> Params:
    """Return the weights that are shared: all but the classifier's.

    Raises:
        UserError: Of a model of one layer nothing would be left.
    """
    depth, heads = clients.model.depth, clients.model.heads
    last = tuple(str(layer) for layer in range(depth - heads + 1, depth + 1))
    shared = {name: value for name, value in clients.params.items() if not name.endswith(last)}
    if not shared:
        raise UserError(
            "all weights of this model are the classifier's, none are left to share: choose another model=."
        )
    return shared
