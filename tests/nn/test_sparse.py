"""Products with constant sparse matrices, and the faster sums where all their entries are 1."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fgl_repro.nn.sparse import BlockOp, SparseOp, csr_tensor, in_order, product, sums

CPU = torch.device("cpu")


def zeros_and_ones(rows: int, columns: int, density: float = 0.05) -> sp.csr_matrix:
    """Some rows, the first among them, are empty."""
    matrix = sp.random(rows, columns, density, "csr", np.float32, np.random.default_rng(0))
    matrix.data[:] = 1
    keep = sp.diags((np.arange(rows) % 7 > 0).astype(np.float32))
    found = sp.csr_matrix(keep @ matrix)
    found.eliminate_zeros()
    return found


@pytest.mark.parametrize("width", [1, 7, 100, 4000])
@pytest.mark.parametrize("shape", [(60, 900), (5, 160)])
def test_sums_are_the_product_to_the_bit(shape: tuple[int, int], width: int) -> None:
    """Records made with one repeat with the other."""
    matrix = csr_tensor(zeros_and_ones(*shape), CPU)
    dense = torch.randn(shape[1], width)
    assert torch.equal(sums(matrix, dense), product(matrix, dense))


def test_sums_of_whole_groups_are_the_product_to_the_bit() -> None:
    """As batch norm takes them: few rows of some hundred entries each, with values far apart."""
    matrix = sp.csr_matrix(np.repeat(np.eye(3, dtype=np.float32), [500, 1, 700], axis=1))
    dense = torch.randn(1201, 33) * torch.logspace(-4, 4, 1201).unsqueeze(1)
    assert torch.equal(sums(csr_tensor(matrix, CPU), dense), product(csr_tensor(matrix, CPU), dense))


@pytest.mark.parametrize("columns", [160, 900])
def test_rows_weighted_and_added_in_order_are_the_product(columns: int) -> None:
    """What deterministic runs take on a GPU; some rows are empty."""
    matrix = zeros_and_ones(60, columns)
    matrix.data[:] = np.linspace(-2, 2, matrix.nnz)
    held, dense = csr_tensor(matrix, CPU), torch.randn(columns, 7)
    torch.testing.assert_close(in_order(held, dense, held.values()), product(held, dense))
    nothing = csr_tensor(sp.csr_matrix((4, columns), dtype=np.float32), CPU)
    assert torch.equal(in_order(nothing, dense, nothing.values()), torch.zeros(4, 7))


@pytest.mark.parametrize("weighted", [False, True])
def test_an_operator_and_its_gradient_are_the_dense_ones(weighted: bool) -> None:
    matrix = zeros_and_ones(20, 30, 0.2)
    if weighted:
        matrix.data[:] = np.linspace(0.5, 2, matrix.nnz)
    op = SparseOp.of(matrix, CPU)
    assert op.ones is not weighted
    dense = torch.randn(30, 4, requires_grad=True)
    whole, weight = torch.from_numpy(matrix.toarray()), torch.randn(20, 4)
    torch.testing.assert_close(op(dense), whole @ dense)
    (ours,) = torch.autograd.grad((op(dense) * weight).sum(), dense)
    torch.testing.assert_close(ours, whole.T @ weight)


def test_blocks_are_the_block_diagonal_matrix_forward_and_backward() -> None:
    blocks = [torch.rand(m, m) for m in (3, 1, 0, 5)]
    blocks = [block + block.T for block in blocks]
    matrix: torch.Tensor = torch.block_diag(*blocks)  # type: ignore[no-untyped-call]
    ours, theirs = (torch.rand(9, 4, generator=torch.Generator().manual_seed(0)).requires_grad_() for _ in range(2))
    found, expected = BlockOp.of(blocks)(ours), matrix @ theirs
    torch.testing.assert_close(found, expected)
    for out in (found, expected):
        (out**2).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
