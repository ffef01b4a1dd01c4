"""Small stacked operations: dropout, linear maps, initialisers."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor


def dropout(x: Tensor, p: float, rng: Generator) -> Tensor:
    """Apply inverted dropout with a mask drawn eight bytes at a time.

    A fresh ``bernoulli_`` mask is the most expensive operation of a small GCN's step. One 64-bit draw gives eight
    elements here; p is thereby rounded to a multiple of 1/256 (exact for 0.5), to 255/256 at most, and the scale uses
    the rounded value.
    """
    level = min(round(p * 256), 255)
    if level == 0:
        return x
    words = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device)
    words.random_(torch.iinfo(torch.int64).min, None, generator=rng)
    keep = words.view(torch.uint8)[: x.numel()].view(x.shape) >= level
    return x * keep.to(x.dtype).mul_(256 / (256 - level))  # one pass over x, and one over its gradient


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute ``x @ weight + bias`` per client: ``[K, n, in] x [K, in, out] + [K, out]``."""
    return torch.baddbmm(bias.unsqueeze(1), x, weight)


def glorot(shape: tuple[int, int], rng: Generator) -> Tensor:
    """Draw from U(-a, a) with a = sqrt(6 / (in + out)), ``[in, out]``."""
    bound = math.sqrt(6 / sum(shape))
    return torch.empty(shape).uniform_(-bound, bound, generator=rng)


def fan_in(shape: tuple[int, ...], fan: int, rng: Generator) -> Tensor:
    """Draw from U(-a, a) with a = 1 / sqrt(fan): torch's default for linear weights and biases."""
    bound = 1 / math.sqrt(fan)
    return torch.empty(shape).uniform_(-bound, bound, generator=rng)


def normalised(links: Tensor) -> Tensor:
    """Normalise symmetrically with self-loops of weight 1: D^-1/2 (A + I) D^-1/2, ``[M, M]``."""
    looped = links + torch.eye(len(links), device=links.device)
    scale = looped.sum(1).rsqrt()
    return scale.unsqueeze(1) * looped * scale


def stack(single: dict[str, Tensor], clients: int) -> dict[str, Tensor]:
    """Stack K copies of one model's tensors along a new leading axis, in memory of their own, for one client, too."""
    return {name: t.unsqueeze(0).repeat(clients, *[1] * t.dim()) for name, t in single.items()}


def broadcast(single: dict[str, Tensor], clients: int) -> dict[str, Tensor]:
    """Expand one network's weights ``[1, ...]`` to all clients ``[K, ...]``: neither a copy nor a gradient."""
    return {name: t.detach().expand(clients, *t.shape[1:]) for name, t in single.items()}


def log_likelihood(log_p: Tensor, labels: Tensor) -> Tensor:
    """Pick the log-probability of the true class: ``[..., C]`` and classes ``[...]`` to ``[...]``."""
    return log_p.gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def kl_divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Compute KL(p || q) of each row, from logarithms: ``[..., C]`` of both to ``[...]``."""
    return (log_p.exp() * (log_p - log_q)).sum(-1)
