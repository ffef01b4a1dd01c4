"""K generators of missing neighbours as one stacked model (FedSage+'s NeighGen), and its feature losses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor

from fgl_repro.data.graph import induced
from fgl_repro.nn import view as views_of
from fgl_repro.nn.ops import fan_in
from fgl_repro.nn.ragged import ClientStreams, grouped, positions
from fgl_repro.nn.sparse import SparseOp, csr_tensor, product

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.models.model import Params

CHUNK = 1 << 24
"""Numbers of one temporary matrix in a search for nearest vectors (64 MiB)."""


class Locals:
    """Graphs of G clients laid end to end, or what is left of them: n nodes in all.

    Attributes:
        nodes: Union node behind each node, int64 ``[n]``.
        ptr: Client g has nodes ``ptr[g]:ptr[g + 1]``.
        owner: Client of each node, int64 ``[n]``.
        features: ``[n, d]``, or block-diagonal ``[n, G * d]`` where they are sparse.
        adjacency: 0/1, ``[n, n]``.
        degree: Neighbours of each node, float ``[n, 1]``.
    """

    def __init__(self, graph: UnionGraph, clients: range, hidden: np.ndarray, device: torch.device) -> None:
        """Take a range of clients, without ``hidden`` nodes, bool ``[N]``."""
        inside = np.arange(graph.ptr[clients[0]], graph.ptr[clients[-1] + 1])
        self.nodes, self.clients = inside[~hidden[inside]], len(clients)
        owner, features = graph.owner[self.nodes] - clients[0], graph.base.features[graph.node[self.nodes]]
        self.features: Tensor | SparseOp
        if views_of.thin(features):
            self.features = SparseOp.of(views_of.by_client(features, owner, self.clients), device)
        else:
            self.features = torch.from_numpy(features.toarray()).to(device)
        self.owner = torch.from_numpy(owner).to(device)
        self.ptr = positions(self.owner, self.clients)
        adjacency = induced(graph.adjacency, self.nodes)
        self.adjacency = SparseOp.of(adjacency, device)
        self.degree = torch.from_numpy(np.diff(adjacency.indptr).astype(np.float32)).to(device).unsqueeze(1)

    def map(self, weight: Tensor) -> Tensor:
        """Multiply features by each client's own matrix ``[G, d, out]``: ``[n, out]``."""
        if isinstance(self.features, SparseOp):
            return self.features(weight.flatten(0, 1))
        return grouped(self.features, weight, None, self.ptr)


@dataclass(frozen=True)
class Pool:
    """Generated neighbours, by client.

    Attributes:
        features: ``[S, d]``.
        parent: Node each one hangs on, int64 ``[S]``.
        owner: Client, int64 ``[S]``, ascending.
        ptr: Client g has rows ``ptr[g]:ptr[g + 1]``.
    """

    features: Tensor
    parent: Tensor
    owner: Tensor
    ptr: list[int]


