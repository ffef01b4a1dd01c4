"""The server as a matrix."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from fgl_repro.fl.mixing import average, class_shares, disturbed, mix, softmax_of_cosine


def test_mixing_matrices() -> None:
    theta = {"w": torch.randn(3, 2, 5)}
    share = torch.tensor([1.0, 2.0, 1.0])
    mean = average(theta, share)["w"]
    expected = (theta["w"][0] + 2 * theta["w"][1] + theta["w"][2]) / 4
    torch.testing.assert_close(mean, expected.expand(3, 2, 5))
    assert torch.equal(mix(theta, torch.eye(3))["w"], theta["w"])
    embedding = torch.randn(3, 4)
    matrix = softmax_of_cosine(embedding, 3.0)
    similarity = F.cosine_similarity(embedding[:, None], embedding[None], dim=-1)
    torch.testing.assert_close(matrix, torch.softmax(3 * similarity, 1))


def test_rates_are_exchanged_among_common_and_among_rare_classes() -> None:
    rates = torch.tensor([[0.1, 0.5, 0.3, 0.05, 0.05], [0.2, 0.2, 0.3, 0.2, 0.1]])
    mixed = disturbed(rates, 0.0, True, torch.Generator().manual_seed(1))
    torch.testing.assert_close(mixed.sort(1).values, rates.sort(1).values)
    for before, after in zip(rates, mixed, strict=True):
        assert not torch.equal(before, after)
        common = before.argsort(descending=True)[:3]
        torch.testing.assert_close(after[common].sort().values, before[common].sort().values)


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
