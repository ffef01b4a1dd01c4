"""Torch, imported on first use: ``--help``, ``--cfg job`` and shell completion must not wait for it."""

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
else:
    torch = _Lazy("torch")
    functional = _Lazy("torch.nn.functional")

__all__ = ["functional", "torch"]
