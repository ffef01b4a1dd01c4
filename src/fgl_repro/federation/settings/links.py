"""Worlds in which some links of every client are held back, to be told from pairs of nodes that have none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import sparse as sp
from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.settings.plain import Plain
from fgl_repro.federation.split import Split
from fgl_repro.federation.world import HeldLinks, Pairs, UnionGraph, World

TRIES = 20
"""How many pairs are drawn at most for each that is wanted without a link; a client may be all but complete."""


@dataclass
class Links(Plain):
    """Prediction of links (O-pFGL, Appendix L): networks that have learnt classes are trained on to tell links.

    Every client holds a share of its links back, and as many pairs of its nodes without a link are drawn beside them.
    Nobody sees a link that is held back, neither while classes are learnt nor after; where clients share nodes, another
    may have it, too. The paper says only that a network is first trained on classes and then for links, and that areas
    under the ROC curve are compared: shares, pairs, the decoder (a product of the two nodes' outputs) and the schedule
    of ``fl/links.py`` are ours.

    Attributes:
        validation: Share of a client's links that chooses its network.
        test: Share that it is tested by.
    """

    name: ClassVar[str] = "links"
    probes: ClassVar[tuple[str, ...]] = ("seen_graph", "links")
    units: ClassVar[tuple[str, ...]] = ("node",)

    validation: float = 0.05
    test: float = 0.1

    def check(self) -> None:
        super().check()
        if not (self.validation > 0 and self.test > 0 and self.validation + self.test < 1):
            raise UserError(
                f"setting.validation={self.validation} and setting.test={self.test} must be above 0 and leave links to "
                "train on: give shares with a sum below 1."
            )

    def build(self, graph: Graph, partitioner: Partitioner, split: Split) -> World:
        """Build the world with ``seen_graph`` on what is left of the clients' graphs.

        The probe ``links`` is measured after training.
        """
        world = super().build(graph, partitioner, split)
        thinned, held = held_back(world.graph, self.validation, self.test, split.seed)
        rows: dict[str, list[int]] = world.facts["test_rows"]  # type: ignore[assignment]
        return replace(
            world,
            graph=thinned,
            validation=replace(world.validation, graph=thinned),
            probes=tuple(replace(probe, graph=thinned) for probe in world.probes),
            links=held,
            facts=world.facts | {"test_rows": rows | {"links": held.test.counts(thinned).tolist()}},
        )


def held_back(graph: UnionGraph, validation: float, test: float, seed: int) -> tuple[UnionGraph, HeldLinks]:
    """Hold links back; return the graph without them, and these with as many pairs that have none.

    Args:
        validation, test: Shares of every client's links, rounded down.
        seed: Of the stream ``links/K`` of client K, so that no client's draw depends on another's.
    """
    links, owner = graph.links, graph.owner[graph.links[0]]
    parts: dict[str, list[Pairs]] = {"validation": [], "test": []}
    for k, (first, end) in enumerate(pairwise(graph.ptr.tolist())):
        rng = numpy_rng(f"links/{k}", seed)
        own = rng.permutation(links[:, owner == k], axis=1)
        sizes = int(own.shape[1] * test), int(own.shape[1] * validation)
        others = unlinked(own, first, end, sum(sizes), rng)
        cut = min(sizes[0], others.shape[1])
        parts["test"].append(Pairs.of(own[:, : sizes[0]], others[:, :cut]))
        parts["validation"].append(Pairs.of(own[:, sizes[0] : sum(sizes)], others[:, cut:]))
    held = HeldLinks(Pairs.joined(parts["validation"]), Pairs.joined(parts["test"]))
    pairs = np.concatenate([part.nodes[:, part.linked] for part in (held.validation, held.test)], axis=1)
    # methods that look at their neighbours' links, or at all of them, read the whole graph
    whole = replace(graph.base, adjacency=without(graph.base.adjacency, graph.node[pairs]))
    return replace(graph, base=whole, adjacency=without(graph.adjacency, pairs)), held


def without(adjacency: sp.csr_matrix, pairs: np.ndarray) -> sp.csr_matrix:
    """Take the links ``pairs``, int64 ``[2, P]``, either way round, from a symmetric 0/1 matrix."""
    half = sp.coo_matrix((np.ones(pairs.shape[1], np.float32), tuple(pairs)), shape=adjacency.shape)
    left = sp.csr_matrix(adjacency - adjacency.multiply(half + half.T > 0))
    left.eliminate_zeros()
    left.sort_indices()
    return left


def unlinked(links: np.ndarray, first: int, end: int, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Draw different pairs without a link of nodes ``first`` to ``end - 1``, int64 ``[2, P]``; fewer if there are none.

    Args:
        links: Of these nodes, the smaller number first, ``[2, L]``.
        wanted: P.
    """
    size = end - first
    drawn = np.sort(rng.integers(first, end, (2, wanted * TRIES)), axis=0) if size else np.empty((2, 0), np.int64)
    code = (drawn[0] - first) * size + drawn[1] - first
    taken = (links[0] - first) * size + links[1] - first
    _, earliest = np.unique(code, return_index=True)
    fresh = np.sort(earliest)
    fresh = fresh[(drawn[0] < drawn[1])[fresh] & ~np.isin(code[fresh], taken)]
    out: np.ndarray = drawn[:, fresh[:wanted]]
    return out
