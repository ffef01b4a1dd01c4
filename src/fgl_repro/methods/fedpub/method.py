"""FED-PUB: personal weight masks, and a mean of its own for every client, weighted by functional similarity.

Paper: Baek et al., "Personalized Subgraph Federated Learning", ICML 2023. Every weight matrix W of the GCN (or another
network: its last layer that sees neighbours is then meant below) has a mask mu of its shape; the model is W * mu.
Training uses the plain product; evaluation, and the functional embedding, zero the mask entries with |mu| < l1. After
local training the server feeds one random graph (five blocks of an Erdos-Renyi graph, Gaussian features) through each
model; e_k is the mean of the second convolution's output:

    S_ij = cos(e_i, e_j),   alpha_ij = softmax_j(tau * S_ij),   theta_i <- sum_j alpha_ij theta_j.

Masks stay personal. L = CE + l1 * sum |mu| + l2 * sum proximity(theta, received theta), no proximity in round 0.

Variants:
    release  the penalties carry no gradient (the released code takes them from a detached state dictionary), so masks
             learn from the cross-entropy alone; weights and masks travel both ways though masks are never used.
    paper    penalties are live (l1 norm of masks; squared L2 distance to the received weights, whose gradient is zero
             where a round is one full-batch step, as FedProx's); clients upload the masked product, and masks stay at
             home (supplement, Algorithm 1).

Other similarities (supplement, Table 6), by ``similarity``: cosines of the uploaded weights (parameter), of their
change in the round (gradient) or since the first round (updates), or of the clients' class shares (label) in place of
functional embeddings (function); ours, where the supplement gives no formula. Other inputs (Table 5), by
``random_graph``: one block with as many nodes and edges (er), one node (one), or each client's own graph through its
own model (feature), which is how we read "features".

``masks=false`` leaves the masks out and begins as FedAvg does. So Table 6 was made, by all appearance: parameter
similarity is FedAvg there, to two digits at first.

Where clients have whole graphs, which FED-PUB's paper does not ask about, the five blocks are five graphs of one batch
and e_k is the mean of their embeddings. Their Gaussian features enter as all do, through the first map, where real ones
are categories, too; their links are all alike.

Known differences from the released code: it also sends every client the global model, which none reads; not sent
here. Its random graph's features are unseeded; here they come from a stream of the run seed. Masks of a client are its
own (the released workers can leak them). tau = 3 for non-overlapping, 5 for overlapping clients (shipped scripts).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fgl_repro.core.lazy import lazy, torch
from fgl_repro.core.schema import added
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graphset import GraphSet
from fgl_repro.federation.world import UnionGraph
from fgl_repro.fl.messages import Message, Weights
from fgl_repro.fl.method import Method
from fgl_repro.fl.mixing import copied, cosine, drift, flat, mix
from fgl_repro.fl.phase import Phase, Turn
from fgl_repro.fl.start import Start
from fgl_repro.methods.fedpub.similarity import label_correlation, softmax_of_cosine

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl.clients import Clients
    from fgl_repro.fl.steps import LocalStep, Loss
    from fgl_repro.methods.fedpub import masked, random_graph
    from fgl_repro.nn.models.model import Model, Params
    from fgl_repro.nn.view import View
else:
    masked, random_graph = (lazy(f"fgl_repro.methods.fedpub.{name}") for name in ("masked", "random_graph"))


@dataclass
class Download(Weights):
    """The mixed weights ``[K, ...]`` and, in the release, the mixed masks of the same shapes."""

    masks: Params | None


@dataclass
class Upload(Download):
    """Clients' weights, masks (release) and the embedding ``[K, D]`` by which they are compared, where one is sent."""

    embedding: Tensor | None


@dataclass
class State:
    """What lives between rounds.

    Attributes:
        shared: What all models are compared on, where they are.
        origin: Weights that changes are taken from, where similarity needs them.
        cut: Share of masks cut in each round.
    """

    shared: View | None = None
    origin: Params = field(default_factory=dict)
    cut: list[Tensor] = field(default_factory=list)


