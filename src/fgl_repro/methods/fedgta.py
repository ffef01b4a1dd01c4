"""FedGTA: every client gets a mean of its own, of the models whose predictions are spread over their graphs alike.

Paper: Li et al., "FedGTA: Topology-aware Averaging for Federated Graph Learning", VLDB 2024 (its text was not at hand;
its claims are taken from its abstract and from those who describe it). After local training, with P the softmax of the
logits of all nodes, A~ the normalised adjacency, Z^0 the labels of training nodes and P elsewhere:

    Z <- alpha A~ Z + (1 - alpha) Z^0, and Z <- Z + Z^0 on training nodes, k times;   U = softmax(Z), V = softmax(Z / T)
    moments m_k   mean_i U_ic^p (raw) and mean_i (U_ic - mean)^p (central) of each class c, p = 1 ... ``moments``
    confidence G  sum_i degree_i (C / e + sum_c V_ic ln V_ic)
    server        theta_k <- sum_j G_j theta_j / sum_j G_j over the clients j with cos(m_k, m_j) > ``threshold``

where rows of training nodes in U and V are their labels. The server is one matrix times the stacked weights.

Variants:
    release  the authors' code: A~ with self-loops, moments of the last of the k steps.
    paper    moments of every step.
    openfgl  the port in OpenFGL: label propagation as in PyG (no self-loops, clipped to [0, 1], labels not added
             again), from P on training nodes and 0 elsewhere; degrees in and out. OpenFGL has 10 moments and 0.5.

Known differences: G_j is one number a client either way, 0 without edges; a mean of such clients alone, which the code
leaves undefined, is plain. Features are not propagated beforehand (the code's GAMLP); any model does. What is judged is
the protocol's to say: the code judges the mean after it came down, OpenFGL before.
O-pFGL's printed row for Cora is that of models after fewer local steps than validation takes: results/opfgl/notes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fgl_repro.core.lazy import functional as F
from fgl_repro.core.lazy import lazy, torch
from fgl_repro.fl.messages import Message, Weights
from fgl_repro.fl.mixing import cosine, mix
from fgl_repro.methods.fedavg import FedAvg
from fgl_repro.nn.adjacency import gcn_norm, plain_norm

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl.clients import Clients
    from fgl_repro.nn import sparse
    from fgl_repro.nn.view import View
else:
    sparse = lazy("fgl_repro.nn.sparse")


@dataclass
class Upload(Weights):
    """Weights, moments ``[K, D]`` and confidences ``[K]``."""

    moments: Tensor
    confidence: Tensor


@dataclass
class State:
    """What predictions are spread over; N nodes of all clients.

    Attributes:
        view: All nodes.
        adjacency: Normalised, sparse ``[N, N]``.
        trains: Training nodes, bool ``[N]``.
        labels: Theirs one-hot, zeros elsewhere ``[N, C]``.
        degree: Of each node ``[N]``.
        accepted: Number of clients whose models make up a client's mean: one number a round, the mean over clients.
    """

    view: View
    adjacency: Tensor
    trains: Tensor
    labels: Tensor
    degree: Tensor
    accepted: list[Tensor] = field(default_factory=list)


@dataclass
class FedGTA(FedAvg[State]):
    """Attributes:
    steps: Steps k of label propagation.
    keep: Its share alpha.
    temperature: T.
    moments: Highest order of the moments.
    central: Whether central moments follow the raw ones.
    threshold: Cosine above which a client's model counts.
    """

    name: ClassVar[str] = "fedgta"
    display: ClassVar[str] = "FedGTA"
    units: ClassVar[tuple[str, ...]] = ("node",)
    variants: ClassVar[tuple[str, ...]] = ("release", "paper", "openfgl")
    uniform: ClassVar[tuple[str, ...]] = ()
    least: ClassVar[dict[str, float]] = {"steps": 1, "moments": 1, "keep": 0, "threshold": -1}
    greatest: ClassVar[dict[str, float]] = {"keep": 1}
    above: ClassVar[dict[str, float]] = {"temperature": 0}
    below: ClassVar[dict[str, float]] = {"threshold": 1}

    variant: str = "release"
    steps: int = 5
    keep: float = 0.5
    temperature: float = 20.0
    moments: int = 10
    central: bool = True
    threshold: float = 0.5

    def state(self, clients: Clients) -> State:
        graph, device = clients.world.graph, clients.device
        degree = graph.degree.astype(np.float32)
        trains = torch.zeros(graph.num_nodes, dtype=torch.bool)
        trains[torch.from_numpy(clients.world.train)] = True
        labels = F.one_hot(torch.from_numpy(graph.labels), graph.base.num_classes).float() * trains.unsqueeze(1)
        norm = plain_norm if self.variant == "openfgl" else gcn_norm
        return State(
            clients.inputs.evaluation_view(np.arange(graph.num_nodes)),
            sparse.csr_tensor(norm(graph.adjacency), device),
            trains.to(device),
            labels.to(device),
            torch.from_numpy(degree * (2 if self.variant == "openfgl" else 1)).to(device),
        )

    def upload(self, clients: Clients, state: State) -> Upload:
        logits = clients.model(clients.trained, state.view)
        spread = self.spread(state, torch.softmax(logits, -1).flatten(0, 1)[state.view.slots])
        known = state.trains.unsqueeze(1)
        shares = [torch.where(known, state.labels, torch.softmax(z, 1)) for z in spread]
        flat = torch.where(known, state.labels, torch.softmax(spread[-1] / self.temperature, 1))
        classes = flat.shape[1]
        sure = state.degree * (classes / np.e + (flat * (flat + 1e-8).log()).sum(1))
        used = shares if self.as_paper else shares[-1:]
        moments = torch.cat([self.moments_of(state.view.placed(u), state.view) for u in used], dim=1)
        return Upload(clients.params, moments, state.view.placed(sure).sum(1))

    def spread(self, state: State, predicted: Tensor) -> list[Tensor]:
        """Return Z after each step ``[N, C]``, from the softmax of all nodes ``[N, C]``."""
        known, out = state.trains.unsqueeze(1), []
        if self.variant == "openfgl":
            now = start = predicted * known
            for _ in range(self.steps):
                now = (self.keep * sparse.product(state.adjacency, now) + (1 - self.keep) * start).clamp(0, 1)
                out.append(now)
            return out
        now = start = torch.where(known, state.labels, predicted)
        for _ in range(self.steps):
            now = self.keep * sparse.product(state.adjacency, now) + (1 - self.keep) * start + state.labels
            out.append(now)
        return out

    def moments_of(self, shares: Tensor, view: View) -> Tensor:
        """Compute raw moments of all classes, then central ones, ``[K, D]``, of each client's rows ``[K, r, C]``."""
        nodes = view.counts.view(-1, 1).clamp_min(1)
        orders = range(1, self.moments + 1)
        raw = [(shares**p).sum(1) / nodes for p in orders]
        if not self.central:
            return torch.cat(raw, dim=1)
        away = (shares - raw[0].unsqueeze(1)) * view.mask.unsqueeze(-1)
        return torch.cat(raw + [(away**p).sum(1) / nodes for p in orders], dim=1)

    def aggregate(self, clients: Clients, state: State, upload: Message) -> Message:
        assert isinstance(upload, Upload)
        alike = cosine(upload.moments) > self.threshold
        alike.fill_diagonal_(True)  # rounding aside, so it is
        weight = alike * upload.confidence
        weight = torch.where(weight.any(1, keepdim=True), weight, alike)
        state.accepted.append(alike.sum(1).float().mean())
        return Weights(mix(upload.weights, weight / weight.sum(1, keepdim=True)))

    def facts(self, clients: Clients, state: State) -> dict[str, Any]:
        """Tell how many clients' models a mean is of, itself among them: mean over clients, by round."""
        return {"accepted": [round(each, 3) for each in torch.stack(state.accepted).tolist()]} if state.accepted else {}
