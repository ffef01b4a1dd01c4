"""Class statistics of O-pFGL's clients, and what the server pools from them. K clients, C classes, D = (h + 1) d."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from fgl_repro.nn.adjacency import gcn_norm

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph

SMALLEST_CLASS = 2
"""Nodes of a class below which a client sends nothing of it: a std needs two."""


@dataclass(frozen=True)
class Statistics:
    """What all clients send.

    Attributes:
        count: Labelled nodes of each class, int64 ``[K, C]``; 0 where a client sends nothing.
        mean: Of their propagated features, float64 ``[K, C, D]``.
        variance: The same, divided by n - 1.
    """

    count: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    @staticmethod
    def of(graph: UnionGraph, rows: np.ndarray, labels: np.ndarray, hops: int) -> Statistics:
        """Describe union nodes ``rows`` with these ``labels`` by ``[X | A X | ... | A^h X]`` of each client's graph."""
        clients, classes = graph.num_clients, graph.base.num_classes
        features = stacked_hops(gcn_norm(graph.adjacency), graph.base.features[graph.node], hops, rows).astype(float)
        group = graph.owner[rows] * classes + labels
        count = np.bincount(group, minlength=clients * classes)
        count = np.where(count >= SMALLEST_CLASS, count, 0)
        member = sp.csr_array((np.ones(len(rows)), (group, np.arange(len(rows)))), (clients * classes, len(rows)))
        some = np.maximum(count, 1)[:, None]
        mean = np.where(count[:, None] > 0, (member @ features).toarray() / some, 0)
        square = (member @ features.power(2)).toarray() - some * mean**2
        variance = np.where(count[:, None] > 0, np.maximum(square, 0) / np.maximum(count - 1, 1)[:, None], 0)
        shape = clients, classes, -1
        return Statistics(count.reshape(clients, classes), mean.reshape(shape), variance.reshape(shape))

    def without(self, dropped: np.ndarray) -> Statistics:
        """Return what is left where clients ``dropped`` send nothing."""
        stays = np.isin(np.arange(len(self.count)), dropped, invert=True)
        wide = stays[:, None, None]
        return Statistics(self.count * stays[:, None], self.mean * wide, self.variance * wide)

    def sums(self, labelled: np.ndarray) -> np.ndarray:
        """Return each client's part of five sums, from which the server pools as from the statistics themselves.

        They are n, n m, (n - 1) s^2 + n m^2, whether n > 0, and the training nodes of each class, ``labelled``
        ``[K, C]`` (equation 12). A class that a client has not is all zeros; float64 ``[K, C (2 D + 3)]``.
        """
        count = self.count[:, :, None].astype(float)
        squares = np.maximum(count - 1, 0) * self.variance + count * self.mean**2
        parts = count, count * self.mean, squares, count > 0, labelled[:, :, None]
        return np.concatenate(parts, axis=2).reshape(len(count), -1)

    def pooled(self, by_client: bool) -> Pooled:
        """Pool them as the server does (equations 6 to 9).

        Args:
            by_client: Divide the pooled squares of a class by its nodes less the clients that have it (release), and
                not by its nodes less one, which is the unbiased variance.
        """
        count = self.count.sum(0)
        weight = self.count[:, :, None]
        mean = (weight * self.mean).sum(0) / np.maximum(count, 1)[:, None]
        squares = (np.maximum(weight - 1, 0) * self.variance + weight * (self.mean - mean) ** 2).sum(0)
        fewer = (self.count > 0).sum(0) if by_client else 1
        std = np.sqrt(squares / np.maximum(count - fewer, 1)[:, None])
        return Pooled(count / max(count.sum(), 1), mean, std)


@dataclass(frozen=True)
class Pooled:
    """Statistics over all clients: ``share`` lambda of each class ``[C]``, ``mean`` and ``std`` ``[C, D]``."""

    share: np.ndarray
    mean: np.ndarray
    std: np.ndarray

    @staticmethod
    def of(sums: np.ndarray, classes: int, by_client: bool) -> tuple[Pooled, np.ndarray]:
        """Pool from sums over all clients, float64 ``[C (2 D + 3)]``; give training nodes of each class ``[C]``, too.

        The squares lose what sum and mean have in common: hence float64.
        """
        table = sums.reshape(classes, -1)
        width = (table.shape[1] - 3) // 2
        count, total, squares, holders, labelled = np.split(table, np.cumsum([1, width, width, 1]), axis=1)
        mean = total / np.maximum(count, 1)
        left = np.maximum(squares - count * mean**2, 0)
        std = np.sqrt(left / np.maximum(count - (holders if by_client else 1), 1))
        return Pooled(count[:, 0] / max(count.sum(), 1), mean, std), labelled[:, 0].round()


def stacked_hops(adjacency: sp.csr_matrix, features: sp.csr_matrix, hops: int, rows: np.ndarray) -> sp.csr_array:
    """Stack ``rows`` of ``[X | A X | ... | A^h X]``, sparse ``[R, (h + 1) d]``; the last step goes to these alone."""
    parts, values = [sp.csr_array(features[rows])], features
    for left in range(hops, 0, -1):
        values = adjacency @ values if left > 1 else adjacency[rows] @ values
        parts.append(sp.csr_array(values[rows] if left > 1 else values))
    return sp.csr_array(sp.hstack(parts, format="csr"))
