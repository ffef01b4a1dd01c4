"""Louvain communities merged at random to the wanted number of clients (FED-PUB, ICML 2023, supplement C.2).

The supplement says no more than that; the released code has no such generator. Here the communities are dealt out in
random order, one to each client in turn, so that clients get equally many communities, not nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.partitioners.louvain import communities


@dataclass
class LouvainMerged(Partitioner):
    name: ClassVar[str] = "louvain_merged"

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[np.ndarray, str]:
        """Part of each node, int64 ``[N]``.

        Raises:
            UserError: There are fewer communities than ``parts``.
        """
        found = communities(graph, seed)
        if len(found) < parts:
            raise UserError(
                f"{graph.name} has {len(found)} Louvain communities, too few for {parts} parts; "
                "lower partitioner.clients."
            )
        part = np.empty(graph.num_nodes, dtype=np.int64)
        for place, number in enumerate(numpy_rng("louvain", seed).permutation(len(found))):
            part[found[number]] = place % parts
        return part, f"{len(found)} Louvain communities of networkx {version('networkx')}, merged"
