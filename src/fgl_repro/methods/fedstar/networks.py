"""FedStar's network: features and structure in two channels, of which the first hears the second."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Generator, Tensor

from fgl_repro.methods.fedstar.encoding import WIDTHS, encoding
from fgl_repro.nn.graphs import GraphsView, Inside, spans
from fgl_repro.nn.models.gin import GIN, affine, norm
from fgl_repro.nn.models.model import Params
from fgl_repro.nn.ops import dropout, glorot
from fgl_repro.nn.ragged import grouped

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.view import Views

STRUCTURE = "structure_"
"""What the names of the shared tensors begin with."""


@dataclass(frozen=True)
class PlacedView(GraphsView):
    """A view of graphs whose inner nodes have encodings of their places.

    Attributes:
        places: Their encodings, ``[n, 32]`` or ``[n, 16]``.
        scale: (degree + 1)^-1/2, ``[n, 1]``.
    """

    places: Tensor
    scale: Tensor

    def convolved(self, values: Tensor) -> Tensor:
        """Multiply values of the inner nodes by D^-1/2 (A + I) D^-1/2, with degrees of A + I, ``[n, F]``."""
        scaled = values * self.scale
        return (scaled + self.links(scaled)) * self.scale


@dataclass(frozen=True)
class TwoChannels(GIN):
    """Of features x and encodings of places s, with layers l = 2 to L + 1:

        x <- GIN_l([x | s]),   s <- tanh(GCN_l(s)),

    both from the s before. A graph is the mean over its nodes of a linear map of [x | s], which the GIN's perceptron
    reads. Parameters: as the GIN's, with an ``inner_W`` of 2H rows and a ``bond`` as wide; ``structure_W1 [K, 32, H],
    structure_b1``, of layer l ``structure_W [K, H, H], structure_b``; ``joint_W [K, 2H, H], joint_b`` of the map after
    the last layer.

    Attributes:
        own: Whether GIN_l is FedStar's, dropout(ReLU(Linear(H, H)(ReLU(Linear(2H, H)(sum over v and its neighbours)))))
            without batch norms and categories of links.
        total: Whether a graph is the sum over its nodes.
        encoding: What encodings of places tell (``encoding.py``).
    """

    own: bool = False
    total: bool = False
    encoding: str = "both"

    def init(self, rng: Generator) -> Params:
        """Draw one network's initial weights: Glorot embeddings and convolutions, torch's default for linear maps."""
        width, last = self.hidden, self.layers + 1
        wide = width if self.own else 2 * width
        out = self.mapped(rng) | affine(STRUCTURE, 1, WIDTHS[self.encoding], width, rng)
        for layer in range(2, last + 1):
            out |= affine("inner_", layer, 2 * width, wide, rng) | affine("", layer, wide, width, rng)
            if not self.own:
                out |= norm("inner_", layer, wide) | norm("", layer, width)
                out[f"bond{layer}"] = torch.cat([glorot((values, 2 * width), rng) for values in self.bonds])
            out |= {f"{STRUCTURE}W{layer}": glorot((width, width), rng), f"{STRUCTURE}b{layer}": torch.zeros(width)}
        out |= affine("joint_", last, 2 * width, width, rng)
        for layer, to in ((self.depth - 1, width), (self.depth, self.num_classes)):
            out |= affine("", layer, width, to, rng)
        return out

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> PlacedView:
        """View the insides of the graphs ``rows``, with the places of their nodes, which are encoded once for all."""
        plain = super().view(views, graph, rows)
        inside = views.once(graph, "inside", lambda: Inside.of(graph, views.device))
        places = views.once(graph, "places", lambda: encoding(inside, self.encoding).to(views.device))
        nodes = spans(inside.ptr[plain.rows], plain.sizes)
        scale = (inside.start[nodes + 1] - inside.start[nodes] + 1.0) ** -0.5
        return PlacedView(
            **{f.name: getattr(plain, f.name) for f in fields(plain)},
            places=places.index_select(0, torch.from_numpy(nodes).to(views.device)),
            scale=torch.from_numpy(scale.astype(np.float32)).unsqueeze(1).to(views.device),
        )

    def nodes(
        self, params: Params, view: GraphsView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Compute embeddings of the inner nodes after the last map, ``[n, H]``."""
        assert isinstance(view, PlacedView)

        def mapped(values: Tensor, kind: str, layer: int) -> Tensor:
            return grouped(values, params[f"{kind}W{layer}"], params[f"{kind}b{layer}"], view.ptr)

        values = self.first(params, view) if first is None else first
        places, last = mapped(view.places, STRUCTURE, 1), self.layers + 1
        for layer in range(2, last + 1):
            values = self.layer(params, layer, torch.cat([values, places], dim=1), view, rng)
            places = torch.tanh(mapped(view.convolved(places), STRUCTURE, layer))
        return mapped(torch.cat([values, places], dim=1), "joint_", last)

    def layer(
        self, params: Params, layer: int, values: Tensor, view: GraphsView, rng: Generator | None = None
    ) -> Tensor:
        """Apply one convolution to the features, ``[n, H]`` from ``[n, 2H]``."""
        if not self.own:
            return super().layer(params, layer, values, view, rng)
        values = values + view.links(values)
        for kind in ("inner_", ""):
            values = torch.relu(grouped(values, params[f"{kind}W{layer}"], params[f"{kind}b{layer}"], view.ptr))
        return values if rng is None else dropout(values, self.dropout, rng)

    def embed(
        self, params: Params, view: GraphsView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        values = self.nodes(params, view, rng, first)
        return view.totals(values) if self.total else view.pooled(values)
