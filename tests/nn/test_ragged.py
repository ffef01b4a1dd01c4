"""Products of ragged rows."""

from __future__ import annotations

import torch

from fgl_repro.nn.ragged import grouped


def test_grouped_products_and_their_gradients() -> None:
    x, weight, bias = torch.randn(5, 3), torch.randn(3, 3, 2), torch.randn(3, 2)
    index, ptr = torch.tensor([0, 4, 4, 1, 2, 0]), [0, 2, 2, 6]
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    again = [t.clone().requires_grad_() for t in (x, weight, bias)]
    group = torch.tensor([0, 0, 2, 2, 2, 2])
    ours = grouped(*leaves, ptr, index)
    direct = torch.einsum("mi,mio->mo", again[0][index], again[1][group]) + again[2][group]
    torch.testing.assert_close(ours, direct)
    pull = torch.randn_like(ours)
    for a, b in zip(torch.autograd.grad(ours, leaves, pull), torch.autograd.grad(direct, again, pull), strict=True):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(grouped(x, weight, None, [0, 1, 3, 5])[3:], x[3:] @ weight[2])
