"""The ledger."""

from __future__ import annotations

import numpy as np
import torch

from fgl_repro.fl.messages import Features, Ledger, Message, Weights


def test_ledger_ignores_silence() -> None:
    ledger = Ledger()
    ledger.add("rounds", "up", None)
    ledger.add("rounds", "up", Message())
    assert ledger.as_dict() == {}


def test_bytes_are_means_over_clients_and_add_up() -> None:
    ledger = Ledger()
    for _ in range(2):
        ledger.add("rounds", "up", Weights({"w": torch.zeros(3, 5), "b": torch.zeros(3, 2, dtype=torch.float64)}))
    ledger.add("setup", "down", Features(np.array([4, 8, 2])))
    assert ledger.as_dict() == {"rounds": {"up": {"weights": 2 * 36}}, "setup": {"down": {"features": 5}}}
    assert ledger.clients["setup", "down", "features"].tolist() == [4, 8, 2]
