"""K GraphSAGEs whose layers keep neighbours and own features in halves of their output (FedSage's classifier).

The mean aggregator of StellarGraph, which FedSage's code uses, concatenates after the linear maps; PyG's SAGEConv adds.
There a neighbour that is missing has hidden features relu(b), here 0; it happens at nodes without neighbours alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fgl_repro.nn.models.sage import SAGE, SageView
from fgl_repro.nn.ops import glorot
from fgl_repro.nn.sampling import Drawn

if TYPE_CHECKING:
    from fgl_repro.nn.models.model import Params
    from fgl_repro.nn.view import View


@dataclass(frozen=True)
class SageHalves(SAGE):
    """d -> H -> H/2 -> C with H = 64 in FedSage: ReLU between the layers, embeddings of length 1, then linear.

    A layer is ``[mean of neighbours W_n | own W_s] + b``. Parameters, each with a leading client axis:
    ``W1 [K, 2d, H/2]``, ``b1 [K, H]``, ``W2 [K, 2H, H/4]``, ``b2 [K, H/2]``, ``W3 [K, H/2, C]``, ``b3 [K, C]``; in W1
    and W2 the rows of W_n lie above those of W_s. Keras' initial values: Glorot for each map, zero biases.
    """

    def init(self, rng: Generator) -> Params:
        d, h, o, c = self.num_features, self.hidden, self.output, self.num_classes
        return {
            "W1": torch.cat([glorot((d, h // 2), rng) for _ in range(2)]),
            "b1": torch.zeros(h),
            "W2": torch.cat([glorot((h, o // 2), rng) for _ in range(2)]),
            "b2": torch.zeros(o),
            "W3": glorot((o, c), rng),
            "b3": torch.zeros(c),
        }

    def first(self, params: Params, view: View) -> Tensor:
        if isinstance(view.dense, Drawn):
            return view.dense.halves(params["W1"]) + params["b1"].unsqueeze(1)
        mean, root = params["W1"].chunk(2, dim=1)
        blocks = torch.cat([F.pad(mean, (0, root.shape[2])), F.pad(root, (mean.shape[2], 0))], dim=1)
        return super().first({**params, "W1": blocks}, view)

    def second(self, params: Params, mean: Tensor, own: Tensor) -> Tensor:
        maps = params["W2"].chunk(2, dim=1)
        return torch.cat([mean @ maps[0], own @ maps[1]], dim=2) + params["b2"].unsqueeze(1)

    def embed(
        self, params: Params, view: SageView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Embeddings of the view's rows, ``[K, r, H/2]``, each of length 1; dropout when ``rng`` is given."""
        return F.normalize(super().embed(params, view, rng, first), dim=2)
