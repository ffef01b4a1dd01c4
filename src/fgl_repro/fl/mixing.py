"""The server as a matrix over the client axis: theta <- M theta."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgl_repro.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.nn.model import Params


def average(params: Params, share: Tensor) -> Params:
    """One weighted mean for all: ``share @ theta``, expanded over clients.

    Args:
        params: Stacked tensors ``[K, ...]``.
        share: Weights of the clients ``[K]``; normalised here.
    """
    share = share / share.sum()
    return {
        name: (share @ theta.reshape(len(share), -1)).reshape(1, *theta.shape[1:]).expand_as(theta)
        for name, theta in params.items()
    }


def mix(params: Params, matrix: Tensor) -> Params:
    """A mean of its own for every client: row k of ``matrix`` ``[K, K]`` weighs the models that client k receives."""
    return {name: (matrix @ theta.reshape(len(matrix), -1)).reshape(theta.shape) for name, theta in params.items()}


def softmax_of_cosine(embedding: Tensor, tau: float) -> Tensor:
    """Row softmax of ``tau * cos(e_i, e_j)`` for embeddings ``[K, D]`` (FED-PUB): a mixing matrix ``[K, K]``."""
    unit = embedding / embedding.norm(dim=1, keepdim=True).clamp_min(1e-12)
    return torch.softmax(tau * (unit @ unit.T), dim=1)
