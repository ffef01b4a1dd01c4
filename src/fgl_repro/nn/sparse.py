"""Sparse products whose transpose is kept for the backward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor


def csr_tensor(matrix: sp.csr_matrix, device: torch.device) -> Tensor:
    """Torch CSR copy of a SciPy CSR matrix, 32-bit indices (what MKL and cuSPARSE take without conversion)."""
    matrix = sp.csr_matrix(matrix)
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int32)),
        torch.from_numpy(matrix.indices.astype(np.int32)),
        torch.from_numpy(matrix.data.astype(np.float32)),
        size=matrix.shape,
        device=device,
        check_invariants=False,
    )


@dataclass(frozen=True)
class SparseOp:
    """A constant sparse matrix M ``[rows, cols]`` and its transpose, both CSR."""

    forward: Tensor
    transpose: Tensor

    @staticmethod
    def of(matrix: sp.csr_matrix, device: torch.device) -> SparseOp:
        return SparseOp(csr_tensor(matrix, device), csr_tensor(sp.csr_matrix(matrix.T), device))

    def __call__(self, dense: Tensor) -> Tensor:
        """``M @ dense`` for ``dense`` ``[cols, F]``."""
        out: Tensor = _Product.apply(self.forward, self.transpose, dense)
        return out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transpose: Tensor, dense: Tensor) -> Tensor:
        ctx.transpose = transpose
        return matrix @ dense

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:  # type: ignore[override]
        return None, None, ctx.transpose @ grad.contiguous()
