"""Sums over neighbours whose weights are computed: graph attention of K clients at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.nn.sparse import csr_tensor, product

SLOPE = 0.2
"""Slope of the leaky ReLU that scores go through, below 0."""


@dataclass(frozen=True)
class SparsePattern:
    """The pattern of a sparse matrix ``[n, m]`` of E entries in CSR order, and where its transpose has them.

    Attributes:
        matrix, turned: The matrix and its transpose as torch has them, with values that nobody reads.
        row, column: Of each entry, int64 ``[E]``.
        order: Entry behind each entry of the transpose, int64 ``[E]``.
    """

    matrix: Tensor
    turned: Tensor
    row: Tensor
    column: Tensor
    order: Tensor

    @staticmethod
    def of(matrix: sp.csr_matrix, device: torch.device) -> SparsePattern:
        numbered = sp.csr_matrix((np.arange(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
        turned = numbered.tocsc()
        back = sp.csr_matrix((turned.data, turned.indices, turned.indptr), shape=matrix.shape[::-1])
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        index = [torch.from_numpy(part.astype(np.int64)).to(device) for part in (row, matrix.indices, turned.data)]
        return SparsePattern(csr_tensor(matrix, device), csr_tensor(back, device), *index)

    def softmax(self, scores: Tensor) -> Tensor:
        """Turn scores ``[E]`` of the entries into weights, which add to 1 in every row that has some."""
        rows = self.matrix.shape[0]
        most = scores.new_zeros(rows).scatter_reduce(0, self.row, scores.detach(), "amax", include_self=False)
        weight = torch.exp(scores - most[self.row])
        return weight / weight.new_zeros(rows).index_add(0, self.row, weight)[self.row]

    def sums(self, weight: Tensor, values: Tensor) -> Tensor:
        """Sum ``values`` ``[m, F]`` over the entries of each row ``[n, F]``, weighted by ``weight`` ``[E]``."""
        out: Tensor = _Sums.apply(self, weight, values)  # type: ignore[no-untyped-call]
        return out

    def attend(self, values: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """Average ``values`` ``[m, F]`` by attention ``[n, F]``, from scores of sources ``[m]`` and targets ``[n]``."""
        scores = F.leaky_relu(source[self.column] + target[self.row], SLOPE)
        return self.sums(self.softmax(scores), values)


def _weighted(matrix: Tensor, weight: Tensor) -> Tensor:
    """Give the matrix other values ``[E]``."""
    indices = matrix.crow_indices(), matrix.col_indices()
    return torch.sparse_csr_tensor(*indices, weight, size=matrix.shape, check_invariants=False)


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, weight: Tensor, values: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(weight, values)
        return product(_weighted(pattern.matrix, weight), values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        pattern: SparsePattern = ctx.pattern
        weight, values = ctx.saved_tensors
        of_weight = (grad[pattern.row] * values[pattern.column]).sum(1)
        return None, of_weight, product(_weighted(pattern.turned, weight[pattern.order]), grad.contiguous())