@dataclass
class FedPub(Method[State]):
    """Attributes:
    tau: Sharpness of the softmax over similarities: the larger, the fewer clients a mean is of.
    l1: Weight of the masks' L1 norm (paper), and the size below which evaluation cuts an entry of a mask.
    l2: Weight of the squared distance to the received weights (paper).
    similarity: What similarity is the cosine of: ``function``, ``parameter``, ``gradient``, ``updates`` or ``label``.
    random_graph: What functional embeddings are of: a random ``sbm``, ``er`` or ``one``, or own graphs (``feature``).
    masks: Whether weights have masks.
    """

    name: ClassVar[str] = "fedpub"
    display: ClassVar[str] = "FED-PUB"
    units: ClassVar[tuple[str, ...]] = ("node", "graph")
    variants: ClassVar[tuple[str, ...]] = ("release", "paper")
    least: ClassVar[dict[str, float]] = {"tau": 0, "l1": 0, "l2": 0}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "similarity": ("function", "parameter", "gradient", "updates", "label"),
        "random_graph": ("sbm", "er", "one", "feature"),
    }

    variant: str = "release"
    tau: float = 3.0
    l1: float = 1e-3
    l2: float = 1e-3
    similarity: str = added("function")
    random_graph: str = added("sbm")
    masks: bool = added(True)

    def start(self, model: Model, seed: int) -> Start:
        if not self.masks:
            return super().start(model, seed)
        network = masked.MaskedModel(model, self.l1)
        weights = network.init(torch_rng("init", seed))
        return Start(network, weights, network.masks(weights))

    def state(self, clients: Clients) -> State:
        if self.similarity == "function" and self.random_graph == "feature":
            return State(clients.inputs.cut(clients.views, np.arange(clients.world.graph.num_nodes)))
        return State()

    def phases(self, clients: Clients, state: State) -> Iterable[Phase]:
        if self.similarity == "function" and self.random_graph != "feature":
            yield Phase("setup", 1, lambda *_: self.shared_graph(clients, state))

    def shared_graph(self, clients: Clients, state: State) -> Turn:
        """Let the server draw the random graph and send it."""
        graph = random_graph.drawn(clients.model.num_features, clients.seed, self.random_graph)
        whole = isinstance(clients.world.graph.base, GraphSet)
        units = random_graph.as_graphs(graph, self.random_graph) if whole else graph
        copies = UnionGraph.copies(units, clients.count)
        state.shared = clients.model.view(clients.views, copies, np.arange(copies.num_nodes))
        return Turn(down=random_graph.SharedGraph.of(graph, clients.count, clients.device))

    def publish(self, clients: Clients, state: State) -> Message:
        return Download(clients.params, self.sent_masks(clients))

    def sent_masks(self, clients: Clients) -> Params | None:
        """Return the masks, where they travel."""
        return clients.personal if self.masks and self.variant == "release" else None

    def receive(self, clients: Clients, state: State, message: Message) -> None:
        super().receive(clients, state, message)
        if self.similarity == "gradient" or (self.similarity == "updates" and not state.origin):
            state.origin = copied(clients.params)

    def objective(self, clients: Clients, state: State, round: int) -> Loss:
        if self.variant == "release":
            return super().objective(clients, state, round)
        received = copied(clients.params) if round > 0 else {}

        def loss(step: LocalStep) -> Tensor:
            found = step.task_loss(clients.logits(step))
            found = found + self.l1 * sum(mask.abs().flatten(1).sum(1) for mask in clients.personal.values())
            return found + self.l2 * drift(clients.params, received) if received else found

        return loss

    def upload(self, clients: Clients, state: State) -> Upload:
        embedding = self.embedding(clients, state)
        if self.variant == "release" or not self.masks:
            return Upload(clients.params, self.sent_masks(clients), embedding)
        assert isinstance(clients.model, masked.MaskedModel)
        product = clients.model.weights(clients.trained, training=True)
        return Upload({name: product[name] for name in clients.params}, None, embedding)

    def embedding(self, clients: Clients, state: State) -> Tensor | None:
        """Return what a client tells of itself beside its weights, ``[K, D]``."""
        if self.similarity == "label":
            return clients.prior
        if self.similarity != "function":
            return None
        assert state.shared is not None
        found = clients.model.embed(clients.trained, state.shared)
        if self.random_graph != "feature":
            return found.mean(1)
        return (found * state.shared.mask.unsqueeze(-1)).sum(1) / state.shared.counts.unsqueeze(1)

    def compared(self, state: State, upload: Upload) -> Tensor:
        """Return the vectors whose cosines are the similarities of clients, ``[K, D]``."""
        if upload.embedding is not None:
            return upload.embedding
        sent = flat(upload.weights)
        return sent - flat(state.origin) if state.origin else sent

    def aggregate(self, clients: Clients, state: State, upload: Message) -> Message:
        assert isinstance(upload, Upload)
        matrix = softmax_of_cosine(self.compared(state, upload), self.tau)
        masks = mix(upload.masks, matrix) if upload.masks is not None else None
        return Download(mix(upload.weights, matrix), masks)

    def trace(self, clients: Clients, state: State) -> dict[str, Tensor]:
        """Measure the share of mask entries that evaluation cuts."""
        if not self.masks:
            return {}
        state.cut.append((flat(clients.personal).abs() < self.l1).float().mean())
        return {"sparsity": state.cut[-1]}

    def facts(self, clients: Clients, state: State) -> dict[str, Any]:
        """Average over rounds what is cut, and tell how well similarity of the last models follows that of labels."""
        with torch.no_grad():
            similar = cosine(self.compared(state, self.upload(clients, state))).cpu().numpy()
        cut = float(np.mean(torch.stack(state.cut).tolist())) if self.masks else None
        return {"sparsity": cut, "label_correlation": label_correlation(similar, clients.world.graph.nodes_by_class)}
