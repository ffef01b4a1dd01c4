"""Batch norm of rows laid end to end, with the statistics of the batch at hand, in training and in tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fgl_repro.nn.sparse import csr_tensor, product

EPSILON = 1e-5


@dataclass(frozen=True)
class Groups:
    """Rows whose mean and variance are taken together, G groups laid end to end.

    Attributes:
        total: Sums over the rows of each group, CSR ``[G, n]``.
        sizes: Rows of each group, float ``[G, 1]``.
        member: Group of each row, int64 ``[n]``.
        client: Client of each group, int64 ``[G]``.
    """

    total: Tensor
    sizes: Tensor
    member: Tensor
    client: Tensor

    @staticmethod
    def of(sizes: np.ndarray, client: np.ndarray, device: torch.device) -> Groups:
        """Groups of so many rows, int64 ``[G]``, each of which is a client's, int64 ``[G]``."""
        ptr, rows = np.concatenate([[0], np.cumsum(sizes)]), int(sizes.sum())
        total = sp.csr_matrix((np.ones(rows, np.float32), np.arange(rows), ptr), shape=(len(sizes), rows))
        member = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(device)
        count = torch.from_numpy(np.maximum(sizes, 1).astype(np.float32)).unsqueeze(1).to(device)
        return Groups(csr_tensor(total, device), count, member, torch.from_numpy(client).to(device))

    def spread(self, values: Tensor) -> Tensor:
        """Values of the groups ``[G, F]`` at their rows, ``[n, F]``."""
        return values.index_select(0, self.member)


def batch_norm(x: Tensor, gain: Tensor, shift: Tensor, groups: Groups) -> Tensor:
    """Every group of rows to mean 0 and variance 1, then scaled and shifted as its client's weights say.

    Ioffe and Szegedy, "Batch Normalization" (ICML 2015), Algorithm 1, with epsilon 1e-5, and without the running
    statistics of Algorithm 2: rows of other groups are never seen.

    Args:
        x: ``[n, F]``.
        gain, shift: ``[K, F]``.
    """
    out: Tensor = _BatchNorm.apply(x, gain, shift, groups)  # type: ignore[no-untyped-call]
    return out


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, shift: Tensor, groups: Groups) -> Tensor:
        centred = x - groups.spread(product(groups.total, x) / groups.sizes)
        variance = product(groups.total, centred.square()) / groups.sizes
        inverse = (variance + EPSILON).rsqrt_()
        scale = inverse * gain[groups.client]
        ctx.save_for_backward(centred, inverse, scale)
        ctx.groups, ctx.clients = groups, len(gain)
        return torch.addcmul(groups.spread(shift[groups.client]), centred, groups.spread(scale))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        centred, inverse, scale = ctx.saved_tensors
        groups: Groups = ctx.groups
        of_shift = product(groups.total, grad.contiguous())
        of_gain = product(groups.total, grad * centred) * inverse
        of_x = grad * groups.spread(scale)
        of_x -= groups.spread(scale * of_shift / groups.sizes)
        of_x.addcmul_(centred, groups.spread(scale * inverse * of_gain / groups.sizes), value=-1)
        zeros = grad.new_zeros(ctx.clients, grad.shape[1])
        return of_x, zeros.index_add(0, groups.client, of_gain), zeros.index_add(0, groups.client, of_shift), None
