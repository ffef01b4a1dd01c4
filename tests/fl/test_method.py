"""What all methods refuse."""

from __future__ import annotations

import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.fl.method import Method
from fgl_repro.methods.fedpub import FedPub
from support.runs import make_config

CPU = torch.device("cpu")


def test_base_method_refuses_unknown_variants() -> None:
    with pytest.raises(Exception, match="choose release or paper"):
        configs.override(make_config("fedavg", "paper"), {"method.variant": "draft"})
    assert issubclass(FedPub, Method)
