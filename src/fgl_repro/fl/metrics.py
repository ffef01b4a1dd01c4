"""Accuracies and errors, and the averages that papers hide behind these words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fgl_repro.core.lazy import torch
from fgl_repro.core.schema import Strict

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.federation.world import Average, Probe
    from fgl_repro.nn.view import View


@dataclass(frozen=True)
class Metric:
    """What the numbers of a table are: which of two is the better one, and how they and their gaps are told.

    Accuracies and F1 are shares: more is better, they are told in percent and their gaps in points. An error has the
    unit of what is predicted, in which no gap is small or large by itself: it is told as it is, less is better, and
    gaps are percent of the printed number, so that what is near in points (of shares) is near in percent (of errors).

    Attributes:
        entry: The part of a measurement that holds it.
        title: What pages call it.
        error: Whether it is an error.
    """

    entry: str
    title: str
    error: bool = False

    def merit(self, value: float) -> float:
        """Return ``value`` so that more is better: the minus of an error."""
        return -value if self.error else value

    @property
    def scale(self) -> int:
        """By what a recorded number is multiplied where it is told."""
        return 1 if self.error else 100

    @property
    def unit(self) -> str:
        """What gaps to print are told in."""
        return "percent of the printed number" if self.error else "points"


ROUNDING = 1e-5
"""By how much a mean in a record may differ from that of the clients beside it."""

METRICS: Mapping[str, Metric] = {
    **{name: Metric(name, name) for name in ("accuracy", "pooled", "clients_mean", "macro")},
    "f1": Metric("f1", "macro-F1"),
    "mae": Metric("accuracy", "mean absolute error", error=True),
    "auc": Metric("accuracy", "area under the ROC curve"),
}
"""Numbers of a probe over whose seeds a table may take means."""


@dataclass(frozen=True)
class Measured(Strict):
    """The accuracies of one probe at one round, as fractions; None where there are no rows.

    Attributes:
        accuracy: The one that the protocol prints: ``pooled``, ``clients_mean`` or ``nodes_mean``.
        pooled: Over all rows.
        clients_mean: Plain mean over the clients that have rows.
        macro: Mean recall over classes.
        clients: Of each client, ``[K]``.
        counts: Rows of each client, ``[K]``.
        predicted: Rows predicted as each class by client, ``[K, C]``, where the probe keeps them.
        confusion: Rows by client, class and predicted class, ``[K, C, C]``, where the probe keeps them.
        metric: ``mae`` where all these are mean absolute errors of numbers, and no fractions; ``auc`` where they are
            areas under the ROC curve.
        nodes_mean, f1: Means of clients' accuracy and macro-F1, weighted by all nodes of each; where a protocol asks.
    """

    accuracy: float | None
    pooled: float | None
    clients_mean: float | None
    macro: float | None
    clients: list[float | None]
    counts: list[int]
    predicted: list[list[int]] | None = None
    confusion: list[list[list[int]]] | None = None
    nodes_mean: float | None = None
    f1: float | None = None
    metric: str | None = None

    @property
    def kind(self) -> Metric:
        """Whether these are shares or errors, and so which of two is better."""
        return METRICS[self.metric or "accuracy"]

    def problems(self) -> Iterator[str]:
        """Yield what no measurement can give."""
        if self.metric not in (None, *METRICS):
            yield f"has metric {self.metric}, which is none of {', '.join(METRICS)}"
            return
        shares = {"accuracy": self.accuracy, "pooled": self.pooled, "macro": self.macro, "clients": self.clients_mean}
        shares |= {"nodes_mean": self.nodes_mean, "f1": self.f1}
        for name, value in [*shares.items(), *(("client", own) for own in self.clients)]:
            if value is not None and not 0 <= value <= (math.inf if self.kind.error else 1):
                yield f"has {name} {value}, which is no {'error' if self.kind.error else 'fraction'}"
        rows = {k: n for k, n in enumerate(self.counts) if n}
        many = len(self.clients) == len(self.counts) and min(self.counts, default=0) >= 0
        if not many or any((own is None) == (k in rows) for k, own in enumerate(self.clients)):
            yield "has counts that do not fit its clients"
            return
        own = {k: self.clients[k] or 0.0 for k in rows}
        pooled = sum(own[k] * n for k, n in rows.items()) / sum(rows.values()) if rows else None
        mean = sum(own.values()) / len(own) if own else None
        for name, value, expected in (("pooled", self.pooled, pooled), ("clients_mean", self.clients_mean, mean)):
            if (value is None) != (expected is None) or abs((value or 0.0) - (expected or 0.0)) > ROUNDING:
                yield f"has {name} {value}, but its clients give {expected}"
        if self.accuracy not in (self.pooled, self.clients_mean, self.nodes_mean):
            yield f"has accuracy {self.accuracy}, which is neither its pooled one nor a mean of its clients"


def accuracy(logits: Tensor, view: View, average: Average, nodes: Tensor) -> Tensor:
    """Measure the share of the rows of ``view`` predicted right, from logits ``[K, r, C]``, one number; 0 without rows.

    Where numbers are predicted, minus the mean absolute error: more is better here, too. NaN where a logit is.

    Args:
        average: ``pooled`` over all rows, or the mean over clients that have rows: the plain one (``clients``), or
            weighted by all the ``nodes`` of each, float ``[K]``.
    """
    right = hits(logits, view)
    right = right.masked_fill(logits.isnan().any(), torch.nan)  # of which the largest would be some class
    if average == "pooled":
        return right.sum() / view.counts.sum().clamp_min(1)
    weight = (view.counts > 0).to(view.mask.dtype)
    if average == "nodes":
        weight = weight * nodes
    return (weight * right / view.counts.clamp_min(1)).sum() / weight.sum().clamp_min(1)


def hits(logits: Tensor, view: View) -> Tensor:
    """Count the rows of each client predicted right ``[K]``, from logits ``[K, r, C]``.

    Where numbers are predicted, return minus its absolute errors.
    """
    if view.numbers is not None:
        return -((logits.squeeze(-1) - view.numbers).abs() * view.mask).sum(1)
    return ((logits.argmax(-1) == view.labels) * view.mask).sum(1)


def measure(probe: Probe, predicted: np.ndarray) -> Measured:
    """Measure all averages of one probe, and what else it asks for; None where no row exists.

    Where numbers are predicted, they are mean absolute errors, and there is neither a ``macro`` nor an ``f1``.

    Args:
        probe: Rows, owners and the average that its protocol prints.
        predicted: Class predicted for each of ``probe.rows``, int64 ``[R]``; or the number, float ``[R]``.
    """
    graph, rows = probe.graph, probe.rows
    labels, owner, targets = graph.labels[rows], graph.owner[rows], graph.base.targets
    by_class = targets is None
    hit = (predicted == labels if targets is None else np.abs(predicted - targets[graph.node[rows]])).astype(float)
    counts = np.bincount(owner, minlength=graph.num_clients)
    right = np.bincount(owner, weights=hit, minlength=graph.num_clients)
    clients = [float(r / n) if n else None for r, n in zip(right, counts, strict=True)]
    present = [c for c in clients if c is not None]
    recalls = [hit[labels == c].mean() for c in np.unique(labels)] if by_class else []
    pooled = float(hit.mean()) if len(hit) else None
    plain = float(np.mean(present)) if present else None
    weighted = f1 = None
    if probe.average == "nodes":
        weight = (np.diff(graph.ptr) if probe.nodes is None else probe.nodes) * (counts > 0)
        weighted = _mean([c or 0.0 for c in clients], weight)
        f1 = _mean(macro_f1(confusion(probe, predicted)), weight) if by_class else None
    return Measured(
        accuracy={"pooled": pooled, "clients": plain, "nodes": weighted}[probe.average],
        pooled=pooled,
        clients_mean=plain,
        macro=float(np.mean(recalls)) if recalls else None,
        nodes_mean=weighted,
        f1=f1,
        clients=clients,
        counts=counts.tolist(),
        predicted=confusion(probe, predicted).sum(1).tolist() if probe.histogram else None,
        confusion=confusion(probe, predicted).tolist() if probe.by_class else None,
        metric=None if by_class else "mae",
    )


def confusion(probe: Probe, predicted: np.ndarray) -> np.ndarray:
    """Count the rows of a probe by client, class and predicted class, int64 ``[K, C, C]``.

    Args:
        predicted: Class predicted for each of its rows, int64 ``[R]``.
    """
    graph, classes = probe.graph, probe.graph.base.num_classes
    table = np.zeros((graph.num_clients, classes, classes), dtype=np.int64)
    np.add.at(table, (graph.owner[probe.rows], graph.labels[probe.rows], predicted), 1)
    return table


def macro_f1(table: np.ndarray) -> np.ndarray:
    """Average over all C classes each client's F1, 2 TP / (2 TP + FP + FN), and 0 where that is 0 / 0: ``[K]``.

    Args:
        table: Rows by client, class and predicted class, ``[K, C, C]``.
    """
    right = table.diagonal(axis1=1, axis2=2)
    found: np.ndarray = (2 * right / np.maximum(table.sum(2) + table.sum(1), 1)).mean(1)
    return found


def _mean(values: Sequence[float] | np.ndarray, weight: np.ndarray) -> float | None:
    return float(np.dot(values, weight) / weight.sum()) if weight.any() else None


def likeness(embedded: Tensor, view: View, classes: int) -> Tensor:
    """Average the cosine similarity of embeddings of one class, of every two clients, ``[C, K, K]`` (FedVN, Figure 6).

    NaN where either client has no row of that class. A client's with itself counts every row's with itself, too.

    Args:
        embedded: ``[K, r, H]``, of the rows of ``view``.
    """
    unit = torch.nn.functional.normalize(embedded, dim=2)
    member = torch.nn.functional.one_hot(view.labels, classes) * view.mask.unsqueeze(2)
    means = torch.einsum("krc,krh->ckh", member, unit) / member.sum(1).T.unsqueeze(2)
    return means @ means.transpose(1, 2)


def jensen_shannon(counts: np.ndarray) -> np.ndarray:
    """Compute the divergence of the class shares of every two clients in bits, 0 (equal) to 1 (no class in common).

    JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2.

    Args:
        counts: Nodes of each class at each client, ``[K, C]``; no client is without nodes.
    """
    shares = counts / counts.sum(1, keepdims=True)
    own = entropy(shares)
    divergence: np.ndarray = entropy((shares[:, None] + shares[None]) / 2) - (own[:, None] + own[None]) / 2
    return divergence


def entropy(shares: np.ndarray) -> np.ndarray:
    """Compute the entropy in bits of class shares: ``[..., C]`` to ``[...]``."""
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    bits: np.ndarray = -(shares * logs).sum(-1)
    return bits
