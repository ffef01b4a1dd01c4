"""Typed messages and the ledger that counts their bytes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.nn.models.model import Params


@dataclass
class Message:
    """Something sent between the server and all K clients; every tensor has the leading client axis ``[K, ...]``.

    Fields hold a tensor, a dict of tensors, or None. Rows that are equal for all clients are expanded, not copied.
    """

    def tensors(self) -> Params:
        """Weights this message carries for the clients' models, by parameter name."""
        return {}

    def bytes_by_field(self) -> dict[str, int]:
        """Bytes one client sends or receives, per field."""
        out: dict[str, int] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None:
                out[f.name] = sum(map(_bytes_per_client, value.values() if isinstance(value, dict) else [value]))
        return out


@dataclass
class Weights(Message):
    """Model weights and nothing else: FedAvg's message in both directions."""

    weights: Params

    def tensors(self) -> Params:
        return self.weights


@dataclass
class Features(Message):
    """Rows of features or of sums; ``numbers`` of them at a client, on average."""

    numbers: float

    def bytes_by_field(self) -> dict[str, int]:
        return {"features": round(4 * self.numbers)}


@dataclass
class Exchange:
    """A one-off step before round 0: what every client sent up and got down."""

    up: Message | None = None
    down: Message | None = None


def _bytes_per_client(tensor: Tensor) -> int:
    return tensor.numel() // tensor.shape[0] * tensor.element_size()


class Ledger:
    """Bytes of one client, summed over the run, by phase, direction and field."""

    def __init__(self) -> None:
        self._count: dict[tuple[str, str, str], int] = defaultdict(int)

    def add(self, phase: str, direction: str, message: Message | None) -> None:
        """Count ``message``; ``direction`` is ``up`` (client to server) or ``down``."""
        if message is not None:
            for name, size in message.bytes_by_field().items():
                self._count[phase, direction, name] += size

    def as_dict(self) -> dict[str, dict[str, dict[str, int]]]:
        """``{phase: {direction: {field: bytes}}}``."""
        out: dict[str, dict[str, dict[str, int]]] = {}
        for (phase, direction, name), size in sorted(self._count.items()):
            out.setdefault(phase, {}).setdefault(direction, {})[name] = size
        return out
