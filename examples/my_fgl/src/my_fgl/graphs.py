"""Rings and paths: whole graphs, of which it is asked whether they close, in two environments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.data.graph_dataset import GraphDataset

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass
class Rings(GraphDataset):
    name: ClassVar[str] = "rings"

    def graphs(self, cache: Path) -> list[Data]:
        """120 graphs, half of them rings, half of them short: the environments. Those of the first load are pinned."""
        import torch
        from torch_geometric.data import Data

        found = []
        for number in range(120):
            closed, long = number % 2, number // 2 % 2
            nodes = 4 + number % 7 + 10 * long
            first = torch.arange(nodes - 1 + closed)
            links = torch.stack([first, (first + 1) % nodes])
            found.append(Data(x=torch.ones(nodes, 1), edge_index=links, y=closed, environment=long))
        return found
