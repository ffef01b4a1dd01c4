"""FED-PUB's network: any other one, whose weight matrices have personal masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from fgl_repro.nn.ops import glorot

if TYPE_CHECKING:
    import numpy as np

    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.models.model import Model, Params
    from fgl_repro.nn.view import View, Views


def kind(name: str) -> str:
    """Return the letter before the number of a tensor's layer: W of a matrix (``W1``, ``inner_W2``), M of a mask."""
    return name.rstrip("0123456789")[-1]


def mask_of(name: str) -> str:
    """Name the mask of a weight matrix: ``M1`` for ``W1``, ``inner_M2`` for ``inner_W2``."""
    return name.replace("W", "M")


@dataclass(frozen=True)
class MaskedModel:
    """Every weight matrix W of ``network`` is used as W * mu; parameters are the network's and the masks ``M1 M2 ...``.

    Biases, attention's scores, batch norms and embeddings of links have no masks. Training, that is a pass with a
    dropout stream, takes the plain product; any other pass zeroes it where |mu| is below the ``threshold``.
    """

    network: Model
    threshold: float = 0.0

    @property
    def num_features(self) -> int:
        return self.network.num_features

    @property
    def num_classes(self) -> int:
        return self.network.num_classes

    @property
    def fanout(self) -> int:
        return self.network.fanout

    @property
    def test_fanout(self) -> int:
        return self.network.test_fanout

    @property
    def linear(self) -> bool:
        return self.network.linear

    @property
    def depth(self) -> int:
        return self.network.depth

    @property
    def heads(self) -> int:
        return self.network.heads

    @property
    def kinds(self) -> int:
        return self.network.kinds

    def holders(self, name: str, clients: int) -> np.ndarray:
        return self.network.holders(name, clients)

    def init(self, rng: Generator) -> Params:
        """Draw a masked linear classifier Xavier-uniform, its bias too (as a 1 x C matrix); all else as unmasked."""
        single = self.network.init(rng)
        if not self.linear:
            return single
        weight, bias = f"W{self.depth}", f"b{self.depth}"
        hidden, classes = single[weight].shape
        return single | {weight: glorot((hidden, classes), rng), bias: glorot((1, classes), rng).squeeze(0)}

    def masks(self, weights: Params) -> Params:
        """Make the masks of these weights at the start: ones."""
        return {mask_of(name): torch.ones_like(value) for name, value in weights.items() if kind(name) == "W"}

    def weights(self, params: Params, training: bool) -> Params:
        """Return the network's weights as they are used, ``[K, ...]``; what has no masks any more stays as it is."""
        out: Params = {}
        for name, value in params.items():
            mask = params.get(mask_of(name)) if kind(name) == "W" else None
            if mask is not None:
                product = value * mask
                value = product if training else product.masked_fill_(mask.abs() < self.threshold, 0.0)
            if kind(name) != "M":
                out[name] = value
        return out

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> View:
        return self.network.view(views, graph, rows)

    def first(self, params: Params, view: Any) -> Tensor:
        return self.network.first(self.weights(params, training=True), view)

    def embed(self, params: Params, view: Any, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        return self.network.embed(self.weights(params, rng is not None), view, rng, first)

    def __call__(self, params: Params, view: Any, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        return self.network(self.weights(params, rng is not None), view, rng, first)
