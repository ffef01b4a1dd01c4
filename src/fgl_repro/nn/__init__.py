"""Stacked networks: K models as tensors with a leading client axis. A name loads torch only when it is used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fgl_repro.nn.models.gcn import GCN
    from fgl_repro.nn.models.model import CLASSIFIER, Model, Params
    from fgl_repro.nn.models.sage import SAGE
    from fgl_repro.nn.models.sage_halves import SageHalves
    from fgl_repro.nn.ops import fan_in, glorot, stack
    from fgl_repro.nn.ragged import Draws
    from fgl_repro.nn.sampling import Neighbours
    from fgl_repro.nn.view import View, Views

_HOMES = {
    "CLASSIFIER": "models.model",
    "GCN": "models.gcn",
    "Model": "models.model",
    "Params": "models.model",
    "SAGE": "models.sage",
    "SageHalves": "models.sage_halves",
    "fan_in": "ops",
    "glorot": "ops",
    "stack": "ops",
    "Draws": "ragged",
    "Neighbours": "sampling",
    "View": "view",
    "Views": "view",
}

__all__ = [
    "CLASSIFIER",
    "GCN",
    "SAGE",
    "Draws",
    "Model",
    "Neighbours",
    "Params",
    "SageHalves",
    "View",
    "Views",
    "fan_in",
    "glorot",
    "stack",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
