"""The ledger."""

from __future__ import annotations

import torch

from fgl_repro.fl.messages import Ledger, Message

CPU = torch.device("cpu")


def test_ledger_ignores_silence() -> None:
    ledger = Ledger()
    ledger.add("rounds", "up", None)
    ledger.add("rounds", "up", Message())
    assert ledger.as_dict() == {}
