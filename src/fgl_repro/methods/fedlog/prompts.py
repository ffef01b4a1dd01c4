"""FedLoG's prompt generators: one feature vector for a node, standing in for its neighbourhood (4.3, A.7)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from fgl_repro.nn.ops import dropout, fan_in, linear

if TYPE_CHECKING:
    from fgl_repro.nn.models.model import Params

WIDTHS = (256, 512)
DROPOUT = 0.5


def generators(num_features: int, copies: int, rng: Generator) -> Params:
    """``copies`` independent generators d -> 256 -> 512 -> d, leaves ``[copies, ...]``."""
    widths = (num_features, *WIDTHS, num_features)
    out = {}
    for number, (fan, to) in enumerate(pairwise(widths), 1):
        out[f"G{number}"] = fan_in((copies, fan, to), fan, rng)
        out[f"g{number}"] = fan_in((copies, to), fan, rng)
    return out


def generate(params: Params, x: Tensor, rng: Generator | None = None) -> Tensor:
    """A prompt for every row: ``[copies, n, d] -> [copies, n, d]`` in (-1, 1); dropout when ``rng`` is given."""
    hidden = torch.relu(linear(x, params["G1"], params["g1"]))
    hidden = torch.relu(linear(hidden, params["G2"], params["g2"]))
    if rng is not None:
        hidden = dropout(hidden, DROPOUT, rng)
    return torch.tanh(linear(hidden, params["G3"], params["g3"]))


def prompts(params: Params, x: Tensor, rng: Generator | None = None) -> Tensor:
    """Prompts of class-wise nodes: row c * s + i of every client goes through generator c.

    Args:
        params: One generator a class, leaves ``[C, ...]``.
        x: Features ``[K, C * s, d]``.
    """
    clients, nodes, width = x.shape
    classes = len(params["g1"])
    slots = nodes // classes
    grouped = x.view(clients, classes, slots, width).transpose(0, 1).reshape(classes, clients * slots, width)
    out = generate(params, grouped, rng).view(classes, clients, slots, width)
    return out.transpose(0, 1).reshape(clients, nodes, width)
