"""What all methods refuse."""

from __future__ import annotations

import pytest

from fgl_repro import config as configs
from fgl_repro.core.errors import UserError
from support.runs import make_config


def test_base_method_refuses_unknown_variants() -> None:
    with pytest.raises(UserError, match=r"method\.variant=draft is unknown: choose release or paper"):
        configs.override(make_config("fedavg", "paper"), {"method.variant": "draft"})
