"""Accuracies and errors, and the averages that papers hide behind these words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fgl_repro.core.lazy import torch

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


METRICS: Mapping[str, Metric] = {
    **{name: Metric(name, name) for name in ("accuracy", "pooled", "clients_mean", "macro", "f1")},
    "mae": Metric("accuracy", "mean absolute error", error=True),
    "auc": Metric("accuracy", "area under the ROC curve"),
}
"""Numbers of a probe over whose seeds a table may take means."""

PRINTED = {"pooled": "pooled", "clients": "clients_mean", "nodes": "nodes_mean"}
"""What a protocol's average is called in a measurement."""


def accuracy(logits: Tensor, view: View, average: Average, nodes: Tensor) -> Tensor:
    """Measure the share of the rows of ``view`` predicted right, from logits ``[K, r, C]``, one number; 0 without rows.

    Where numbers are predicted, minus the mean absolute error: more is better here, too.

    Args:
        average: ``pooled`` over all rows, or the mean over clients that have rows: the plain one (``clients``), or
            weighted by all the ``nodes`` of each, float ``[K]``.
    """
    if average == "pooled":
        return hits(logits, view).sum() / view.counts.sum().clamp_min(1)
    weight = (view.counts > 0).to(view.mask.dtype)
    if average == "nodes":
        weight = weight * nodes
    return (weight * hits(logits, view) / view.counts.clamp_min(1)).sum() / weight.sum().clamp_min(1)


def hits(logits: Tensor, view: View) -> Tensor:
    """Count the rows of each client predicted right ``[K]``, from logits ``[K, r, C]``.

    Where numbers are predicted, return minus its absolute errors.
    """
    if view.numbers is not None:
        return -((logits.squeeze(-1) - view.numbers).abs() * view.mask).sum(1)
    return ((logits.argmax(-1) == view.labels) * view.mask).sum(1)


def measure(probe: Probe, predicted: np.ndarray) -> dict[str, Any]:
    """Measure all averages of one probe.

    Args:
        probe: Rows, owners and the average that its protocol prints.
        predicted: Class predicted for each of ``probe.rows``, int64 ``[R]``; or the number, float ``[R]``.

    Returns:
        ``pooled`` (over rows), ``clients_mean`` (plain mean over clients that have rows), ``macro`` (mean recall over
        classes, rows pooled), ``clients`` (per client, None without rows), ``counts``, and ``accuracy``: the printed
        one. Fractions; None where no row exists. Where numbers are predicted, mean absolute errors in place of all
        these, without a ``macro``, and ``metric`` says so. If asked for, ``predicted``: rows predicted as each class,
        by client, and ``confusion``: rows by client, class and predicted class.
        Where clients are weighted by their nodes, besides: ``nodes_mean`` of their accuracies and, of classes, ``f1``,
        that of their macro-F1 (over all C classes; one that a client neither has nor predicts counts 0 there).
    """
    labels, owner = probe.graph.labels[probe.rows], probe.graph.owner[probe.rows]
    targets = getattr(probe.graph.base, "targets", None)
    if targets is None:
        hit = (predicted == labels).astype(float)
    else:
        hit = np.abs(predicted - targets[probe.graph.node[probe.rows]]).astype(float)
    counts = np.bincount(owner, minlength=probe.graph.num_clients)
    right = np.bincount(owner, weights=hit, minlength=probe.graph.num_clients)
    clients = [float(r / n) if n else None for r, n in zip(right, counts, strict=True)]
    present = [c for c in clients if c is not None]
    recalls = [hit[labels == c].mean() for c in np.unique(labels)] if targets is None else []
    out: dict[str, Any] = {
        "pooled": float(hit.mean()) if len(hit) else None,
        "clients_mean": float(np.mean(present)) if present else None,
        "macro": float(np.mean(recalls)) if recalls else None,
        "clients": clients,
        "counts": counts.tolist(),
    }
    if targets is not None:
        out["metric"] = "mae"
    if probe.histogram:
        table = np.zeros((probe.graph.num_clients, probe.graph.base.num_classes), dtype=np.int64)
        np.add.at(table, (owner, predicted), 1)
        out["predicted"] = table.tolist()
    if probe.by_class:
        shape = probe.graph.num_clients, probe.graph.base.num_classes, probe.graph.base.num_classes
        confusion = np.zeros(shape, dtype=np.int64)
        np.add.at(confusion, (owner, labels, predicted), 1)
        out["confusion"] = confusion.tolist()
    if probe.average == "nodes":
        weight = (np.diff(probe.graph.ptr) if probe.nodes is None else probe.nodes) * (counts > 0)
        out["nodes_mean"] = _mean([c or 0.0 for c in clients], weight)
        out |= {"f1": _mean(macro_f1(probe, predicted).mean(1), weight)} if targets is None else {}
    return {"accuracy": out[PRINTED[probe.average]], **out}


def macro_f1(probe: Probe, predicted: np.ndarray) -> np.ndarray:
    """Compute the F1 of every class at every client, ``[K, C]``: 2 TP / (2 TP + FP + FN), 0 where that is 0 / 0."""
    owner, labels = probe.graph.owner[probe.rows], probe.graph.labels[probe.rows]
    shape = probe.graph.num_clients, probe.graph.base.num_classes
    both, true, guessed = (np.zeros(shape) for _ in range(3))
    np.add.at(both, (owner, labels), predicted == labels)
    np.add.at(true, (owner, labels), 1)
    np.add.at(guessed, (owner, predicted), 1)
    out: np.ndarray = 2 * both / np.maximum(true + guessed, 1)
    return out


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
    """Compute the entropy in bits over the last axis."""
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    bits: np.ndarray = -(shares * logs).sum(-1)
    return bits


def label_correlation(similar: np.ndarray, counts: np.ndarray) -> float | None:
    """Compute Pearson's correlation, over pairs of clients, of ``similar`` ``[K, K]`` and likeness of labels.

    Likeness is 1 minus the Jensen-Shannon divergence of the class ``counts`` ``[K, C]``. None where either is constant.
    """
    pairs = np.triu_indices(len(counts), 1)
    ours, labels = similar[pairs].astype(float), 1 - jensen_shannon(counts)[pairs]
    if len(ours) < 2 or np.ptp(ours) == 0 or np.ptp(labels) == 0:
        return None
    return float(np.corrcoef(ours, labels)[0, 1])
