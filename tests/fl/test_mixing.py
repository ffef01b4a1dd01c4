"""The server as a matrix."""

from __future__ import annotations

import torch

from fgl_repro.fl.mixing import average, class_shares, mix


def test_mixing_matrices() -> None:
    theta = {"w": torch.randn(3, 2, 5)}
    share = torch.tensor([1.0, 2.0, 1.0])
    mean = average(theta, share)["w"]
    expected = (theta["w"][0] + 2 * theta["w"][1] + theta["w"][2]) / 4
    torch.testing.assert_close(mean, expected.expand(3, 2, 5))
    assert torch.equal(mix(theta, torch.eye(3))["w"], theta["w"])


def test_each_row_of_a_matrix_is_what_one_client_receives() -> None:
    theta = {"w": torch.arange(6.0).view(3, 2)}
    matrix = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    assert mix(theta, matrix)["w"].tolist() == [[2, 3], [4, 5], [1, 2]]


def test_shares_of_a_class_sum_to_one_also_where_nobody_has_it() -> None:
    rates = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    shares = class_shares(rates)
    torch.testing.assert_close(shares, torch.tensor([[1 / 3, 1.0, 0.5], [2 / 3, 0.0, 0.5]]))
    inverse = class_shares(rates, inverse=True)
    torch.testing.assert_close(inverse.sum(0), torch.ones(3))
    assert inverse[0, 0] > inverse[1, 0]
    rates = torch.tensor([[0.5, 0.2], [0.25, 0.6]])
    torch.testing.assert_close(class_shares(rates, inverse=True), torch.tensor([[1 / 3, 3 / 4], [2 / 3, 1 / 4]]))
