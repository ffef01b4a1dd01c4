"""O-pFGL's surrogate: a small graph that clients learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fgl_repro.methods.condensing.weighted import weighted_union
from fgl_repro.nn.ops import normalised

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph

ONE_THREAD_BELOW = 64
"""Surrogate nodes below which one thread is faster than two (measured: 7 to 42 nodes; two gain from 84 on)."""


@dataclass(frozen=True)
class Surrogate:
    """A small graph: features ``[M, d]``, symmetric link weights ``[M, M]`` with 0 on the diagonal, labels ``[M]``."""

    features: Tensor
    links: Tensor
    labels: Tensor

    @property
    def normalised(self) -> Tensor:
        """D^-1/2 (A + I) D^-1/2, ``[M, M]``."""
        return normalised(self.links)

    def union(self, copies: int = 1) -> UnionGraph:
        """Make the graph that of one client or of several, with the links' weights in the adjacency."""
        count = len(self.labels)
        joined = torch.cat([self.features, self.links, self.labels.unsqueeze(1).float()], dim=1)
        host = joined.cpu().numpy()  # in one transfer
        features, links, labels = host[:, : -count - 1], host[:, -count - 1 : -1], host[:, -1].astype(np.int64)
        return weighted_union("surrogate", features, sp.csr_matrix(links), labels, copies)

    @property
    def size(self) -> int:
        """Bytes of what a client gets: features, links as pairs of 64-bit numbers with a weight each, labels."""
        return 4 * self.features.numel() + 20 * int((self.links > 0).sum()) + 8 * len(self.labels)
