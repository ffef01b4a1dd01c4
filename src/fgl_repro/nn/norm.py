"""Batch norm of rows laid end to end, with the statistics of the batch at hand, in training and in tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fgl_repro.data.graph import offsets
from fgl_repro.nn.sparse import csr_tensor, sums

EPSILON = 1e-5


@dataclass(frozen=True)
class Groups:
    """Rows whose mean and variance are taken together, G groups laid end to end.

    Attributes:
        total: Sums over the rows of each group, CSR ``[G, n]``.
        sizes: Rows of each group, float ``[G, 1]``.
        member: Group of each row, int64 ``[n]``.
        client: Client of each group, int64 ``[G]``.
        ptr: Group g has the rows ``ptr[g]:ptr[g + 1]``.
    """

    total: Tensor
    sizes: Tensor
    member: Tensor
    client: Tensor
    ptr: list[int]

    @staticmethod
    def of(sizes: np.ndarray, client: np.ndarray, device: torch.device) -> Groups:
        """Make groups of so many rows, int64 ``[G]``, each of which is a client's, int64 ``[G]``."""
        ptr, rows = offsets(sizes), int(sizes.sum())
        total = sp.csr_matrix((np.ones(rows, np.float32), np.arange(rows), ptr), shape=(len(sizes), rows))
        member = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(device)
        count = torch.from_numpy(np.maximum(sizes, 1).astype(np.float32)).unsqueeze(1).to(device)
        client_of = torch.from_numpy(client).to(device)
        return Groups(csr_tensor(total, device), count, member, client_of, ptr.tolist())

    def parts(self, rows: Sequence[Tensor], values: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
        """Cut rows ``[n, F]`` and values of the groups ``[G, F]`` so that they can be broadcast against each other.

        A CPU takes longer to lay such values out row by row than for what is then done with them; a GPU would have to
        launch kernels group by group.
        """
        if self.member.device.type != "cpu":
            yield (*rows, *(value.index_select(0, self.member) for value in values))
            return
        for g, (start, end) in enumerate(pairwise(self.ptr)):
            yield (*(part[start:end] for part in rows), *(value[g] for value in values))


def batch_norm(x: Tensor, gain: Tensor, shift: Tensor, groups: Groups, relu: bool = False) -> Tensor:
    """Bring every group of rows to mean 0 and variance 1, then scale and shift it as its client's weights say.

    Ioffe and Szegedy, "Batch Normalization" (ICML 2015), Algorithm 1, with epsilon 1e-5, and without the running
    statistics of Algorithm 2: rows of other groups are never seen.

    Args:
        x: ``[n, F]``.
        gain, shift: ``[K, F]``.
        relu: Whether a ReLU follows; taken group by group, it finds its rows in the cache.
    """
    out: Tensor = _BatchNorm.apply(x, gain, shift, groups, relu)  # type: ignore[no-untyped-call]
    return out


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, shift: Tensor, groups: Groups, relu: bool) -> Tensor:
        centred, out = torch.empty_like(x), torch.empty_like(x)
        for into, part, mean in groups.parts((centred, x), (sums(groups.total, x) / groups.sizes,)):
            torch.sub(part, mean, out=into)
        squares = torch.mul(centred, centred, out=out)  # memory that is in the cache already
        variance = sums(groups.total, squares) / groups.sizes
        inverse = (variance + EPSILON).rsqrt_()
        scale = inverse * gain[groups.client]
        for into, part, moved, scaled in groups.parts((out, centred), (shift[groups.client], scale)):
            torch.addcmul(moved, part, scaled, out=into)
            if relu:
                into.relu_()
        ctx.save_for_backward(centred, inverse, scale, *[out] * relu)
        ctx.groups, ctx.clients = groups, len(gain)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        centred, inverse, scale, *positive = ctx.saved_tensors
        groups: Groups = ctx.groups
        for out in positive:
            grad = torch.ops.aten.threshold_backward(grad, out, 0)
        of_shift = sums(groups.total, grad.contiguous())
        of_x = torch.empty_like(grad)
        of_gain = sums(groups.total, torch.mul(grad, centred, out=of_x)) * inverse
        values = scale, scale * of_shift / groups.sizes, scale * inverse * of_gain / groups.sizes
        for into, part, own, scaled, mean, slope in groups.parts((of_x, grad, centred), values):
            torch.mul(part, scaled, out=into).sub_(mean).addcmul_(own, slope, value=-1)
        zeros = grad.new_zeros(ctx.clients, grad.shape[1])
        return of_x, zeros.index_add(0, groups.client, of_gain), zeros.index_add(0, groups.client, of_shift), None, None
