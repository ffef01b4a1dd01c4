"""Motif graphs: a base graph of one kind and size, and one of three motifs, which decides the class.

Gui et al., "GOOD: A Graph Out-of-Distribution Benchmark" (NeurIPS 2022), after Wu et al., "Discovering Invariant
Rationales for Graph Neural Networks" (ICLR 2022). Drawn here by the benchmark's rule and in its order of draws, under
its default seed; each build of the benchmark first draws a data set without shift, whose draws are made here too.
They are FedVN's graphs if its data, which cannot be had, came of that seed; else others of the same distribution.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
from tqdm import tqdm

from fgl_repro.core.lazy import sparse as sp
from fgl_repro.data.graph_dataset import GraphDataset, disjoint_union
from fgl_repro.data.graphset import GraphSet

SEED = 123
COUNT = 30_000
TRAIN, HELD, KEPT = 24_000, 3_000, 18_000  # 2 x 3,000 of train are the benchmark's validation and test sets inside it
BASES = ("wheel", "tree", "ladder", "star", "path")
WIDTHS = (6, 10, 15, 30, 70)
MOTIFS = (  # links of the motif's five nodes, of which node 0 is linked with the base
    ((1, 2), (2, 3), (3, 4), (1, 4), (0, 1), (0, 4)),  # house
    ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4)),  # cycle
    ((1, 2), (2, 3), (3, 4), (1, 4), (0, 1), (0, 3)),  # crane
)
MotifLinks = list[tuple[int, int]]
MotifGraph = tuple[int, int, MotifLinks, int]  # environment, number of nodes, links, class


@cache
def base(kind: int, width: int) -> tuple[int, frozenset[int], tuple[tuple[int, int], ...]]:
    """Build a base graph: its number of nodes, those whose links a random link may add to, and its links."""
    name, links = BASES[kind], []
    nodes, inner = width, width
    if name == "wheel":
        rim = list(range(1, width))
        links = [*((0, node) for node in rim), *pairwise(rim)]
        links += [(1, width - 1)] if len(rim) > 2 else []
    elif name == "tree":
        nodes = inner = 2 ** (max(1, int(math.log2(width)) - 1) + 1) - 1
        links = [((node - 1) // 2, node) for node in range(1, nodes)]
    elif name == "ladder":
        nodes = inner = 2 * width
        links = [(side + node, side + node + 1) for side in (0, width) for node in range(width - 1)]
        links += [(node, width + node) for node in range(width)]
    elif name == "star":
        nodes = width + 1
        return nodes, frozenset([0]), tuple((0, node) for node in range(1, nodes))
    else:
        return nodes, frozenset(range(1, width - 1)), tuple((node, node + 1) for node in range(width - 1))
    return nodes, frozenset(range(inner)), tuple(links)


class MotifStreams:
    """The benchmark's two streams of random numbers, and what it draws from them for one graph.

    Attributes:
        plain: Python's.
        arrays: NumPy's of old.
    """

    def __init__(self, seed: int) -> None:
        self.plain = random.Random(seed)
        self.arrays = np.random.RandomState(seed)

    def graph(self, kind: int, width: int, motif: int) -> tuple[int, MotifLinks, int]:
        """Draw a graph: its number of nodes, links and class; every tenth class is drawn at random."""
        between = self.arrays.randint
        first, open_to_all, own = base(kind, width)
        # ``choice(first, 1, replace=False)`` is the head of a permutation
        links = [*own, *((first + u, first + v) for u, v in MOTIFS[motif])]
        links.append((int(self.arrays.permutation(first)[0]), first))
        nodes = first + 5
        known = set(links)
        for _ in range(int(len(links) * 0.05)):
            while True:
                u, v = int(between(0, nodes)), int(between(0, nodes))
                if u != v and (u, v) not in known and (v, u) not in known:
                    break
            if u in open_to_all or v in open_to_all:
                known.add((u, v))
                links.append((u, v))
        label = self.plain.randint(0, 2) if self.plain.random() < 0.1 else motif
        return nodes, links, label

    def basis(self, environment: int | None) -> tuple[int, int, int, int]:
        """Draw kind, width and motif of a graph of an environment, and return them with its environment.

        ``environment`` is None for a graph to train on.
        """
        motif = self.plain.randint(0, 2)
        kind = self.plain.randint(0, 2) if environment is None else environment
        return kind, 10 + int(self.arrays.randint(-5, 6)), motif, kind

    def size(self, environment: int | None) -> tuple[int, int, int, int]:
        """Draw as :meth:`basis`, where environments differ in the size of the base and not in its kind."""
        environment = self.plain.randint(0, 2) if environment is None else environment
        kind, motif = self.plain.randint(0, 4), self.plain.randint(0, 2)
        return kind, WIDTHS[environment] + self.plain.randint(-5, 5), motif, environment


Draw = Callable[[MotifStreams, int | None], tuple[int, int, int, int]]
"""Draws kind, width, motif and environment of a graph of an environment, or of one to train on."""


def generate(name: str, drawn: Draw) -> list[MotifGraph]:
    """Generate graphs whose kind, width, motif and environment ``drawn`` draws.

    Those of environments 0 to 2, what is left of the benchmark's training set, come first and in the order in which it
    was shuffled; 3 and 4 are its validation and test sets in the order in which they were drawn.
    """
    streams = MotifStreams(SEED)
    bar = tqdm(desc=name, total=2 * COUNT, unit="graph", unit_scale=True, delay=1, leave=False, disable=None)
    with bar:
        for motif in range(3):  # the data set without shift
            for _ in range(COUNT // 3):
                kind = min(int(streams.arrays.random_sample() * len(BASES)), len(BASES) - 1)
                streams.graph(kind, 10 + int(streams.arrays.randint(-5, 6)), motif)
                bar.update()
        streams.plain.shuffle(list(range(COUNT)))
        graphs = []
        for environment in (*[None] * TRAIN, *[3] * HELD, *[4] * HELD):
            kind, width, motif, where = drawn(streams, environment)
            graphs.append((where, *streams.graph(kind, width, motif)))
            bar.update()
    train = graphs[:TRAIN]
    streams.plain.shuffle(train)
    return [*train[:KEPT], *graphs[TRAIN:]]


class _Motif(GraphDataset):
    draw: ClassVar[Draw]

    def drawn(self) -> list[MotifGraph]:
        """Draw all graphs, training sets in the order in which they were shuffled."""
        return generate(self.name, type(self).draw)

    def graphs(self, cache: Path) -> GraphSet:
        by_environment = sorted(self.drawn(), key=lambda graph: graph[0])
        environment, sizes, links, labels = zip(*by_environment, strict=True)
        both = [sorted([*own, *((v, u) for u, v in own)]) for own in links]
        ends = np.array([pair for own in both for pair in own]).T
        ptr, joined = disjoint_union(np.array(sizes), np.array([len(own) for own in both]), ends)
        inner = sp.csr_matrix(np.ones((int(ptr[-1]), 1), dtype=np.float32))
        where, classes = np.array(environment), np.array(labels)
        return GraphSet.of(self.name, ptr, inner, joined, where, labels=classes, num_classes=len(MOTIFS))


@dataclass
class MotifBasis(_Motif):
    """Environments are kinds of the base: wheel, tree, ladder, star, path."""

    name = "motif_basis"
    draw: ClassVar[Draw] = MotifStreams.basis


@dataclass
class MotifSize(_Motif):
    """Environments are sizes of the base: around 6, 10, 15, 30, 70."""

    name = "motif_size"
    draw: ClassVar[Draw] = MotifStreams.size
