"""Generated graphs as any stacked model reads them.

Where the features of n nodes are their names, one-hot, a first layer's map ``[n, H]`` holds what it makes of each node.
So any model reads features X that have a gradient once its first map W is replaced by X W: its own view of the links
does the rest, whether it averages neighbours (GraphSAGE), weighs them (GAT) or takes many steps (SGC).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import UnionGraph
from fgl_repro.nn.models.model import Model
from fgl_repro.nn.view import Views


class Named:
    """The links of a graph whose nodes have names for features.

    Args:
        around: Its normalised adjacency ``[n, n]``; what is not 0 beside the diagonal is a link of weight 1.
    """

    def __init__(self, around: Tensor) -> None:
        self.around = around
        self._views: dict[int, Any] = {}

    def view(self, model: Model, copies: int) -> Any:
        """Return a model's view of all nodes of so many copies; made once, for one model."""
        if copies not in self._views:
            graph = self.union(copies)
            self._views[copies] = model.view(Views(self.around.device), graph, np.arange(graph.num_nodes))
        return self._views[copies]

    def union(self, copies: int) -> UnionGraph:
        """Build the graphs of so many clients, all alike."""
        nodes = len(self.around)
        links = sp.csr_matrix(self.around.cpu().numpy() != 0, dtype=np.float32)
        links.setdiag(0)
        links.eliminate_zeros()
        base = Graph(
            name="generated",
            features=sp.eye_array(nodes, dtype=np.float32, format="csr"),
            adjacency=links,
            labels=np.zeros(nodes, dtype=np.int64),
            num_classes=1,
            original_id=np.arange(nodes, dtype=np.int32),
        )
        return UnionGraph.copies(base, copies)


def mapped(features: Tensor, weight: Tensor) -> Tensor:
    """Compute first maps of nodes by their names, ``[K, m n, H]``.

    Args:
        features: X ``[n, d]``.
        weight: First maps ``[K, m d, H]``: of a node's own features, of its neighbours' mean and the like, m blocks.
    """
    clients, height, width = weight.shape
    blocks = weight.view(clients, height // features.shape[1], features.shape[1], width)
    return torch.matmul(features, blocks).flatten(1, 2)
