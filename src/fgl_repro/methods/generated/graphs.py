"""Graphs that a server makes up: features from a conditional network, edges between nearest neighbours.

n nodes in C classes; K networks read K copies of one such graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fgl_repro.methods.generated.named import Named, mapped
from fgl_repro.nn.models.gcn import convolves_twice
from fgl_repro.nn.models.model import Model, Params
from fgl_repro.nn.ops import fan_in, normalised
from fgl_repro.nn.sparse import SparseOp, csr_tensor
from fgl_repro.nn.view import Linear, View

WIDTHS = (64, 128, 256)
"""Hidden layers of the network."""
LARGE = 500
"""Nodes of a graph from which on sparse products are faster on a CPU, each node having a handful of neighbours."""


def balanced(nodes: int, classes: int, device: torch.device) -> Tensor:
    """Label nodes in blocks, as many of each class, the last one with what is left: int64 ``[n]``."""
    return (torch.arange(nodes, device=device) // max(nodes // classes, 1)).clamp_max(classes - 1)


def network(noise: int, classes: int, width: int, rng: Generator, device: torch.device) -> Params:
    """Draw initial weights of the network, each ``[1, ...]``: an embedding of the classes, then linear maps."""
    out = {"E": torch.randn(classes, classes, generator=rng)}
    for layer, (a, b) in enumerate(pairwise((noise + classes, *WIDTHS, width)), 1):
        out[f"W{layer}"], out[f"b{layer}"] = fan_in((a, b), a, rng), fan_in((b,), a, rng)
    return {name: value.unsqueeze(0).to(device).requires_grad_() for name, value in out.items()}


def features(net: Params, noise: Tensor, labels: Tensor) -> Tensor:
    """Compute features ``[n, d]`` of nodes with this noise ``[n, z]`` and these labels ``[n]``."""
    hidden = torch.cat([noise, net["E"][0][labels]], dim=1)
    for layer in range(1, len(WIDTHS) + 1):
        hidden = torch.tanh(hidden @ net[f"W{layer}"][0] + net[f"b{layer}"][0])
    last = len(WIDTHS) + 1
    return hidden @ net[f"W{last}"][0] + net[f"b{last}"][0]


@dataclass(frozen=True)
class PseudoGraph:
    """Features ``[n, d]`` and the normalised adjacency ``[n, n]``, through which no gradient passes.

    Attributes:
        named: The same links, as models read them that are no GCN of two convolutions.
    """

    features: Tensor
    around: Tensor
    named: Named

    @staticmethod
    def of(features: Tensor, neighbours: int) -> PseudoGraph:
        """Link every node with those nearest to it by cosine, itself one of as many as ``neighbours``."""
        with torch.no_grad():
            unit = F.normalize(features)
            near = (unit @ unit.T).fill_diagonal_(2.0).topk(neighbours).indices
            links = torch.zeros(len(near), len(near), device=near.device).scatter_(1, near, 1.0)
            around = normalised(torch.maximum(links, links.T).fill_diagonal_(0.0))
        return PseudoGraph(features, around, Named(around))

    def moved(self, features: Tensor) -> PseudoGraph:
        """Give the same nodes and edges other features."""
        return PseudoGraph(features, self.around, self.named)

    def detached(self) -> PseudoGraph:
        """Return the same without gradient."""
        return self.moved(self.features.detach())

    @cached_property
    def average(self) -> Linear:
        """Averages around each node, ``[n, m] -> [n, m]``."""
        if len(self.around) < LARGE or self.around.device.type != "cpu":
            return lambda values: self.around @ values
        matrix = csr_tensor(sp.csr_matrix(self.around.numpy()), self.around.device)
        return SparseOp(matrix, matrix)  # it is symmetric

    @cached_property
    def propagated(self) -> Tensor:
        """Features averaged around each node ``[n, d]``."""
        return self.average(self.features)

    def logits(self, model: Model, params: Params, clients: int, rng: Generator | None) -> Tensor:
        """Return what K networks say of its nodes, ``[K, n, C]``; dropout when ``rng`` is given."""
        if convolves_twice(model):
            return model(params, self.view(clients), rng)
        first = {name: mapped(self.features, params[name]) for name in params if name.rpartition(".")[2] == "W1"}
        return model({**params, **first}, self.named.view(model, clients), rng)

    def view(self, clients: int) -> View:
        """Build the view that applies K networks of two convolutions to K copies of it."""
        nodes, device = len(self.features), self.features.device

        def first(weight: Tensor, bias: Tensor) -> Tensor:
            # One product serves all; there is no copy where weights are laid out as by `side_by_side`.
            wide = weight.transpose(0, 1).flatten(1)
            return (self.propagated @ wide).view(nodes, clients, -1).transpose(0, 1) + bias.unsqueeze(1)

        def second(values: Tensor) -> Tensor:
            if clients == 1:
                return self.average(values)
            return (self.around @ values.view(clients, nodes, -1)).flatten(0, 1)

        return View.of_all(first, second, clients, nodes, device)


def side_by_side(weight: Tensor) -> Tensor:
    """Lay ``[K, ...]`` out with the clients' first rows one after the other in memory, then their second rows."""
    return weight.transpose(0, 1).contiguous().transpose(0, 1) if weight.dim() == 3 else weight
