"""GHOST's clients: each trains a generator whose nodes look and are linked like its training nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fgl_repro.core.streams import torch_rng
from fgl_repro.fl.optim import StackedAdam
from fgl_repro.fl.phase import Turn
from fgl_repro.fl.steps import Step, descend
from fgl_repro.methods.generated.graphs import WIDTHS, network
from fgl_repro.methods.ghost.transport import conditional, proximal, squared_distances
from fgl_repro.nn.adjacency import with_loops
from fgl_repro.nn.models.model import Params
from fgl_repro.nn.ops import broadcast, dropout, linear
from fgl_repro.nn.sparse import SparseOp, csr_tensor, product
from fgl_repro.nn.view import Linear, Padded, thin

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.ghost.method import Ghost

NOISE = 64
"""Random numbers that a node is made of."""
PIECE = 500_000
"""Entries of couplings that are worked out together, about as many as a cache holds."""
TOGETHER = 20_000_000
"""Entries of features up to which clients are worked out together; the padding of more costs memory and time."""


def generated(nets: Params, noise: Tensor, labels: Tensor, rate: float, rng: Generator) -> Tensor:
    """Generate features ``[G, n, d]`` by G generators from noise ``[G, n, z]`` and labels ``[G, n]``, with dropout."""
    return linear(before(nets, noise, labels, rate, rng), *last(nets))


def last(nets: Params) -> tuple[Tensor, Tensor]:
    """Return weights and biases of the last map, which features come from."""
    layer = len(WIDTHS) + 1
    return nets[f"W{layer}"], nets[f"b{layer}"]


def before(nets: Params, noise: Tensor, labels: Tensor, rate: float, rng: Generator) -> Tensor:
    """Compute what the last map of :func:`generated` reads ``[G, n, H]``."""
    classes = nets["E"].shape[2]
    named = nets["E"].gather(1, labels.unsqueeze(2).expand(-1, -1, classes))
    hidden = torch.cat([noise, named], dim=2)
    for layer in range(1, len(WIDTHS) + 1):
        hidden = dropout(torch.tanh(linear(hidden, nets[f"W{layer}"], nets[f"b{layer}"])), rate, rng)
    return hidden


@dataclass(frozen=True)
class Piece:
    """P clients whose couplings are worked out together: few enough for a cache.

    Attributes:
        who: These clients.
        width: Most training nodes that one of them has.
        links: Between their training nodes, ``[P * width, P * width]``.
    """

    who: slice
    width: int
    links: Tensor

    @staticmethod
    def of(who: slice, graph: UnionGraph, rows: np.ndarray, links: sp.csr_matrix, device: torch.device) -> Piece:
        """Take clients ``who`` with links among their nodes in ``rows`` from those of all nodes ``[N, N]``."""
        own = rows[(graph.owner[rows] >= who.start) & (graph.owner[rows] < who.stop)]
        places = Padded.of(own, graph)
        part = slice(who.start * places.width, who.stop * places.width)
        return Piece(who, places.width, csr_tensor(places.place(links[own][:, own], places)[part, part], device))

    def ours(self, values: Tensor) -> Tensor:
        """Sum over real neighbours, ``[P, width, m] -> [P, width, m]``."""
        return product(self.links, values.flatten(0, 1)).view_as(values)


@dataclass(frozen=True)
class ClientPart:
    """P clients whose features are worked out together: all of them or, where these are too many, one.

    Attributes:
        features: Of their training nodes, ``[P, width, d]``.
        targets: What generated nodes are held to, ``[P, width, d]``.
        mask: 1.0 at real rows, ``[P, width]``.
        pieces: The same clients again, with places among them.
        times: Product with the features of the one client, where they are thin.
    """

    features: Tensor
    targets: Tensor
    mask: Tensor
    pieces: list[Piece]
    times: Linear | None

    @staticmethod
    def of(who: slice, graph: UnionGraph, rows: np.ndarray, links: sp.csr_matrix, device: torch.device) -> ClientPart:
        """Take clients ``who`` with links among their nodes in ``rows`` from those of all nodes ``[N, N]``."""
        some, nodes = graph.of_clients(np.arange(who.start, who.stop))
        own = np.flatnonzero(np.isin(nodes, rows, assume_unique=True))
        places, found = Padded.of(own, some), graph.base.features[some.node[own]]
        real = torch.from_numpy(places.scatter(found.toarray())).to(device)
        size = max(PIECE // places.width**2, 1)
        pieces = [
            Piece.of(slice(first, min(first + size, places.clients)), some, own, links[nodes][:, nodes], device)
            for first in range(0, places.clients, size)
        ]
        alone = SparseOp.of(found, device) if graph.num_clients > places.clients == 1 and thin(found) else None
        mask = torch.from_numpy(places.scatter(np.ones(len(own), np.float32))).to(device)
        return ClientPart(real, torch.softmax(real, 2), mask, pieces, alone)

    def mean(self, values: Tensor) -> Tensor:
        """Average over each client's rows, ``[P, width] -> [P]``."""
        return (values * self.mask).sum(1) / self.mask.sum(1).clamp_min(1)


