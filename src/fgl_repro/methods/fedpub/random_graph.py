"""A random graph on which all clients' models can be compared (FED-PUB's functional similarity)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fgl_repro.core.streams import numpy_rng, torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.data.graphset import GraphSet
from fgl_repro.fl.messages import Message

BLOCKS, SIZE, EDGE_PROBABILITY = 5, 100, 0.1
"""Five disjoint Erdos-Renyi graphs of 100 nodes, as in the released code: about 2,475 undirected edges."""

SHAPES = {
    "sbm": (BLOCKS, SIZE, EDGE_PROBABILITY),
    "er": (1, BLOCKS * SIZE, EDGE_PROBABILITY * (SIZE - 1) / (BLOCKS * SIZE - 1)),
    "one": (1, 1, 0.0),
}
"""Blocks, nodes of each, probability of an edge inside one."""


@dataclass
class SharedGraph(Message):
    """The random graph, sent once: features ``[K, 500, d]`` and every edge both ways ``[K, 2, M]``, 64-bit."""

    features: Tensor
    edges: Tensor

    @staticmethod
    def of(graph: Graph, clients: int, device: torch.device) -> SharedGraph:
        """Make the message that sends ``graph`` to so many clients."""
        edges = torch.from_numpy(np.stack(graph.adjacency.nonzero())).long()
        sent = torch.from_numpy(graph.features.toarray()), edges
        return SharedGraph(*(tensor.to(device).expand(clients, *tensor.shape) for tensor in sent))


def drawn(num_features: int, seed: int, kind: str = "sbm") -> Graph:
    """Draw the graph from the named streams of the run seed; Gaussian features, one class.

    Args:
        kind: ``sbm``, the blocks above; ``er``, as many nodes and on average as many edges in one block; ``one``,
            a single node.
    """
    count, size, probability = SHAPES[kind]
    rng = numpy_rng("random-graph", seed)
    blocks = [np.triu(rng.random((size, size)) < probability, 1) for _ in range(count)]
    upper = sp.block_diag(blocks, format="csr", dtype=np.float32)
    nodes = count * size
    return Graph(
        name="random",
        features=sp.csr_matrix(torch.randn(nodes, num_features, generator=torch_rng("random-graph", seed)).numpy()),
        adjacency=sp.csr_matrix(upper + upper.T),
        labels=np.zeros(nodes, dtype=np.int64),
        num_classes=1,
        original_id=np.arange(nodes, dtype=np.int32),
    )


def as_graphs(graph: Graph, kind: str = "sbm") -> GraphSet:
    """Make each block of a graph that was drawn a graph by itself, without categories of nodes and links."""
    count, size, _ = SHAPES[kind]
    ptr = np.arange(count + 1) * size
    zeros = np.zeros(count, dtype=np.int64)
    return GraphSet.of("random", ptr, graph.features, graph.adjacency, zeros, labels=zeros)
