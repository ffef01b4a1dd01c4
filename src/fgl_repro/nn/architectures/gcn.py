"""GCN: two graph convolutions and a linear classifier (:mod:`fgl_repro.nn.models.gcn`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.nn.architectures import Architecture

if TYPE_CHECKING:
    from fgl_repro.nn.models.model import Model


@dataclass
class Gcn(Architecture):
    name: ClassVar[str] = "gcn"

    def build(self, num_features: int, num_classes: int) -> Model:
        from fgl_repro.nn.models.gcn import GCN

        return GCN(num_features, num_classes, self.hidden, self.dropout)
