"""FedLoG's reliability study: one class made rare or common at every client, test nodes told apart by degree.

"Subgraph Federated Learning for Local Generalization" (ICLR 2025), section 3.1, Eq. 14 and appendix A.8. We know that
the rate r runs over -5..5 in tenths of the smallest class and that lambda = 3; the rest is our reading:

* Parts and roles are those of the world ``plain``. At each client m is the number of training nodes of the smallest
  class that has any, and every class is first cut to m, so that r = 0 is balanced.
* r < 0: the target class keeps round(m (1 - |r| / 10)) training nodes, the other classes m: it is a tail class.
* r > 0: the target class keeps m, the other classes round(m (1 - |r| / 10)): it is a head class.
* At least one node is kept, and classes without training node stay without. Dropped nodes stay in the graph, unused.
* Which nodes go is drawn once for all targets and rates: a smaller set is a subset of a larger one.
* Degree is that in the client's own graph: tail degree up to lambda, head degree above.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import added
from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.settings import NoNewNodes, common
from fgl_repro.federation.settings.common import ClientData
from fgl_repro.federation.split import TEST, TRAIN, UNUSED, Split
from fgl_repro.federation.world import Probe, World

STEPS = 10  # a rate of 1 is one of so many parts of the smallest class


@dataclass
class Imbalance(NoNewNodes):
    """The reliability study.

    Attributes:
        target: Class that is made rare or common.
        rate: r, in tenths of the smallest class: negative for a rare target class, positive for a common one.
        tail_degree: lambda, the highest degree that counts as tail degree.
    """

    name: ClassVar[str] = "imbalance"
    probes: ClassVar[tuple[str, ...]] = (
        *("seen_graph", "head_degree", "tail_degree"),
        *("target_head_degree", "target_tail_degree"),
    )
    apart: ClassVar[bool] = True  # or what one client drops, others would lose, too

    target: int = added(0)
    rate: int = added(0)
    tail_degree: int = added(3)

    def check(self) -> None:
        super().check()
        self.at_least(0, "target", "tail_degree")
        if abs(self.rate) >= STEPS:
            raise UserError(f"setting.rate={self.rate} leaves nothing to train on: give {1 - STEPS} to {STEPS - 1}.")

    def build(self, graph: Graph, partitioner: Partitioner, split: Split) -> World:
        """Build the world with ``seen_graph``, then ``head_degree`` and ``tail_degree``.

        The last two are there for the target class only, too.
        """
        if self.target >= graph.num_classes:
            raise UserError(
                f"setting.target={self.target} is no class of {graph.name}: give 0 to {graph.num_classes - 1}."
            )
        members = partitioner.divide(graph, partitioner.clients, split.seed)
        whole = common.client_data(graph, list(members.nodes), partitioner, split)
        data = thinned(whole, self.target, self.rate, split.seed)
        probes = (common.seen_graph(data), *degree_probes(data, self.target, self.tail_degree))
        return common.as_world(data, members, probes, {"train_classes": data.counts.tolist()})


def quotas(counts: np.ndarray, target: int, rate: int) -> np.ndarray:
    """Count the training nodes that each class keeps at each client, int64 ``[K, C]`` (Eq. 14 as read above).

    Args:
        counts: Training nodes there are, int64 ``[K, C]``; every client has some.
        target: Class c.
        rate: r.
    """
    smallest = np.where(counts > 0, counts, counts.max()).min(axis=1, keepdims=True)
    fewer = np.maximum(1, np.rint(smallest * (STEPS - abs(rate)) / STEPS).astype(np.int64))
    is_target = np.arange(counts.shape[1]) == target
    kept = np.where(is_target == (rate < 0), fewer, smallest)
    return np.where(counts > 0, kept, 0)


def thinned(whole: ClientData, target: int, rate: int, seed: int) -> ClientData:
    """Keep as many training nodes of each class of ``whole`` as :func:`quotas` says; the others become ``UNUSED``."""
    union, rows = whole.graph, whole.rows(TRAIN)
    quota = quotas(whole.counts, target, rate).ravel()
    rank = numpy_rng("imbalance", seed).permutation(union.base.num_nodes)
    cell = union.owner[rows] * union.base.num_classes + union.labels[rows]
    order = np.lexsort((rank[union.node[rows]], cell))
    rows, cell = rows[order], cell[order]
    place = np.arange(len(rows)) - np.searchsorted(cell, cell)
    roles = whole.roles.copy()
    roles[union.node[rows[place >= quota[cell]]]] = UNUSED
    return replace(whole, roles=roles)


def degree_probes(data: ClientData, target: int, tail_degree: int) -> tuple[Probe, ...]:
    """Build probes of the test nodes by degree: of all classes, then of the target class."""
    graph, rows = data.graph, data.rows(TEST)
    head = graph.degree[rows] > tail_degree
    of_target = graph.labels[rows] == target
    return (
        Probe("head_degree", graph, rows[head]),
        Probe("tail_degree", graph, rows[~head]),
        Probe("target_head_degree", graph, rows[head & of_target]),
        Probe("target_tail_degree", graph, rows[~head & of_target]),
    )
