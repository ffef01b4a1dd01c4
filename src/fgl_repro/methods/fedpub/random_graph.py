"""A random graph on which all clients' models can be compared (FED-PUB's functional similarity)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fgl_repro.core.streams import numpy_rng, torch_rng
from fgl_repro.fl.messages import Message
from fgl_repro.nn.sparse import DenseOp, SparseOp
from fgl_repro.nn.view import View, gcn_norm

BLOCKS, SIZE, EDGE_PROBABILITY = 5, 100, 0.1
"""Five disjoint Erdos-Renyi graphs of 100 nodes, as in the released code: about 2,475 undirected edges."""

SHAPES = {
    "sbm": (BLOCKS, SIZE, EDGE_PROBABILITY),
    "er": (1, BLOCKS * SIZE, EDGE_PROBABILITY * (SIZE - 1) / (BLOCKS * SIZE - 1)),
    "one": (1, 1, 0.0),
}
"""Blocks, nodes of each, probability of an edge inside one."""


@dataclass
class Probe(Message):
    """The random graph, sent once: features ``[K, 500, d]`` and every edge both ways ``[K, 2, M]``, 64-bit."""

    features: Tensor
    edges: Tensor


def random_graph(
    clients: int, num_features: int, seed: int, device: torch.device, kind: str = "sbm"
) -> tuple[Probe, View]:
    """Draw the graph from the named streams of the run seed; Gaussian features.

    Args:
        kind: ``sbm``, the blocks above; ``er``, as many nodes and on average as many edges in one block; ``one``,
            a single node.

    Returns:
        What is sent of it, and the view that applies K models to K copies of it.
    """
    count, size, probability = SHAPES[kind]
    rng = numpy_rng("random-graph", seed)
    blocks = [np.triu(rng.random((size, size)) < probability, 1) for _ in range(count)]
    upper = sp.block_diag(blocks, format="csr", dtype=np.float32)
    adjacency = sp.csr_matrix(upper + upper.T)
    nodes = adjacency.shape[0]
    features = torch.randn(nodes, num_features, generator=torch_rng("random-graph", seed)).to(device)
    normal = gcn_norm(adjacency)
    propagated = SparseOp.of(normal, device)(features)
    copies = sp.csr_matrix(sp.kron(sp.eye_array(clients, dtype=np.float32), normal, format="csr"))
    view = View(
        dense=DenseOp(propagated.unsqueeze(0).expand(clients, -1, -1)),
        sparse=None,
        inner=None,
        outer=SparseOp.of(copies, device),
        labels=torch.zeros(clients, nodes, dtype=torch.long, device=device),
        mask=torch.ones(clients, nodes, device=device),
        counts=torch.full((clients,), float(nodes), device=device),
        slots=torch.arange(clients * nodes, device=device),
    )
    edges = torch.from_numpy(np.stack(adjacency.nonzero())).long().to(device)
    return Probe(*(tensor.expand(clients, *tensor.shape) for tensor in (features, edges))), view
