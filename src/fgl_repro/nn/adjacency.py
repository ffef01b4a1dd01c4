"""Links as models take them: with self-loops, normalised. Plain SciPy, which needs no torch."""

from __future__ import annotations

import numpy as np

from fgl_repro.core.lazy import sparse as sp


def with_loops(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """Return A + I: every node its own neighbour, with weight 1."""
    return sp.csr_matrix(adjacency + sp.eye_array(adjacency.shape[0], dtype=np.float32, format="csr"))


def weighted(adjacency: sp.csr_matrix) -> bool:
    """Tell whether links have weights other than 1, as those of a condensed graph have."""
    return bool((adjacency.data != 1).any())


def gcn_norm(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """Normalise symmetrically with self-loops, D^-1/2 (A + I) D^-1/2 with degrees of A + I (Kipf & Welling, 2017)."""
    looped = with_loops(adjacency)
    scale = sp.diags_array(1 / np.sqrt(np.asarray(looped.sum(axis=1)).ravel()), dtype=np.float32)
    return sp.csr_matrix(scale @ looped @ scale)


def plain_norm(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """Normalise 0/1 links symmetrically without self-loops, D^-1/2 A D^-1/2; a node alone has an empty row."""
    degree = np.diff(adjacency.indptr)
    scale = sp.diags_array(np.where(degree > 0, np.maximum(degree, 1) ** -0.5, 0), dtype=np.float32)
    return sp.csr_matrix(scale @ adjacency @ scale)
