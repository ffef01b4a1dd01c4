"""Stacked tensors by name: the server as a matrix over the client axis, theta <- M theta, copies and distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgl_repro.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.nn.models.model import Params


def average(params: Params, share: Tensor) -> Params:
    """Mix all models into one weighted mean for all: ``share @ theta``, expanded over clients.

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
    """Mix a mean of its own for every client: row k of ``matrix`` ``[K, K]`` weighs the models that k receives."""
    return {name: (matrix @ theta.reshape(len(matrix), -1)).reshape(theta.shape) for name, theta in params.items()}


def copied(params: Params, grad: bool = False) -> Params:
    """Copy tensors into memory of their own, as leaves; with ``grad`` they can be trained."""
    return {name: value.detach().clone().requires_grad_(grad) for name, value in params.items()}


def drift(params: Params, anchor: Params) -> Tensor:
    """Measure the squared distance of the stacked tensors from those of ``anchor``, over all its names, ``[K]``."""
    gaps = (((params[name] - anchor[name]) ** 2).flatten(1).sum(1) for name in anchor)
    total: Tensor = sum(gaps)  # type: ignore[assignment]
    return total


def cosine(vectors: Tensor) -> Tensor:
    """Compute the cosine of every two rows: ``[K, D] -> [K, K]``."""
    unit = vectors / vectors.norm(dim=1, keepdim=True).clamp_min(1e-12)
    similar: Tensor = unit @ unit.T
    return similar


def flat(params: Params) -> Tensor:
    """Flatten the stacked tensors into one vector a client, ``[K, P]``."""
    return torch.cat([theta.flatten(1) for theta in params.values()], dim=1)


def unflat(vector: Tensor, like: Params) -> Params:
    """Expand one vector ``[P]`` for all clients to the stacked tensors that ``flat`` would make it of."""
    parts = vector.split_with_sizes([theta[0].numel() for theta in like.values()])
    return {
        name: part.to(theta).view(1, *theta.shape[1:]).expand_as(theta)
        for (name, theta), part in zip(like.items(), parts, strict=True)
    }


def class_shares(rates: Tensor, inverse: bool = False) -> Tensor:
    """Weigh the clients in a mean for each class by their class shares r, columns summing to 1 (FedLoG).

    Args:
        rates: Share of each class at each client ``[K, C]``. A class that nobody has is shared equally.
        inverse: In proportion to 1 / r instead.
    """
    if inverse:
        rates = rates.sum(0) / (rates + 1e-6)
    total = rates.sum(0)
    return torch.where(total > 0, rates / total.clamp_min(1e-12), 1 / len(rates))
