"""Parts drawn at random. No edge is looked at, so parts are seldom connected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner


@dataclass
class Random(Partitioner):
    """Uniformly random parts whose sizes differ by at most one node."""

    name: ClassVar[str] = "random"
    units: ClassVar[tuple[str, ...]] = ("node", "graph")

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[np.ndarray, str]:
        """Deal the nodes of ``graph`` round-robin in a random order; int64 ``[N]``."""
        part = np.empty(graph.num_nodes, dtype=np.int64)
        part[numpy_rng("partition", seed).permutation(graph.num_nodes)] = np.arange(graph.num_nodes) % parts
        return part, "random"


@dataclass
class Dirichlet(Partitioner):
    """Label skew by a Dirichlet distribution: the smaller alpha, the fewer classes a client has.

    The usual reference is Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated
    Visual Classification" (2019), who draw the classes of each client. As in most code since (Yurochkin et al.,
    "Bayesian Nonparametric Federated Learning of Neural Networks", ICML 2019), the clients of each class are drawn:

        p_c ~ Dir(alpha, ..., alpha) over the K parts, for each class c,

    and the nodes of class c, in random order, are cut at the cumulative shares of p_c. A draw that leaves a part with
    fewer than ``least`` nodes is thrown away, a hundred times at most.

    Attributes:
        alpha: Concentration; 100 is almost even, 0.1 gives most of a class to one part.
        least: Nodes that every part must have.
        draws: Draws before it is given up.
        how: What its source says of the draw besides.
    """

    name: ClassVar[str] = "dirichlet"
    units: ClassVar[tuple[str, ...]] = ("node", "graph")
    draws: ClassVar[int] = 100
    how: ClassVar[str] = ""

    alpha: float = 0.5
    least: int = 10

    def check(self) -> None:
        super().check()
        self.at_least(1, "least")
        self.at_least(0.001, "alpha")

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[np.ndarray, str]:
        """Draw the part of each node, int64 ``[N]``.

        Raises:
            UserError: No draw gave every part its nodes.
        """
        rng = numpy_rng("dirichlet", seed)
        for _ in range(self.draws):
            part = self.drawn(graph, parts, rng)
            if part is not None and np.bincount(part, minlength=parts).min() >= self.least:
                return part, f"Dirichlet({self.alpha:g}) over labels{self.how}"
        raise UserError(
            f"partitioner={self.name} left one of {parts} parts of {graph.name} with fewer than {self.least} nodes in "
            f"each of {self.draws} draws: raise partitioner.alpha={self.alpha:g}, or lower partitioner.clients or "
            ".least."
        )

    def drawn(self, graph: Graph, parts: int, rng: np.random.Generator) -> np.ndarray | None:
        """Draw the part of each node once, int64 ``[N]``; None where the draw is to be thrown away."""
        part = np.empty(graph.num_nodes, dtype=np.int64)
        for label in range(graph.num_classes):
            nodes = rng.permutation(np.flatnonzero(graph.labels == label))
            shares = rng.dirichlet(np.full(parts, self.alpha))
            ends = np.rint(np.cumsum(shares)[:-1] * len(nodes)).astype(np.int64)
            part[nodes] = np.searchsorted(ends, np.arange(len(nodes)), side="right")
        return part
