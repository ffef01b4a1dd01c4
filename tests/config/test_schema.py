"""The schema says what each of its keys means."""

from __future__ import annotations

from dataclasses import fields

import pytest

from fgl_repro.config import build
from fgl_repro.config.schema import Config, LoggerConfig, PathsConfig, RuntimeConfig
from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import meanings


@pytest.mark.parametrize("kind", [Config, RuntimeConfig, LoggerConfig, PathsConfig])
def test_every_key_is_explained(kind: type) -> None:
    assert [name for name in meanings(kind) if name] == [f.name for f in fields(kind)]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("clients", "partitioner.clients"),
        ("method.lr", "protocol.lr"),
        ("protocol.round", "rounds"),
        ("threads", "runtime.threads"),
        ("seeds", "seed"),
        ("protocol.seed", "seed"),
        ("features", "dataset.features"),
        ("dataset.name", ""),
        ("protocol.lr.x", ""),
        ("nothing", ""),
    ],
)
def test_a_key_in_the_wrong_place_is_told_the_right_one(key: str, meant: str) -> None:
    place = key.removesuffix(".x")
    with pytest.raises(UserError) as told:
        build({key: 3}, dataset="cora", method="fedavg")
    assert str(told.value).startswith(f"{place} does not exist{f' (did you mean {meant}?)' if meant else ''}: ")