class Training:
    """The generators' training, all clients at once; r training nodes each, r the most that one has."""

    def __init__(self, method: Ghost, clients: Clients) -> None:
        graph, rows, device = clients.world.graph, clients.world.train, clients.device
        self.method = method
        one = network(
            NOISE, graph.base.num_classes, graph.base.num_features, torch_rng("proxies", clients.seed), device
        )
        self.nets = {name: value.clone().requires_grad_() for name, value in broadcast(one, clients.count).items()}
        self.optimiser = StackedAdam(self.nets, method.lr_generator, method.weight_decay)
        self.noise = torch_rng("proxy-noise", clients.seed)
        self.dropout = torch_rng("proxy-dropout", clients.seed, str(device))
        self.labels = clients.inputs.train.labels
        links = graph.adjacency
        if method.as_paper:
            links = with_loops(links)
        size = clients.count if self.labels.numel() * graph.base.num_features <= TOGETHER else 1
        self.parts = [
            ClientPart.of(slice(first, first + size), graph, rows, links, device)
            for first in range(0, clients.count, size)
        ]

    def theirs(self, features: Tensor, mask: Tensor) -> Tensor | None:
        """Build the structure of the generated nodes ``[K, r, r]``; in the release the identity."""
        if not self.method.as_paper:
            return None
        unit = F.normalize(features.detach(), dim=2)
        alike = (unit @ unit.transpose(1, 2)).masked_fill(mask.unsqueeze(1) == 0, -2.0)
        near = alike.topk(min(self.method.neighbours, alike.shape[2]), dim=2).indices
        links = torch.zeros_like(alike).scatter_(2, near, 1.0)
        links = torch.maximum(links, links.transpose(1, 2))
        links.diagonal(dim1=1, dim2=2).fill_(1.0)
        return links * mask.unsqueeze(1) * mask.unsqueeze(2)

    def loss(self, step: Step) -> Tensor:
        """Compute the loss of each client ``[K]``."""
        noise = torch.randn(*self.labels.shape, NOISE, generator=self.noise).to(self.labels.device)
        hidden = before(self.nets, noise, self.labels, self.method.dropout, self.dropout)
        each = (torch.split(values, len(self.parts[0].mask)) for values in (hidden, *last(self.nets)))
        return torch.cat([self.client_losses(*part) for part in zip(self.parts, *each, strict=True)])

    def client_losses(self, part: ClientPart, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Compute the loss of clients of a part ``[P]`` from what their generators' last maps read ``[P, r, H]``."""
        method, real = self.method, part.features
        made = linear(hidden[:, : real.shape[1]], weight, bias)
        gap = (part.targets * (torch.log_softmax(real, 2) - torch.log_softmax(made, 2))).sum(2)
        found = part.mean(method.distributed * gap + 1 - F.cosine_similarity(real, made, dim=2))
        if not method.aligned:
            return found
        pieces = zip(part.pieces, torch.split(made, part.pieces[0].who.stop), strict=True)
        apart = torch.cat([self.distance(part, piece, own) for piece, own in pieces])
        return found + method.aligned * (1 - method.structure) * apart

    def distance(self, part: ClientPart, piece: Piece, made: Tensor) -> Tensor:
        """Compute what each client of a piece of a part pays to move real nodes to generated ones ``[P, r, d]``."""
        real, mask = (values[piece.who, : piece.width] for values in (part.features, part.mask))
        made = made[:, : piece.width]
        cost = squared_distances(real, made, part.times)
        find = proximal if self.method.couplings == "proximal" else conditional
        plan = find(cost.detach(), mask, piece.ours, self.theirs(made, mask), self.method.structure)
        return (plan * cost).sum((1, 2))

    def turn(self, steps: int) -> Turn:
        """Take so many steps."""
        return Turn({"loss": float(descend((Step(None) for _ in range(steps)), self.loss, [self.optimiser]).mean())})
