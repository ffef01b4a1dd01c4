"""FedStar: clients share how they read the structure of graphs, and nothing of how they read features.

Paper: Tan et al., "Federated Learning on Non-IID Graphs via Structural Knowledge Sharing", AAAI 2023. Every node has an
encoding of its place in its graph, of 32 numbers: the probabilities that a random walk from it is back after 1 to 16
steps, and ones for its degree, clipped to 1..16. Features and encodings go through channels of their own, side by side
(``networks.py``); the channel of structure is sent and averaged, all else stays with its client.

Variants: as FedAvg's, uniform mean (release) or by training graphs (paper; its code, too).
    network=gin  the channel of features has the layers of FedVN's GIN, a graph is the mean of its nodes.
    network=own  layers and sum are FedStar's; with ``model.hidden=64`` this is its own network.
    network=own-mean  layers are FedStar's, and a graph is the mean of its nodes, as FedVN says of all its networks.
    encoding=degrees  encodings are the 16 numbers of the degree alone (``--type_init dg`` of its code, which has to be
        told ``--n_rw 0`` besides, or sizes do not fit); walks: the 16 of the walk.

Known differences: in its code every client draws its own first weights, here all start alike. FedVN, in whose Table 1
it stands, says only that encoders of features are personal and those of structure shared, and that its networks are
GINs with means of nodes; what it prints of FedStar on Motif/Basis and SST2 comes back with ``network=own
encoding=degrees``, and not with this default. Here it runs under FedVN's protocol (plain SGD, batches of 32, width
100); its paper has Adam with rate 0.001, weight decay 5e-4, and batches of 128. Its encodings are of nodes in whole
small graphs, and it predicts those: no variant for node classification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.lazy import lazy
from fgl_repro.core.schema import added
from fgl_repro.core.streams import torch_rng
from fgl_repro.fl.messages import Message, Weights
from fgl_repro.fl.start import Start
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.fedstar import networks
    from fgl_repro.nn.models.model import Model
else:
    networks = lazy("fgl_repro.methods.fedstar.networks")


@dataclass
class FedStar(FedAvg[None]):
    """Attributes:
    network: Whose layers the channel of features has.
    encoding: What the encoding of a node's place tells.
    """

    name: ClassVar[str] = "fedstar"
    display: ClassVar[str] = "FedStar"
    units: ClassVar[tuple[str, ...]] = ("graph",)
    models: ClassVar[tuple[str, ...]] = ("gin",)
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "network": ("gin", "own", "own-mean"),
        "encoding": ("both", "degrees", "walks"),
    }

    network: str = "gin"
    encoding: str = added("both")

    def start(self, model: Model, seed: int) -> Start:
        own, total = self.network != "gin", self.network == "own"
        network = networks.TwoChannels(**vars(model), own=own, total=total, encoding=self.encoding)
        return Start(network, network.init(torch_rng("init", seed)))

    def publish(self, clients: Clients, state: None) -> Message:
        return Weights({name: value for name, value in clients.params.items() if name.startswith(networks.STRUCTURE)})
