"""What FedLoG's clients may do to their class shares before they report them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgl_repro.core.lazy import torch

if TYPE_CHECKING:
    from torch import Generator, Tensor


def disturbed(rates: Tensor, noise: float, permute: bool, rng: Generator) -> Tensor:
    """Disturb class shares ``[K, C]`` as a client may before it reports them, to hide its own (FedLoG, Table 3).

    Args:
        noise: Standard deviation of added Gaussian noise as a multiple of each share; negative results become 0.
        permute: Exchange each client's shares at random among its commoner classes, and among its rarer ones.
    """
    if noise:
        rates = (rates * (1 + noise * torch.randn(rates.shape, generator=rng).to(rates.device))).clamp_min(0)
    if not permute:
        return rates
    out = rates.clone()
    for own, row in zip(rates, out, strict=True):
        for half in own.argsort(descending=True).tensor_split(2):
            row[half] = own[half[torch.randperm(len(half), generator=rng).to(half.device)]]
    return out
