"""Torch and scipy, imported on first use: ``--cfg job`` and shell completion must not wait for them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["functional", "lazy", "sparse", "stats", "torch"]


class _Lazy:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


def lazy(name: str) -> Any:
    """Return the module called ``name``, imported when the first of its attributes is asked for.

    The type checker knows it where it is imported under ``TYPE_CHECKING``, too. A method leaves that out for files of
    its package that know the method: files may not import each other in a circle, not for the type checker either.
    """
    return _Lazy(name)


if TYPE_CHECKING:
    import scipy.sparse as sparse
    import scipy.stats as stats
    import torch
    import torch.nn.functional as functional
else:
    sparse = lazy("scipy.sparse")
    stats = lazy("scipy.stats")
    torch = lazy("torch")
    functional = lazy("torch.nn.functional")
