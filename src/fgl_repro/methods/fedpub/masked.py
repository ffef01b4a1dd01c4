"""FED-PUB's network: a GCN whose weight matrices have personal masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from fgl_repro.nn.models.gcn import GCN
from fgl_repro.nn.ops import glorot

if TYPE_CHECKING:
    from fgl_repro.nn.models.model import Params
    from fgl_repro.nn.view import View

MASK_OF = {"W1": "M1", "W2": "M2", "W3": "M3"}
"""Name of the mask of each masked weight; biases have none."""


@dataclass(frozen=True)
class MaskedGCN(GCN):
    """Every weight matrix W is used as W * mu; parameters are the GCN's and the masks ``M1 M2 M3``.

    Training, that is a pass with a dropout stream, takes the plain product; any other pass zeroes it where |mu| is
    below the ``threshold``.
    """

    threshold: float = 0.0

    def init(self, rng: Generator) -> Params:
        """The masked classifier is Xavier-uniform, its bias too (as a 1 x C matrix); convolutions as in the GCN."""
        single = super().init(rng)
        hidden, classes = single["W3"].shape
        return single | {"W3": glorot((hidden, classes), rng), "b3": glorot((1, classes), rng).squeeze(0)}

    def masks(self, weights: Params) -> Params:
        """Masks of these weights at the start: ones."""
        return {mask: torch.ones_like(weights[name]) for name, mask in MASK_OF.items()}

    def weights(self, params: Params, training: bool) -> Params:
        """The GCN's weights as they are used, ``[K, ...]``; what has no masks any more stays as it is."""
        out = {name: value for name, value in params.items() if name not in MASK_OF.values()}
        for name, mask in MASK_OF.items():
            if mask in params:
                product = params[name] * params[mask]
                out[name] = product if training else product.masked_fill_(params[mask].abs() < self.threshold, 0.0)
        return out

    def first(self, params: Params, view: View) -> Tensor:
        return super().first(self.weights(params, training=True), view)

    def embed(self, params: Params, view: View, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        return super().embed(self.weights(params, rng is not None), view, rng, first)

    def __call__(self, params: Params, view: View, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        return super().__call__(self.weights(params, rng is not None), view, rng, first)
