"""Typed messages and the ledger that counts their bytes, client by client."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.nn.models.model import Params


@dataclass
class Message:
    """Something sent between the server and all K clients; every tensor has the leading client axis ``[K, ...]``.

    Fields hold a tensor, a dict of tensors, or None; where clients send rows that differ in number, the bytes of each
    client, int64 ``[K]``, stand for them. Rows that are equal for all clients are expanded, not copied.
    """

    def tensors(self) -> Params:
        """Return the weights this message carries for the clients' models, by parameter name."""
        return {}

    def bytes_by_field(self) -> dict[str, np.ndarray]:
        """Count the bytes that each client sends or receives, int64 ``[K]``, per field."""
        out: dict[str, np.ndarray] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                out[f.name] = value
            elif value is not None:
                tensors = value.values() if isinstance(value, dict) else [value]
                out[f.name] = sum(map(_bytes_of_each, tensors), np.zeros(1, dtype=np.int64))
        return out


class FromSome(Message):
    """A message that only some clients send or receive: of the others there are no bytes.

    Args:
        whole: What it would be of all.
        present: Who sends or receives it, bool ``[K]``.
    """

    def __init__(self, whole: Message, present: np.ndarray) -> None:
        self.whole, self.present = whole, present

    def bytes_by_field(self) -> dict[str, np.ndarray]:
        return {name: np.where(self.present, sizes, 0) for name, sizes in self.whole.bytes_by_field().items()}


@dataclass
class Weights(Message):
    """Model weights and nothing else: FedAvg's message in both directions."""

    weights: Params

    def tensors(self) -> Params:
        return self.weights


@dataclass
class Features(Message):
    """Rows of features or of sums: bytes of each client, int64 ``[K]``."""

    features: np.ndarray


@dataclass
class Gradients(Message):
    """Gradients by the names of the weights, ``[K, ...]`` each; of each class by itself ``[K, C, ...]``."""

    gradients: Params


def _bytes_of_each(tensor: Tensor) -> np.ndarray:
    """Count the bytes of each client's part of one stacked tensor, all equal in size."""
    return np.full(tensor.shape[0], tensor.numel() // tensor.shape[0] * tensor.element_size(), dtype=np.int64)


class Ledger:
    """Bytes of every client, summed over the run, by phase, direction and field; and seconds of the server's work.

    A GPU is waited for before and after a round's aggregation; what servers do in phases may end in what follows.
    """

    def __init__(self) -> None:
        self.clients: dict[tuple[str, str, str], np.ndarray] = {}
        self.server_seconds = 0.0

    def add(self, phase: str, direction: str, message: Message | None) -> None:
        """Count ``message``; ``direction`` is ``up`` (client to server) or ``down``."""
        if message is not None:
            for name, sizes in message.bytes_by_field().items():
                self.clients[phase, direction, name] = self.clients.get((phase, direction, name), 0) + sizes

    def as_dict(self) -> dict[str, dict[str, dict[str, int]]]:
        """Average over clients, rounded: ``{phase: {direction: {field: bytes}}}``."""
        out: dict[str, dict[str, dict[str, int]]] = {}
        for (phase, direction, name), sizes in sorted(self.clients.items(), key=lambda item: item[0]):
            out.setdefault(phase, {}).setdefault(direction, {})[name] = round(int(sizes.sum()) / len(sizes))
        return out
