"""Torch and what needs it, imported on first use: ``--cfg job`` and shell completion must not wait for them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any


class _Lazy:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


if TYPE_CHECKING:
    import torch
    import torch.nn.functional as functional

    from fgl_repro import nn
    from fgl_repro.fl import optim
else:
    torch = _Lazy("torch")
    functional = _Lazy("torch.nn.functional")
    nn = _Lazy("fgl_repro.nn")
    optim = _Lazy("fgl_repro.fl.optim")

__all__ = ["functional", "nn", "optim", "torch"]
