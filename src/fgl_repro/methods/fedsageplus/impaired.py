"""Local graphs made worse: nodes hidden from a client's graph, whose generator learns from what it lost."""

from __future__ import annotations

from copy import copy
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.core.errors import UserError
from fgl_repro.federation.world import UnionGraph, World
from fgl_repro.methods.fedsageplus.neighgen import Locals, Pool, nearest
from fgl_repro.nn.ragged import ClientStreams, client_sums


class Impaired:
    """Graphs of G clients without their hidden nodes: n nodes are left.

    Attributes:
        local: The graphs.
        missing: True number n_v of hidden neighbours, float ``[n]``.
        candidates: Hidden neighbours as union nodes; those of node v start at ``start[v]``, ``count[v]`` of them.
        weight: 1 / (number of the client's nodes under loss) at those nodes, 0 elsewhere, ``[n]``.
        labelled: Nodes with a training label, int64 ``[m]``.
        labels: Their classes, int64 ``[m]``.
        label_weight: 1 / (number of the client's labelled nodes), ``[m]``.
    """

    def __init__(
        self,
        world: World,
        clients: range,
        hidden: np.ndarray,
        under_loss: np.ndarray,
        most: int | None,
        device: torch.device,
    ) -> None:
        """Cut the graphs of a range of clients.

        Args:
            hidden: Which union nodes are hidden, bool ``[N]``.
            under_loss: Which take part in the losses on counts and features if they are not hidden, bool ``[N]``.
            most: How many hidden neighbours may be targets of a node's generated ones; None: all.
        """
        graph, tensor = world.graph, partial(torch.as_tensor, device=device)
        self.local = Locals(graph, clients, hidden, device)
        nodes, gone = self.local.nodes, np.flatnonzero(hidden)
        lost = graph.adjacency[nodes][:, gone].sorted_indices()
        number, owner = np.diff(lost.indptr), self.local.owner.cpu().numpy()
        self.missing = tensor(number.astype(np.float32))
        self.start = tensor(lost.indptr[:-1].astype(np.int64))
        self.count = tensor(np.minimum(number, most or number).astype(np.int64))
        self.candidates = tensor(gone[lost.indices])
        self.weight = tensor(_shares(owner, under_loss[nodes].astype(np.float32), len(clients)))
        labelled = np.flatnonzero(np.isin(nodes, world.train))
        self.labelled, self.labels = tensor(labelled), tensor(graph.labels[nodes[labelled]])
        self.label_weight = tensor(_shares(owner[labelled], np.ones(len(labelled), np.float32), len(clients)))

    def sampled(self, most: int, streams: ClientStreams) -> Impaired:
        """Copy this with losses over random nodes V^t of each client, at most so many (Algorithm 1, step C)."""
        owner, ptr = self.local.owner, torch.tensor(self.local.ptr, device=self.missing.device)
        order = (owner + streams.uniform(self.local.ptr, 1).squeeze(1).double()).argsort()
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device) - ptr[owner]
        share = 1 / ptr.diff().clamp(1, most).float()
        out = copy(self)
        out.weight = torch.where(rank < most, share[owner], 0.0)
        return out

    def mean(self, values: Tensor) -> Tensor:
        """Average over each client's nodes under loss, ``[n]`` to ``[G]``."""
        return client_sums(values * self.weight, self.local.owner, self.local.clients)

    def count_loss(self, estimate: Tensor) -> Tensor:
        """Compute L^d ``[G]`` of real-valued counts n~_v ``[n]`` (Equation 4)."""
        return self.mean(F.smooth_l1_loss(estimate, self.missing, reduction="none"))

    def feature_loss(self, pool: Pool, rows: Tensor, candidates: Tensor, start: Tensor) -> Tensor:
        """Compute L^f ``[G]``: squared distance of each generated vector to its parent's nearest target (Equation 4).

        Args:
            rows: Features, ``[N, d]``.
            candidates: Targets as rows; a node's start at ``start[v]`` and are as many as its hidden neighbours.
        """
        slots = (self.count * self.weight)[pool.parent].nonzero().squeeze(1)
        parent, made = pool.parent[slots], pool.features[slots]
        with torch.no_grad():
            target = nearest(made, rows, candidates, start[parent], self.count[parent])
        square = ((made - rows[target]) ** 2).sum(1)
        return client_sums(square * self.weight[parent], pool.owner[slots], self.local.clients)

    def label_loss(self, logits: Tensor) -> Tensor:
        """Compute L^c ``[G]``: mean cross-entropy of training nodes that are left (Equation 2); logits ``[n, C]``."""
        loss = F.cross_entropy(logits[self.labelled], self.labels, reduction="none") * self.label_weight
        return client_sums(loss, self.local.owner[self.labelled], self.local.clients)

    def strangers(self, graph: UnionGraph, owners: list[int], each: int, rngs: list[np.random.Generator]) -> Tensor:
        """Draw neighbours of random nodes of other clients, ``each`` for every node with targets, rows for L^f.

        Every draw is with replacement; nodes without neighbours are never drawn. Each of these clients looks at one of
        the ``owners``, by a stream of its own.

        Raises:
            UserError: One of the ``owners`` has no link.
        """
        nodes = self.targeted
        sizes = torch.bincount(self.local.owner[nodes], minlength=self.local.clients).tolist()
        found = []
        for owner, size, rng in zip(owners, sizes, rngs, strict=True):
            pointers = graph.adjacency.indptr[graph.ptr[owner] : graph.ptr[owner + 1] + 1].astype(np.int64)
            degree = np.diff(pointers)
            connected = np.flatnonzero(degree)
            if not len(connected):
                raise UserError(
                    f"Client {owner} of {graph.base.name} has no link, and so no neighbours that FedSage+'s release "
                    "could show the other clients: lower partitioner.clients, take another partitioner, or set "
                    "method.variant=paper."
                )
            node = connected[(rng.random(size) * len(connected)).astype(np.int64)]
            place = pointers[node, None] + (rng.random((size, each)) * degree[node, None]).astype(np.int64)
            found.append(graph.adjacency.indices[place].astype(np.int64).ravel())
        return torch.from_numpy(np.concatenate(found)).to(nodes.device)

    @property
    def targeted(self) -> Tensor:
        """Nodes under loss with at least one hidden neighbour, int64."""
        return (self.count * self.weight).nonzero().squeeze(1)


def _shares(owner: np.ndarray, marked: np.ndarray, clients: int) -> np.ndarray:
    """Return 1 / (marked rows of the client) at those rows, 0 elsewhere."""
    total = np.bincount(owner, weights=marked, minlength=clients)
    return np.asarray(marked / np.maximum(total, 1)[owner], dtype=np.float32)
