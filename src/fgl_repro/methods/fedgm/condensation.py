"""FedGM's clients: each condenses its graph into a small one whose gradients, class by class, are like its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fgl_repro.core.streams import numpy_rng, torch_rng
from fgl_repro.fl.mixing import copied
from fgl_repro.fl.optim import StackedAdam
from fgl_repro.methods.condensing.predictor import predicted, predictor
from fgl_repro.methods.fedgm.gradients import Data, Map, by_class, distance, random_weights
from fgl_repro.nn.models.model import Params
from fgl_repro.nn.ops import normalised
from fgl_repro.nn.sparse import SparseOp
from fgl_repro.nn.view import thin

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.fedgm.method import FedGM
    from fgl_repro.nn.models.model import Layered

CYCLE, LINKS = 20, 5
"""Of so many steps in turn, the first so many train the link predictor, the others the features."""
MAP_FIRST_ABOVE = 1_000_000
"""Entries of a client's small graph's features above which they are mapped before they are propagated."""


@dataclass(frozen=True)
class Small:
    """A condensed graph: features ``[M, d]``, normalised adjacency ``[M, M]``, labels ``[M]``."""

    features: Tensor
    around: Tensor
    labels: Tensor

    @property
    def data(self) -> Data:
        """The graph as a network sees it."""
        return Data(Map.dense(self.around @ self.features), Map.dense(self.around), self.labels)

    @property
    def mapped_first(self) -> Data:
        """The same; features are propagated when they are few, after the first layer's map."""
        around = Map.dense(self.around)
        return Data(around.after(Map.dense(self.features)), around, self.labels)


def real(
    graph: UnionGraph, norm: sp.csr_matrix, propagated: sp.csr_matrix, rows: np.ndarray, device: torch.device
) -> Data:
    """Take the union nodes ``rows`` with their neighbours.

    Args:
        norm: Normalised adjacency ``[N, N]``.
        propagated: Features of all nodes, propagated once ``[N, d]``.
    """
    around = norm[rows]
    near = np.unique(around.indices)
    features = propagated[near]
    first = (
        Map.sparse(SparseOp.of(features, device))
        if thin(features)
        else Map.dense(torch.from_numpy(features.toarray()).to(device))
    )
    second = Map.sparse(SparseOp.of(around[:, near].tocsr(), device))
    return Data(first, second, torch.from_numpy(graph.labels[rows]).to(device))


def shares(counts: np.ndarray, rate: float) -> np.ndarray:
    """Count each class's nodes in the small graph, int64 ``[C]``: a share of all; the largest gets what is left."""
    own = np.floor(rate * counts).astype(np.int64)
    own[counts.argmax()] += int(np.floor(rate * counts.sum())) - own.sum()
    return own


class ClientCondensation:
    """The condensation of one client's graph.

    Attributes:
        counts: Nodes of each class ``[C]``.
        labels: Theirs, rare classes first.
        classes: Those that have nodes.
        weight: Of each of them in the loss.
        features: Learnt, from those of training nodes on.
        net: The link predictor.
        best: Both where the loss was least, and that loss.
    """

    def __init__(self, method: FedGM, clients: Clients, real: Data, k: int) -> None:
        graph, device = clients.world.graph, clients.device
        rows = clients.world.train_of[k]
        self.rng, node_rng = torch_rng(f"condensation/{k}", clients.seed), numpy_rng(f"condensation/{k}", clients.seed)
        self.method, self.real = method, real
        self.sizes = clients.model.num_features, cast("Layered", clients.model).hidden, clients.model.num_classes
        held = clients.world.class_counts[k]
        self.counts = shares(held, method.rate)
        order = [c for c in np.argsort(held, kind="stable") if self.counts[c]]
        self.labels = torch.from_numpy(np.repeat(order, self.counts[order]).astype(np.int64)).to(device)
        # The code lays out first features by class number and labels by class size.
        chosen = [np.empty(0, dtype=np.int64)]
        for c in order if method.as_paper else sorted(order):
            own, count = rows[graph.labels[rows] == c], self.counts[c]
            chosen.append(node_rng.choice(own, count, replace=count > len(own)))
        features = graph.base.features[graph.node[np.concatenate(chosen)]].toarray()
        self.features = {"X": torch.from_numpy(features).unsqueeze(0).to(device).requires_grad_()}
        self.net = {
            name: value.unsqueeze(0).to(device).requires_grad_()
            for name, value in predictor(self.sizes[0], method.links, self.rng).items()
        }
        self.classes = torch.from_numpy(np.flatnonzero(self.counts)).to(device)
        self.weight = torch.from_numpy(self.counts[self.counts > 0] / max(self.counts.max(), 1)).float().to(device)
        self.optimisers = StackedAdam(self.features, method.lr_features), StackedAdam(self.net, method.lr_links)
        self.least = torch.full((), torch.inf, device=device)
        self.best = copied({**self.features, **self.net})

    def around(self, net: Params, features: Tensor) -> Tensor:
        """Compute the normalised links ``[M, M]``; fewer than two nodes have none."""
        if len(features) < 2:
            return torch.eye(len(features), device=features.device)
        return normalised(predicted({name: value[0] for name, value in net.items()}, features))

    def run(self) -> Tensor:
        """Take all steps; return the last loss."""
        last = torch.zeros((), device=self.weight.device)
        if not len(self.labels):
            return last
        for number in range(self.method.iterations):
            weights = random_weights(*self.sizes, self.rng, self.weight.device)
            with torch.no_grad():
                target = by_class(weights, self.real, self.classes)
            of_links = number % CYCLE < LINKS
            optimiser, features, net = self.optimisers[of_links], self.features["X"][0], self.net
            if not of_links:  # no gradient is worked out that no step takes
                net = {name: value.detach() for name, value in net.items()}
            small = Small(features, self.around(net, features), self.labels)
            seen = small.mapped_first if features.numel() > MAP_FIRST_ABOVE else small.data
            loss = distance(by_class(weights, seen, self.classes), target, self.weight)
            grads = list(torch.autograd.grad(loss, optimiser.params, materialize_grads=True))
            last = loss.detach()
            with torch.no_grad():
                better = last < self.least
                self.least = torch.where(better, last, self.least)
                for name, value in {**self.features, **self.net}.items():
                    self.best[name] = torch.where(better, value, self.best[name])
            optimiser.step(grads)
        return last

    @torch.no_grad()
    def result(self) -> Small:
        """Return the graph where the loss was least."""
        features = self.best["X"][0]
        return Small(features, self.around({name: self.best[name] for name in self.net}, features), self.labels)

    @property
    def size(self) -> int:
        """Bytes of what the client sends."""
        net = sum(value.numel() for value in self.net.values())
        return 4 * (self.features["X"].numel() + net) + 8 * len(self.labels)