@dataclass(frozen=True)
class NeighGen:
    """Encoder, dGen, fGen and the internal classifier of the joint loss (sections 4.1 and 4.2 of FedSage's paper).

    Parameters, each with a leading client axis: encoder ``E1 E2`` and classifier ``C1 C2`` with biases ``e1 ... c2``;
    dGen ``D1 [128, 1]``; fGen ``F1 [128, 256]``, ``F2 [256, 2048]``, ``F3 [P, 2048, d]``. With ``sage`` a convolution
    is GraphSAGE's (Equation 1; neighbour map and root map side by side in the columns of the first weight); without,
    it is x W averaged over the closed neighbourhood, plus bias.
    """

    num_features: int
    num_classes: int
    sage: bool
    slots: int = 5
    hidden: int = 32
    latent: int = 128
    trunk: tuple[int, int] = (256, 2048)
    dropout: float = 0.5

    def init(self, rng: Generator) -> Params:
        """Draw one client's initial weights (no client axis), uniform with bound 1 / sqrt(fan-in).

        Without ``sage`` that of a convolution is 1 / sqrt(out), as in the released code.
        """
        d, h, z, p, (t1, t2) = self.num_features, self.hidden, self.latent, self.slots, self.trunk
        maps = 2 if self.sage else 1
        out: Params = {}
        for name, sizes in (("E", (d, h, z)), ("C", (d, h, self.num_classes))):
            for layer, (a, b) in enumerate(pairwise(sizes), 1):
                out[f"{name}{layer}"] = fan_in((a, maps * b), a if self.sage else b, rng)
                out[f"{name.lower()}{layer}"] = fan_in((b,), a if self.sage else b, rng)
        for name, shape in (("D1", (z, 1)), ("F1", (z, t1)), ("F2", (t1, t2)), ("F3", (p, t2, d))):
            out[name] = fan_in(shape, shape[-2], rng)
            out[name.lower()] = fan_in((*shape[:-2], shape[-1]), shape[-2], rng)
        return out

    def start(self, generators: list[Generator], device: torch.device) -> Params:
        """Draw trainable weights of G clients ``[G, ...]``, each from a generator of its own."""
        single = [self.init(rng) for rng in generators]
        return {name: torch.stack([p[name] for p in single]).to(device).requires_grad_() for name in single[0]}

    def numbers(self) -> int:
        """Count the parameters of one fGen."""
        (t1, t2), made = self.trunk, self.slots * self.num_features
        return (self.latent + 1) * t1 + (t1 + 1) * t2 + (t2 + 1) * made

    def encode(self, params: Params, local: Locals, streams: ClientStreams | None) -> Tensor:
        """Compute z_v of every node ``[n, z]``; ReLU after both layers, dropout between where ``streams`` are given."""
        return torch.relu(self._convolutions(params, "E", local, None, streams))

    def classify(self, params: Params, local: Locals, pool: Pool, streams: ClientStreams | None) -> Tensor:
        """Compute logits of every real node of the graph mended with ``pool``, ``[n, C]``."""
        logits = self._convolutions(params, "C", local, pool, streams)
        return logits if self.sage else torch.relu(logits)

    def count(self, params: Params, local: Locals, z: Tensor) -> Tensor:
        """Estimate, by dGen, the real-valued number of missing neighbours ``[n]``."""
        return torch.relu(grouped(z, params["D1"], params["d1"], local.ptr)).squeeze(1)

    def generate(
        self, params: Params, local: Locals, z: Tensor, counts: Tensor, streams: ClientStreams, drop: bool, sample: bool
    ) -> Pool:
        """Generate, by fGen, as many vectors for each node as ``counts`` says, out of a pool of P.

        Only what is used is computed: nodes with a positive count pass the trunk, chosen slots the last layer.

        Args:
            counts: int64 ``[n]`` in 0..P.
            drop: Whether dropout is on.
            sample: Take random slots of the pool (the paper's R) and not the first ones.
        """
        nodes = counts.nonzero().squeeze(1)
        owner = local.owner[nodes]
        ptr = positions(owner, local.clients)
        noisy = z[nodes] + streams.normal(ptr, self.latent)
        hidden = torch.relu(grouped(noisy, params["F1"], params["f1"], ptr))
        hidden = torch.relu(grouped(hidden, params["F2"], params["f2"], ptr))
        if drop:
            hidden = streams.dropout(hidden, self.dropout, ptr)
        rank = torch.arange(self.slots, device=z.device).expand(len(nodes), -1)
        if sample:
            rank = streams.uniform(ptr, self.slots).argsort(1).argsort(1)
        row, slot = (rank < counts[nodes].unsqueeze(1)).nonzero(as_tuple=True)
        group, order = torch.sort(owner[row] * self.slots + slot, stable=True)
        row = row[order]
        bounds = positions(group, local.clients * self.slots)
        made = torch.tanh(grouped(hidden, params["F3"].flatten(0, 1), params["f3"].flatten(0, 1), bounds, row))
        return Pool(made, nodes[row], owner[row], bounds[:: self.slots])

    def _convolutions(
        self, params: Params, name: str, local: Locals, pool: Pool | None, streams: ClientStreams | None
    ) -> Tensor:
        low = name.lower()
        made = None if pool is None else grouped(pool.features, params[f"{name}1"], None, pool.ptr)
        own, made = self._mix(local, local.map(params[f"{name}1"]), params[f"{low}1"], pool, made)
        own = torch.relu(own)
        if streams is not None:
            own = streams.dropout(own, self.dropout, local.ptr)
        own = grouped(own, params[f"{name}2"], None, local.ptr)
        if pool is not None and made is not None:
            made = torch.relu(made)
            if streams is not None:
                made = streams.dropout(made, self.dropout, pool.ptr)
            made = grouped(made, params[f"{name}2"], None, pool.ptr)
        return self._mix(local, own, params[f"{low}2"], pool, made)[0]

    def _mix(
        self, local: Locals, own: Tensor, bias: Tensor, pool: Pool | None, made: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Finish a convolution after its linear map, on real nodes ``[n, o]`` and generated ones ``[S, o]``.

        A generated node has one neighbour, its parent.
        """
        neighbour, root = own.chunk(2, dim=1) if self.sage else (own, own)
        total, count = local.adjacency(neighbour.contiguous()), local.degree
        generated = None
        if pool is not None and made is not None:
            others, itself = made.chunk(2, dim=1) if self.sage else (made, made)
            total = total.index_add(0, pool.parent, others)
            count = count + torch.bincount(pool.parent, minlength=len(own)).unsqueeze(1)
            of_parent = neighbour[pool.parent]
            generated = of_parent + itself if self.sage else (of_parent + itself) / 2
            generated = generated + bias[pool.owner]
        mean = total / count.clamp_min(1) + root if self.sage else (total + root) / (count + 1)
        return mean + bias[local.owner], generated


def nearest(made: Tensor, features: Tensor, candidates: Tensor, start: Tensor, count: Tensor) -> Tensor:
    """Find for each generated vector the closest of its own candidates, the first of equals, int64 ``[S]``.

    Args:
        made: ``[S, d]``.
        features: ``[N, d]``.
        candidates: Rows of ``features``, int64; those of vector s are ``start[s]``, ``start[s] + 1``, ...
        count: How many; at least one, int64 ``[S]``.
    """
    slot = torch.repeat_interleave(torch.arange(len(made), device=made.device), count)
    before = count.cumsum(0) - count
    pair = candidates[torch.arange(len(slot), device=made.device) + (start - before)[slot]]
    step = max(CHUNK // made.shape[1], 1)
    parts = [
        ((made[s] - features[c]) ** 2).sum(1)
        for s, c in zip(torch.split(slot, step), torch.split(pair, step), strict=True)
    ]
    distance = torch.cat(parts) if parts else made.new_zeros(0)
    least = distance.new_zeros(len(made)).scatter_reduce(0, slot, distance, "amin", include_self=False)
    place = torch.arange(len(slot), device=made.device)
    place = torch.where(distance == least[slot], place, len(slot))
    first = torch.full_like(start, len(slot)).scatter_reduce(0, slot, place, "amin")
    return pair[first]


class Others:
    """All clients' features, to search each client's for the vectors nearest to generated ones (Equation 6)."""

    def __init__(self, features: sp.csr_matrix, ptr: np.ndarray, device: torch.device) -> None:
        self.rows = torch.from_numpy(features.toarray()).to(device)
        self.ptr: list[int] = ptr.tolist()
        self._matrix = csr_tensor(features, device) if views_of.thin(features) else None
        self._half = (self.rows**2).sum(1, keepdim=True) / 2

    @torch.no_grad()
    def pull(self, made: Tensor, owner: int) -> Tensor:
        """Differentiate ``sum_j min_u |made - x_u|^2`` over nodes u of all clients j but ``owner``, ``[S, d]``."""
        out = torch.zeros_like(made)
        step = max(CHUNK // len(self.rows), 1)
        for start in range(0, len(made), step):
            part = made[start : start + step]
            if self._matrix is None:
                score = self._half - self.rows @ part.T
            else:
                score = self._half - product(self._matrix, part.T.contiguous())
            for k, (low, high) in enumerate(pairwise(self.ptr)):
                if k != owner:
                    out[start : start + step] += 2 * (part - self.rows[low + score[low:high].argmin(0)])
        return out
