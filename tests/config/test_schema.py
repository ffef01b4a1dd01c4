"""The schema says what each of its keys means."""

from __future__ import annotations

from dataclasses import fields

import pytest

from fgl_repro.config.schema import Config, LoggerConfig, PathsConfig, RuntimeConfig
from fgl_repro.core.schema import meanings


@pytest.mark.parametrize("kind", [Config, RuntimeConfig, LoggerConfig, PathsConfig])
def test_every_key_is_explained(kind: type) -> None:
    assert [name for name in meanings(kind) if name] == [f.name for f in fields(kind)]
