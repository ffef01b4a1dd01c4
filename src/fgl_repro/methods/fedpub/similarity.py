"""How alike clients are to FED-PUB's server, and whether those are whose labels are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fgl_repro.core.lazy import torch
from fgl_repro.fl.metrics import jensen_shannon
from fgl_repro.fl.mixing import cosine

if TYPE_CHECKING:
    from torch import Tensor


def softmax_of_cosine(embedding: Tensor, tau: float) -> Tensor:
    """Take row softmax of ``tau * cos(e_i, e_j)`` for embeddings ``[K, D]`` (FED-PUB): a mixing matrix ``[K, K]``."""
    return torch.softmax(tau * cosine(embedding), dim=1)


def label_correlation(similar: np.ndarray, counts: np.ndarray) -> float | None:
    """Compute Pearson's correlation, over pairs of clients, of ``similar`` ``[K, K]`` and likeness of labels.

    Likeness is 1 minus the Jensen-Shannon divergence of the class ``counts`` ``[K, C]``. None where either is constant.
    """
    pairs = np.triu_indices(len(counts), 1)
    ours, labels = similar[pairs].astype(float), 1 - jensen_shannon(counts)[pairs]
    if len(ours) < 2 or np.ptp(ours) == 0 or np.ptp(labels) == 0:
        return None
    return float(np.corrcoef(ours, labels)[0, 1])
