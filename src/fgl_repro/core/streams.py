"""Named random streams: a new draw in one place never shifts the draws of another."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from fgl_repro.core.lazy import torch

if TYPE_CHECKING:
    from torch import Generator


def stream_seed(name: str, seed: int) -> int:
    """Return the 63-bit seed of the stream ``name`` (``split``, ``init``, ``dropout``, ...) for run seed ``seed``."""
    digest = hashlib.sha256(f"{name}/{seed}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def numpy_rng(name: str, seed: int) -> np.random.Generator:
    """Make the NumPy generator of the named stream."""
    return np.random.default_rng(stream_seed(name, seed))


def torch_rng(name: str, seed: int, device: str = "cpu") -> Generator:
    """Make the torch generator of the named stream on ``device``."""
    return torch.Generator(device=device).manual_seed(stream_seed(name, seed))
