"""Oracle: one model, trained on the whole graph with every edge. No federation: what clients would reach as one.

Paper: the upper bound of FED-PUB's Table 7: "trained on the connected global graph, evaluated on the disjoint
subgraphs of all clients". It learns from the training nodes of all clients and validates on all their validation nodes
in the whole graph.

Variants: in which graph it meets the test nodes of the clients, over whom its accuracy is averaged like the others'.
    whole    the whole graph. The printed accuracies do not fall with the number of clients, hence with the edges cut.
    clients  the clients' own graphs, as the caption can be read.

Not trained on: nodes that no client has (one in 32 of the overlapping parts). Rounds are merely epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fgl_repro.federation.world import UnionGraph
from fgl_repro.fl.method import Method

if TYPE_CHECKING:
    from fgl_repro.fl.inputs import Inputs


@dataclass
class Oracle(Method[None]):
    name: ClassVar[str] = "oracle"
    display: ClassVar[str] = "Oracle"
    variants: ClassVar[tuple[str, ...]] = ("whole", "clients")
    shares_features: ClassVar[bool] = True
    on_whole_graph: ClassVar[bool] = True

    variant: str = "whole"

    def inputs(self, own: Inputs) -> Inputs:
        world = own.world
        base, nodes = world.graph.base, world.graph.node
        everything = np.arange(base.num_nodes)
        whole = UnionGraph.induced(base, [everything])
        probes = world.probes
        if self.variant == "whole":
            copies = UnionGraph.induced(base, [everything] * world.num_clients)
            owned = [copies.ptr[p.graph.owner[p.rows]] + p.graph.node[p.rows] for p in probes]
            probes = tuple(
                replace(p, graph=copies, rows=rows, nodes=np.diff(p.graph.ptr))
                for p, rows in zip(probes, owned, strict=True)
            )
        validation = replace(world.validation, graph=whole, rows=np.unique(nodes[world.validation.rows]))
        train = np.unique(nodes[world.train])
        joint = replace(world, graph=whole, train=train, validation=validation, probes=probes)
        return replace(own, world=joint)
