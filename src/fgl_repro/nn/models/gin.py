"""K graph isomorphism networks as one stacked model: FedVN's architecture for predictions about whole graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Generator, Tensor

from fgl_repro.nn.graphs import GraphsView, of_graphs
from fgl_repro.nn.norm import batch_norm
from fgl_repro.nn.ops import dropout, fan_in, glorot, linear
from fgl_repro.nn.ragged import grouped

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.models.model import Params
    from fgl_repro.nn.view import Views

NORM = GAIN, SHIFT = "gain", "shift"
"""What a batch norm's tensors are called, before the number of their layer."""
BONDS = (5, 6, 2)
"""Categories of links in molecules: kind, stereo, conjugated."""


@dataclass(frozen=True)
class GIN:
    """A linear map of features, graph isomorphism layers, the mean over each graph's nodes, and a perceptron.

    Layer l (Xu et al., "How Powerful are Graph Neural Networks?", ICLR 2019, with epsilon 0):

        h_v <- MLP_l(h_v + sum_u h_u),  MLP_l = Linear(H, 2H), BatchNorm, ReLU, Linear(2H, H),

    then BatchNorm, ReLU (not after the last) and dropout; where links have categories, the message of u is ReLU(h_u +
    embedding of the link) (Hu et al., ICLR 2020). Every batch norm takes the statistics of the batch at hand, in tests,
    too, where batches are cut as :func:`fgl_repro.nn.graphs.norm_order` says. Parameters, with a leading client axis:
    ``W1 [K, d, H]``, ``b1 [K, H]`` (none where features are categories); of layer l from 2: ``inner_W, inner_b,
    inner_gain, inner_shift`` of 2H, ``W, b, gain, shift`` of H and ``bond [K, B, H]``; of the perceptron the last two
    ``W`` and ``b``. Names end with the number of their layer.

    Attributes:
        hidden: Width H.
        layers: Number of isomorphism layers.
        dropout: Share of hidden values that training drops.
        together: Graphs of a client whose nodes share the statistics of a batch norm; 0: all.
        fields: Widths of the categories among the features; empty: they are numbers.
        bonds: Widths of the categories of links; their embeddings are there, and are sent, where no link has any.
    """

    num_features: int
    num_classes: int
    hidden: int = 100
    dropout: float = 0.5
    layers: int = 3
    together: int = 32
    fields: tuple[int, ...] = ()
    bonds: tuple[int, ...] = BONDS

    fanout = test_fanout = 0
    linear = False
    heads = 2
    kinds = 1

    @property
    def depth(self) -> int:
        return self.layers + 3

    def holders(self, name: str, clients: int) -> np.ndarray:
        """Return all clients."""
        return np.arange(clients)

    def init(self, rng: Generator) -> Params:
        """Draw one network's initial weights (no client axis): Glorot embeddings, torch's default for linear maps."""
        out = self.mapped(rng)
        for layer in range(2, self.layers + 2):
            out |= self.isomorphism(layer, rng)
        for layer, width in ((self.depth - 1, self.hidden), (self.depth, self.num_classes)):
            out |= affine("", layer, self.hidden, width, rng)
        return out

    def mapped(self, rng: Generator) -> Params:
        """Draw the weights of the map of features."""
        if not self.fields:
            return affine("", 1, self.num_features, self.hidden, rng)
        return {"W1": torch.cat([glorot((width, self.hidden), rng) for width in self.fields])}

    def isomorphism(self, layer: int, rng: Generator) -> Params:
        """Make the weights of one layer of its convolutions, and of the batch norm that follows."""
        wide = 2 * self.hidden
        return {
            **affine("inner_", layer, self.hidden, wide, rng),
            **norm("inner_", layer, wide),
            **affine("", layer, wide, self.hidden, rng),
            **norm("", layer, self.hidden),
            f"bond{layer}": torch.cat([glorot((width, self.hidden), rng) for width in self.bonds]),
        }

    @staticmethod
    def normalises(name: str) -> bool:
        """Tell whether a tensor belongs to a batch norm."""
        return name.rstrip("0123456789").endswith(NORM)

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> GraphsView:
        """View the insides of the graphs ``rows``."""
        return of_graphs(views, graph, rows, self.together)

    def first(self, params: Params, view: GraphsView) -> Tensor:
        """Map the features of the inner nodes, ``[n, H]``."""
        return grouped(view.features, params["W1"], params.get("b1"), view.ptr)

    def nodes(
        self, params: Params, view: GraphsView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Compute embeddings of the inner nodes after the last layer, ``[n, H]``."""
        values = self.first(params, view) if first is None else first
        for layer in range(2, self.layers + 2):
            values = self.layer(params, layer, values, view, rng)
        return values

    def layer(
        self, params: Params, layer: int, values: Tensor, view: GraphsView, rng: Generator | None = None
    ) -> Tensor:
        """Apply one convolution and what follows it, ``[n, H]``."""

        def normed(rows: Tensor, name: str, relu: bool) -> Tensor:
            return batch_norm(rows, params[f"{name}{GAIN}{layer}"], params[f"{name}{SHIFT}{layer}"], view.groups, relu)

        if view.bonds is None:
            values = values + view.links(values)
        else:
            kinds = grouped(view.bonds.codes, params[f"bond{layer}"], None, view.bonds.ptr)
            values = values + view.bonds.collect(torch.relu(view.bonds.pick(values) + kinds))
        values = grouped(values, params[f"inner_W{layer}"], params[f"inner_b{layer}"], view.ptr)
        values = normed(values, "inner_", relu=True)
        values = grouped(values, params[f"W{layer}"], params[f"b{layer}"], view.ptr)
        values = normed(values, "", relu=layer <= self.layers)
        return values if rng is None else dropout(values, self.dropout, rng)

    def embed(
        self, params: Params, view: GraphsView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Embed the graphs, ``[K, r, H]``; dropout when ``rng`` is given."""
        return view.pooled(self.nodes(params, view, rng, first))

    def head(self, params: Params, embedded: Tensor, rng: Generator | None) -> Tensor:
        """Compute outputs ``[K, r, C]`` from embeddings of graphs."""
        last = self.depth
        values = torch.relu(linear(embedded, params[f"W{last - 1}"], params[f"b{last - 1}"]))
        values = values if rng is None else dropout(values, self.dropout, rng)
        return linear(values, params[f"W{last}"], params[f"b{last}"])

    def __call__(
        self, params: Params, view: GraphsView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Compute outputs for the view's rows, ``[K, r, C]``; dropout when ``rng`` is given."""
        return self.head(params, self.embed(params, view, rng, first), rng)


def affine(kind: str, layer: int, width: int, to: int, rng: Generator) -> Params:
    """Draw the weights of a linear map as torch draws them."""
    weight = fan_in((width, to), width, rng)
    return {f"{kind}W{layer}": weight, f"{kind}b{layer}": fan_in((to,), width, rng)}


def norm(kind: str, layer: int, width: int) -> Params:
    """Make the weights of a batch norm at the start."""
    return {f"{kind}{GAIN}{layer}": torch.ones(width), f"{kind}{SHIFT}{layer}": torch.zeros(width)}
