"""What FedLoG's clients report of their classes."""

from __future__ import annotations

import torch

from fgl_repro.methods.fedlog.shares import disturbed


def test_rates_are_exchanged_among_common_and_among_rare_classes() -> None:
    rates = torch.tensor([[0.1, 0.5, 0.3, 0.05, 0.05], [0.2, 0.2, 0.3, 0.2, 0.1]])
    mixed = disturbed(rates, 0.0, True, torch.Generator().manual_seed(1))
    assert not torch.equal(mixed, rates)
    torch.testing.assert_close(mixed.sort(1).values, rates.sort(1).values)
    for before, after in zip(rates, mixed, strict=True):
        common = before.argsort(descending=True)[:3]
        torch.testing.assert_close(after[common].sort().values, before[common].sort().values)
