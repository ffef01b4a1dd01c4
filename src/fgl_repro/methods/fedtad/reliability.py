"""How reliably a FedTAD client knows each class, from the likeness of its training nodes and their neighbours.

All K clients at once: their graphs are one block-diagonal one, N nodes in all, and nothing passes between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from fgl_repro.core.streams import numpy_rng

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph, World

STEPS = 5
"""Length of the walks."""
BLOCK = 1024
"""Nodes whose walks are followed at a time."""


def return_probabilities(graph: UnionGraph) -> np.ndarray:
    """Compute probabilities that a random walk is back after 1 to 5 steps: the diagonals of T^1 ... T^5, ``[N, 5]``.

    T = A D^-1 has the diagonals of the powers of S = D^-1/2 A D^-1/2, which is symmetric: that of S^(i + j) has the
    inner products of the rows of S^i and S^j. No power beyond the third is made, and those a block of rows at a time.
    """
    degree = graph.degree
    scale = sp.diags_array(1 / np.sqrt(np.maximum(degree, 1)))
    once = sp.csr_array(scale @ graph.adjacency @ scale).astype(float)
    out = np.zeros((graph.num_nodes, STEPS))
    for start in range(0, graph.num_nodes, BLOCK):
        rows = slice(start, start + BLOCK)
        powers = [once[rows]]
        for _ in range(STEPS // 2):
            powers.append(sp.csr_array(powers[-1] @ once))
        for step in range(2, STEPS + 1):
            one, other = powers[(step - 1) // 2], powers[step // 2 - 1]
            out[rows, step - 1] = one.multiply(other).sum(axis=1)
    return out


def visited(graph: UnionGraph, seed: int) -> np.ndarray:
    """Draw the nodes' numbers on walks over 1 to 5 nodes from each node, as the released code does, ``[N, 15]``.

    The released transition matrix is diagonal, 1 / degree (with the node itself), and steps are drawn from the softmax
    of its rows, so that a walk stays with a chance of e^(1 / degree) parts and goes to any other node with one part.
    """
    degree, sizes = graph.degree + 1, np.diff(graph.ptr)
    first, size = np.repeat(graph.ptr[:-1], sizes), np.repeat(sizes, sizes)
    stay = np.exp(1 / degree) / (np.exp(1 / degree) + size - 1)
    moves = STEPS * (STEPS - 1) // 2
    uniform = np.concatenate([numpy_rng(f"walks/{k}", seed).random((n, moves, 2)) for k, n in enumerate(sizes)])
    own = np.arange(graph.num_nodes) - first
    columns, used = [], 0
    for length in range(1, STEPS + 1):
        now = own
        columns.append(now)
        for _ in range(length - 1):
            goes, where = uniform[:, used].T
            now = np.where(goes < stay, now, (now + 1 + (where * (size - 1)).astype(np.int64)) % size)
            columns.append(now)
            used += 1
    return np.stack(columns, axis=1).astype(float)


def reliability(world: World, topology: np.ndarray) -> np.ndarray:
    """Sum the r_i of the training nodes i of each class at each client, float32 ``[K, C]``.

    r_i = (1 + sum_j cos(e_i, e_j)) / (|N(i)| + 1), j in N(i), the neighbours of i, and e = [x | t].

    Args:
        topology: t of each union node, ``[N, p]``.
    """
    graph, rows = world.graph, world.train
    joined = sp.csr_array(
        sp.hstack([graph.base.features[graph.node], sp.csr_array(topology)], format="csr"), dtype=float
    )
    length = np.sqrt(joined.multiply(joined).sum(axis=1))
    unit = sp.csr_array(sp.diags_array(1 / np.maximum(length, 1e-12)) @ joined)
    near = sp.csr_array(graph.adjacency)[rows]
    alike = sp.csr_array(near @ unit).multiply(unit[rows]).sum(axis=1)
    score = (1 + alike) / (np.diff(near.indptr) + 1)
    out = np.zeros((graph.num_clients, graph.base.num_classes), dtype=np.float32)
    np.add.at(out, (graph.owner[rows], graph.labels[rows]), score)
    return out
