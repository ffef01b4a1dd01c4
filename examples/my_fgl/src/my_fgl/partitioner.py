"""Clients of unequal size, by a Dirichlet distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner


@dataclass
class DirichletSizes(Partitioner):
    """Random parts whose shares of the nodes are one draw of Dir(alpha, ..., alpha), after ``least`` for each.

    Attributes:
        alpha: Concentration; 100 is almost even, 0.1 gives most nodes to one client.
        least: Nodes that every client has.
    """

    name: ClassVar[str] = "dirichlet_sizes"

    alpha: float = 1.0
    least: int = 20

    def check(self) -> None:
        super().check()
        self.at_least(0.001, "alpha")
        self.at_least(1, "least")

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[np.ndarray, str]:
        """Part of each node, int64 ``[N]``."""
        rng = numpy_rng(self.name, seed)
        shares = rng.dirichlet(np.full(parts, self.alpha))
        sure = np.repeat(np.arange(parts), self.least)[: graph.num_nodes]
        drawn = rng.choice(parts, graph.num_nodes - len(sure), p=shares)
        return rng.permutation(np.concatenate([sure, drawn])), f"Dirichlet({self.alpha:g}) over sizes"
