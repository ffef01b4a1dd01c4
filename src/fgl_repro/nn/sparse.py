"""Products with a constant matrix whose transpose is kept for the backward pass."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor


def csr_tensor(matrix: sp.csr_matrix, device: torch.device) -> Tensor:
    """Copy a SciPy CSR matrix to torch, with 32-bit indices (what MKL and cuSPARSE take without conversion)."""
    matrix = sp.csr_matrix(matrix)
    with warnings.catch_warnings():  # the layout is announced as beta on first use; what we need of it is tested
        warnings.filterwarnings("ignore", message="Sparse")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int32)),
            torch.from_numpy(matrix.indices.astype(np.int32)),
            torch.from_numpy(matrix.data.astype(np.float32)),
            size=matrix.shape,
            device=device,
            check_invariants=False,
        )


def product(matrix: Tensor, dense: Tensor) -> Tensor:
    """Compute ``matrix @ dense`` for a CSR matrix: ``[n, m]`` and ``[m, F]`` to ``[n, F]``.

    On the CPU this goes without the zero fill and the copy that ``@`` makes first.
    """
    if dense.device.type != "cpu":
        return in_order(matrix, dense, matrix.values()) if _fixed() else matrix @ dense
    out = dense.new_empty(matrix.shape[0], dense.shape[1])
    return torch.addmm(out, matrix, dense, beta=0, out=out)


def sums(matrix: Tensor, dense: Tensor) -> Tensor:
    """Compute ``matrix @ dense``, ``[n, m]`` and ``[m, F]`` to ``[n, F]``, for a CSR matrix whose entries are all 1.

    On the CPU this takes half the time of ``product`` and gives the same bits: both add rows in the order in which they
    are stored.
    """
    return in_order(matrix, dense) if dense.device.type == "cpu" or _fixed() else matrix @ dense


def in_order(matrix: Tensor, dense: Tensor, weights: Tensor | None = None) -> Tensor:
    """Add the rows of ``dense`` that a CSR matrix names, times ``weights`` ``[nnz]``, in the order of its entries.

    On a GPU ``matrix @ dense`` is cuSPARSE's, of whose order torch's ``use_deterministic_algorithms`` says nothing.
    """
    start, rows = matrix.crow_indices(), matrix.col_indices()
    return F.embedding_bag(
        rows, dense.detach(), start, mode="sum", per_sample_weights=weights, include_last_offset=True
    )


def _fixed() -> bool:
    """Tell whether sums are to be taken in a fixed order (``runtime.deterministic``)."""
    return torch.are_deterministic_algorithms_enabled()


@dataclass(frozen=True)
class DenseOp:
    """Constant inputs of K first layers ``[K, n, d]``.

    Attributes:
        kept: They serve many steps: the transpose is laid out once, on the first backward pass. For a mini-batch, used
            once, laying it out costs more than it saves.
    """

    inputs: Tensor
    kept: bool = True

    @cached_property
    def transpose(self) -> Tensor:
        """``[K, d, n]``; contiguous if kept: a weight gradient is up to twice as fast from it as from a strided one."""
        turned = self.inputs.transpose(1, 2)
        return turned.contiguous() if self.kept else turned

    def __call__(self, weight: Tensor, bias: Tensor) -> Tensor:
        """Compute ``inputs @ weight + bias``: ``[K, n, out]`` from ``[K, d, out]`` and ``[K, out]``."""
        out: Tensor = _Affine.apply(self, weight, bias)  # type: ignore[no-untyped-call]
        return out


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, op: DenseOp, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.op = op
        return torch.baddbmm(bias.unsqueeze(1), op.inputs, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        return None, torch.bmm(ctx.op.transpose, grad), grad.sum(1)


@dataclass(frozen=True)
class SparseOp:
    """A constant sparse matrix M ``[rows, cols]`` and its transpose, both CSR.

    Attributes:
        ones: Whether all stored entries are 1, so that products are sums of rows.
    """

    forward: Tensor
    transpose: Tensor
    ones: bool = False

    @staticmethod
    def of(matrix: sp.csr_matrix, device: torch.device) -> SparseOp:
        turned, ones = sp.csr_matrix(matrix.T), bool((matrix.data == 1).all())
        return SparseOp(csr_tensor(matrix, device), csr_tensor(turned, device), ones)

    def __call__(self, dense: Tensor) -> Tensor:
        """Compute ``M @ dense`` for ``dense`` ``[cols, F]``."""
        out: Tensor = _Product.apply(self, dense)  # type: ignore[no-untyped-call]
        return out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, op: SparseOp, dense: Tensor) -> Tensor:
        ctx.op = op
        return (sums if op.ones else product)(op.forward, dense)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        op: SparseOp = ctx.op
        return None, (sums if op.ones else product)(op.transpose, grad.contiguous())


@dataclass(frozen=True)
class BlockOp:
    """A constant symmetric block-diagonal matrix ``[M, M]`` of dense blocks.

    Attributes:
        blocks: Padded with zeros, ``[K, m, m]``.
        slots: Where each row lies among the ``K * m``, int64 ``[M]``.
    """

    blocks: Tensor
    slots: Tensor

    @staticmethod
    def of(blocks: list[Tensor]) -> BlockOp:
        """Put square matrices ``[m_k, m_k]``, each of its own size, into one operator."""
        height, device = max(map(len, blocks)), blocks[0].device
        padded = torch.stack([F.pad(block, (0, height - len(block)) * 2) for block in blocks])
        slots = [k * height + torch.arange(len(block), device=device) for k, block in enumerate(blocks)]
        return BlockOp(padded, torch.cat(slots))

    def __call__(self, dense: Tensor) -> Tensor:
        """Compute ``M @ dense`` for ``dense`` ``[M, F]``."""
        count, height = self.blocks.shape[:2]
        padded = dense.new_zeros(count * height, dense.shape[1]).index_copy(0, self.slots, dense)
        out = torch.bmm(self.blocks, padded.view(count, height, -1))
        return out.flatten(0, 1).index_select(0, self.slots)
