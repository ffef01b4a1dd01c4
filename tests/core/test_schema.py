"""Fields of a configuration take what other libraries compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fgl_repro.config import build, science

TUNING = {"seed": 0, "candidates": {"fedavg": [{"protocol.lr": 0.5}]}}


@pytest.mark.parametrize(
    ("dotted", "given", "plain"),
    [
        ("seed", np.int64(2), 2),
        ("partitioner.clients", np.int32(5), 5),
        ("protocol.lr", np.float64(0.5), 0.5),
        ("protocol.lr", np.float32(0.5), 0.5),
        ("protocol.redraw", np.bool_(True), True),
        ("protocol.optimiser", np.str_("sgd"), "sgd"),
        ("protocol.split", (np.float64(0.5), np.float32(0.25), 0.25), [0.5, 0.25, 0.25]),
        ("protocol.split", np.array([0.5, 0.25, 0.25]), [0.5, 0.25, 0.25]),
        ("protocol.tuning", {**TUNING, "seed": np.int64(0)}, TUNING),
        ("protocol.tuning", {**TUNING, "candidates": {"fedavg": [{"protocol.lr": np.float64(0.5)}]}}, TUNING),
    ],
)
def test_what_numpy_holds_is_taken_as_pythons_values(dotted: str, given: Any, plain: Any) -> None:
    made, same = build({dotted: given}), build({dotted: plain})
    group, _, name = dotted.rpartition(".")
    found = getattr(getattr(made, group) if group else made, name)
    assert repr(found) == repr(plain)
    assert science(made) == science(same)
