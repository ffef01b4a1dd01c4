"""Every number of every option has bounds: nonsense is refused before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

import pytest

from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.fl.protocol import Protocol

ANY = {"Protocol.split_seed", "Fleet.hidden", "Fleet.dropout"}
"""Numbers that may be anything, or say nothing."""


def numbers() -> Iterator[tuple[type, str, Any]]:
    kinds = [
        Protocol,
        *(kind for axis in ("method", "partitioner", "setting", "model") for kind in registry.options(axis).values()),
    ]
    for kind in kinds:
        for each in fields(kind):
            value = each.default
            if value is not MISSING and isinstance(value, int | float) and not isinstance(value, bool):
                yield kind, each.name, value


CASES = [case for case in numbers() if f"{case[0].__name__}.{case[1]}" not in ANY]


@pytest.mark.parametrize(("kind", "name", "usual"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_number_far_below_its_range_is_refused(kind: type, name: str, usual: float) -> None:
    with pytest.raises(UserError, match=rf"\b{name}="):
        kind(**{name: type(usual)(-(10**6))})


@pytest.mark.parametrize(
    ("kind", "name", "usual"),
    [case for case in CASES if isinstance(case[2], float)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_is_no_number_is_refused(kind: type, name: str, usual: float) -> None:
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(UserError, match=rf"\b{name}="):
            kind(**{name: wrong})
