"""A graph drawn at random, of any size, with the class shares, degrees and links between classes of a real one.

Nobody measured it: it is there to learn what a method costs where no real graph of that size is at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np

from fgl_repro.core.lazy import sparse as sp
from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.catalog import NAMES, facts
from fgl_repro.data.dataset import Dataset
from fgl_repro.data.sources.source import RawGraph


@dataclass
class Generated(Dataset):
    """Nodes stand in a line, classes come in runs, and links are short, so that parts of the graph differ in classes.

    A node has the degree of a node of its class in the real graph; each of its links leads to a class with the
    probability it has there, and to a node of that class nearby. Links drawn twice, and those of a node to itself, are
    dropped. Features are Gaussian around a mean per class.

    Attributes:
        like: The real graph: any of the catalogue whose units are nodes.
        nodes: How many nodes there are.
        dimensions: Features of a node.
        distance: Length of the vector by which the mean of a class is away from the origin, in stds of a feature.
        run: Mean number of nodes after which the class is drawn again.
        reach: Std of the distance of a link's ends in the line.
        draw: Seed of the graph, not of the run.
    """

    name = "generated"

    like: str = "pubmed"
    nodes: int = 1_000_000
    dimensions: int = 100
    distance: float = 2.0
    run: int = 20
    reach: float = 100.0
    draw: int = 0

    def check(self) -> None:
        super().check()
        self.one_of(like=tuple(name for name in NAMES if not facts(name).graphs))
        self.at_least(100, "nodes")
        self.at_least(1, "dimensions", "run", "reach")
        self.at_least(0, "distance", "draw")

    @property
    def form(self) -> str:
        own = (self.like, self.nodes, self.dimensions, self.distance, self.run, self.reach, self.draw)
        return "-".join([super().form, *map(str, own)])

    def raw(self, cache: Path) -> RawGraph:
        from fgl_repro.data import download

        real = download.obtain(self.like, cache)
        rng = numpy_rng("generated", self.draw)
        labels = self._labels(real, rng)
        features = rng.standard_normal((self.nodes, self.dimensions), dtype=np.float32)
        means = rng.standard_normal((real.num_classes, self.dimensions), dtype=np.float32)
        features += self.distance * (means / np.linalg.norm(means, axis=1, keepdims=True))[labels]
        edges = self._edges(real, labels, rng)
        origin = f"a graph generated like {facts(self.like).display}"
        return RawGraph(sp.csr_matrix(features), edges, labels, real.num_classes, origin)

    def _labels(self, real: RawGraph, rng: np.random.Generator) -> np.ndarray:
        """Draw the class of each node, int64 ``[N]``: runs of classes that are drawn by their shares."""
        starts = rng.random(self.nodes) < 1 / self.run
        drawn: np.ndarray = rng.choice(real.labels, 1 + int(starts.sum()))[np.cumsum(starts)]
        return drawn

    def _edges(self, real: RawGraph, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw links as int64 ``[2, E]``, each once: their ends for all nodes, which are then paired nearby."""
        linked = np.concatenate([real.edges, real.edges[::-1]], axis=1)
        linked = np.unique(linked[:, linked[0] != linked[1]], axis=1)
        degree = np.bincount(linked[0], minlength=len(real.labels))
        shares = np.zeros((real.num_classes, real.num_classes))
        np.add.at(shares, tuple(real.labels[linked]), 1)
        own = np.empty(self.nodes, dtype=np.int64)
        for c in range(real.num_classes):
            mine = labels == c
            if mine.any():
                own[mine] = rng.choice(degree[real.labels == c], int(mine.sum()))
        ends = np.repeat(np.arange(self.nodes), own)
        bounds = (shares / np.maximum(shares.sum(1, keepdims=True), 1)).cumsum(1)
        wanted = (rng.random(len(ends))[:, None] > bounds[labels[ends]]).sum(1).clip(max=real.num_classes - 1)
        place = ends + rng.normal(0, self.reach / 2, len(ends))
        pairs = []
        for a, b in combinations_with_replacement(range(real.num_classes), 2):
            one, other = (labels[ends] == a) & (wanted == b), (labels[ends] == b) & (wanted == a)
            pairs.append(self._paired(ends, place, one, other))
        return np.concatenate(pairs, axis=1)

    @staticmethod
    def _paired(ends: np.ndarray, place: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Put ends of two kinds together in the order of their places, int64 ``[2, pairs]``.

        A surplus is dropped.
        """
        first, second = (np.flatnonzero(kind) for kind in (one, other))
        first, second = (ends[kind[np.argsort(place[kind])]] for kind in (first, second))
        if np.array_equal(one, other):
            first, second = first[0::2], first[1::2]
        size = min(len(first), len(second))
        if not size:
            return np.empty((2, 0), dtype=np.int64)
        # The surplus is left out evenly along the line, or the two kinds would drift apart.
        kept = [kind[np.linspace(0, len(kind) - 1, size).round().astype(int)] for kind in (first, second)]
        return np.stack(kept)
