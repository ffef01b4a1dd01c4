"""Rows of K clients laid end to end, without padding, where every client has as many as its own data say.

``ptr`` is a list of K + 1 positions: client k's rows are ``ptr[k]:ptr[k + 1]``. Nothing a client computes depends on
how many rows another one has, and no random number of :class:`ClientStreams` does. Dropout over all clients' rows at
once is one draw: which of its numbers a client gets hangs on how many rows there are before.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Generator, Tensor

from fgl_repro.nn.ops import dropout


def grouped(x: Tensor, weight: Tensor, bias: Tensor | None, ptr: list[int], index: Tensor | None = None) -> Tensor:
    """Compute ``x[index] @ weight[g] + bias[g]`` for the rows of each group g, one product a group.

    Padding to a common length would multiply mostly zeros here, and would let one group's length change another's
    rounding.

    Args:
        x: Rows ``[n, in]``.
        weight: ``[G, in, out]``.
        bias: ``[G, out]``, or None.
        ptr: Group g makes output rows ``ptr[g]:ptr[g + 1]``.
        index: Row of ``x`` behind each output row, int64 ``[m]``; None: the same row.
    """
    out: Tensor = _Grouped.apply(x, weight, bias, ptr, index)  # type: ignore[no-untyped-call]
    return out


class _Grouped(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, ptr: list[int], index: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(x, weight, index)
        ctx.ptr, ctx.biased = ptr, bias is not None
        out = x.new_empty(ptr[-1], weight.shape[2])
        for g, (start, end) in enumerate(pairwise(ptr)):
            part = x[start:end] if index is None else x[index[start:end]]
            torch.mm(part, weight[g], out=out[start:end])
            if bias is not None:
                out[start:end] += bias[g]
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        x, weight, index = ctx.saved_tensors
        of_x = (torch.empty_like(x) if index is None else torch.zeros_like(x)) if ctx.needs_input_grad[0] else None
        of_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        of_bias = grad.new_empty(weight.shape[0], weight.shape[2]) if ctx.biased else None
        for g, (start, end) in enumerate(pairwise(ctx.ptr)):
            part = grad[start:end]
            if of_weight is not None:
                torch.mm((x[start:end] if index is None else x[index[start:end]]).T, part, out=of_weight[g])
            if of_bias is not None:
                of_bias[g] = part.sum(0)
            if of_x is not None and index is None:
                torch.mm(part, weight[g].T, out=of_x[start:end])
            elif of_x is not None:
                of_x.index_add_(0, index[start:end], part @ weight[g].T)
        return of_x, of_weight, of_bias, None, None


def client_sums(values: Tensor, owner: Tensor, clients: int) -> Tensor:
    """Sum over the rows of each client: ``[m]`` and int64 ``[m]`` to ``[K]``."""
    return values.new_zeros(clients).index_add(0, owner, values)


def positions(owner: Tensor, clients: int) -> list[int]:
    """Return ``ptr`` of rows whose clients, ascending, are ``owner`` ``[m]``."""
    ends: list[int] = torch.bincount(owner, minlength=clients).cumsum(0).tolist()
    return [0, *ends]


class ClientStreams:
    """Random numbers for ragged rows, each client's from a stream of its own."""

    def __init__(self, generators: list[Generator]) -> None:
        self.generators = generators

    def normal(self, ptr: list[int], width: int) -> Tensor:
        """Draw from N(0, 1), ``[m, width]``."""
        return torch.cat([torch.randn(n, width, generator=g, device=g.device) for n, g in self._each(ptr)])

    def uniform(self, ptr: list[int], width: int) -> Tensor:
        """Draw from U[0, 1), ``[m, width]``."""
        return torch.cat([torch.rand(n, width, generator=g, device=g.device) for n, g in self._each(ptr)])

    def dropout(self, x: Tensor, p: float, ptr: list[int]) -> Tensor:
        """Apply inverted dropout to ``x`` ``[m, width]``."""
        if round(p * 256) == 0:
            return x
        parts = torch.split(x, [n for n, _ in self._each(ptr)])
        return torch.cat([dropout(part, p, g) for part, g in zip(parts, self.generators, strict=True)])

    def _each(self, ptr: list[int]) -> list[tuple[int, Generator]]:
        return [(end - start, g) for (start, end), g in zip(pairwise(ptr), self.generators, strict=True)]
