"""A stochastic block model: three classes, whose nodes link among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.data.dataset import Dataset

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass
class Blocks(Dataset):
    name: ClassVar[str] = "blocks"

    def raw(self, cache: Path) -> Data:
        """120 nodes. What is returned the first time is pinned in ``cache``, and another graph is refused later."""
        import torch
        from torch_geometric.data import Data

        rng = torch.Generator().manual_seed(0)
        labels = torch.arange(120) % 3
        linked = torch.rand(120, 120, generator=rng) < torch.where(labels[:, None] == labels, 0.2, 0.01)
        words = torch.eye(3)[labels] + 0.1 * torch.rand(120, 3, generator=rng)
        return Data(x=words, edge_index=linked.triu(1).nonzero().T, y=labels)
