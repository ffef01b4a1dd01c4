"""What an O-pFGL client makes of its labels before it sends anything: soft labels, weights, reliable nodes.

All K clients at once: their graphs are one block-diagonal one, so that nothing passes from one to another. N nodes in
all, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fgl_repro.nn.adjacency import plain_norm

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph, World


def propagated(world: World, rounds: int, share: float) -> np.ndarray:
    """Compute soft labels F by label propagation, float32 ``[N, C]``; rows need not sum to 1.

    F <- clip(a D^-1/2 A D^-1/2 F + (1 - a) Y), a = ``share``, from F = Y, the one-hot labels of training nodes. Nodes
    that no label reaches have 1 / C everywhere.
    """
    graph = world.graph
    start = np.zeros((graph.num_nodes, graph.base.num_classes), dtype=np.float32)
    start[world.train, graph.labels[world.train]] = 1
    step = plain_norm(graph.adjacency)
    soft = start
    for _ in range(rounds):
        soft = np.clip(np.float32(share) * (step @ soft) + np.float32(1 - share) * start, 0, 1)
    soft[soft.sum(1) == 0] = 1 / graph.base.num_classes
    return soft


def class_weights(world: World) -> np.ndarray:
    """Compute distillation weights w_c = 1 / (1 + ln(1 + H_c)), float64 ``[K, C]`` (equation 16).

    H_c is the sum, over training nodes of class c, of the share of their training neighbours that have their label (0
    without such neighbours); a class that a client has not weighs 1.
    """
    graph = world.graph
    trains = np.zeros(graph.num_nodes, dtype=bool)
    trains[world.train] = True
    links = graph.adjacency.tocoo()
    known = trains[links.row] & trains[links.col]
    row, same = links.row[known], graph.labels[links.row[known]] == graph.labels[links.col[known]]
    near = np.bincount(row, minlength=graph.num_nodes)
    alike = np.bincount(row, weights=same, minlength=graph.num_nodes)
    homophily = np.zeros((graph.num_clients, graph.base.num_classes))
    np.add.at(homophily, (graph.owner, graph.labels), np.where(trains, alike / np.maximum(near, 1), 0))
    out: np.ndarray = 1 / (1 + np.log1p(homophily))
    return out


@dataclass(frozen=True)
class Reliable:
    """Which nodes stand in for labelled ones (section HRE).

    Attributes:
        major: How many classes of the smallest weights w a client adds nodes of; 0: nothing is added.
        confidence: Least share of a node's soft label that one class must have.
        degree: Least number of its neighbours.
    """

    major: int
    confidence: float
    degree: int

    def nodes(self, world: World, soft: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Choose union nodes, ascending, and the classes that their soft labels ``[N, C]`` say."""
        graph = world.graph
        shares = soft / (soft.sum(1, keepdims=True) + np.float32(1e-9))
        classes = shares.argmax(1)
        chosen = shares.max(1) >= np.float32(self.confidence)
        chosen &= graph.degree >= self.degree
        chosen[world.train] = False
        rank = weights.argsort(1, kind="stable").argsort(1)
        chosen &= rank[graph.owner, classes] < self.major
        nodes = np.flatnonzero(chosen)
        return nodes, classes[nodes]


def distillation(graph: UnionGraph, soft: np.ndarray, weights: np.ndarray, scale: float) -> np.ndarray:
    """Weigh every node in the distillation by gamma, before it is clamped, float64 ``[N]`` (equation 17)."""
    out: np.ndarray = scale * (soft * weights[graph.owner]).sum(1)
    return out
