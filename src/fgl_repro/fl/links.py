"""Prediction of links after the classes: clients train their networks on, each for itself, to tell linked pairs.

O-pFGL, Appendix L: an encoder is first trained on classes, then for links, and areas under the ROC curve are compared.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.core.lazy import stats
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import offsets
from fgl_repro.federation.world import Pairs
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.metrics import Measured
from fgl_repro.fl.mixing import copied
from fgl_repro.fl.optim import StackedAdam
from fgl_repro.fl.stage import Stage
from fgl_repro.fl.steps import Step
from fgl_repro.nn.models.model import Params
from fgl_repro.nn.ragged import ClientStreams, client_sums


class LinkTuning(Stage[Step]):
    """Networks are trained on as they are, by the mean binary cross-entropy of links and as many other pairs.

    A pair's logit is the product of its nodes' outputs, z_i . z_j. The other pairs are drawn anew in every epoch among
    all pairs of a client's nodes, so that a few of them are linked, after all. The best check is that with the greatest
    area under the ROC curve over the pairs held back for validation.

    Args:
        start: Tensors to begin with, ``[K, ...]``; they are copied, and go on predicting classes.
    """

    def __init__(self, clients: Clients, start: Params) -> None:
        world, device, rules = clients.world, clients.device, clients.protocol
        assert world.links is not None
        self.held = world.links
        params = copied(start, grad=True)
        adam = StackedAdam(params, rules.fine_tuning_lr, owners=clients.owners)
        super().__init__(clients, params, self._steps, self._loss, [adam], rules.check_every, rules.patience)
        self.view = clients.inputs.evaluation_view(np.arange(world.graph.num_nodes))
        links, owner = world.graph.links, world.graph.owner[world.graph.links[0]]
        counts = np.bincount(owner, minlength=clients.count)
        self.ends = offsets(counts).tolist()
        self.links, self.owner = torch.from_numpy(links).to(device), torch.from_numpy(owner).to(device)
        self.counts = torch.from_numpy(counts).to(device).clamp_min(1)
        ptr = torch.from_numpy(world.graph.ptr).to(device)
        self.first, self.sizes = ptr[:-1][self.owner], ptr.diff()[self.owner]
        self.streams = ClientStreams([torch_rng(f"pairs/{k}", clients.seed, str(device)) for k in range(clients.count)])
        self.dropout = torch_rng("links-dropout", clients.seed, str(device))

    def _steps(self, epochs: int, going: np.ndarray) -> Iterator[Step]:
        return (Step(going) for _ in range(epochs))

    def outputs(self, trained: Params, dropout: torch.Generator | None = None) -> Tensor:
        """Compute what the networks say of all union nodes ``[N, C]``."""
        found = self.clients.model(trained, self.view, dropout)
        return found.flatten(0, 1)[self.view.slots]

    def _loss(self, step: Step) -> Tensor:
        drawn = self.streams.uniform(self.ends, 2).T
        others = self.first + (drawn * self.sizes).long().minimum(self.sizes - 1)
        z = self.outputs(self.params, self.dropout)
        every = F.softplus(-link_logits(z, self.links)) + F.softplus(link_logits(z, others))
        return client_sums(every, self.owner, self.clients.count) / (2 * self.counts)

    def scores(self, trained: Params) -> Tensor:
        """Measure areas under the ROC curve over the pairs for validation ``[K]``; one half where there are none."""
        areas = np.nan_to_num(self.areas(trained, self.held.validation), nan=0.5)
        return torch.from_numpy(areas).to(self.clients.samples)

    def areas(self, trained: Params, pairs: Pairs) -> np.ndarray:
        """Measure each client's area under the ROC curve over ``pairs``, float ``[K]``; NaN where a kind is missing."""
        with torch.no_grad():
            z = self.outputs(trained)
            scores = link_logits(z, torch.from_numpy(pairs.nodes).to(z.device)).cpu().numpy()
        owner = pairs.owner(self.clients.world.graph)
        own = (owner == k for k in range(self.clients.count))
        return np.array([area(scores[rows], pairs.linked[rows]) for rows in own])

    def tested(self) -> Measured:
        """Measure the pairs for tests with each client's network at its best check."""
        found, graph = self.areas(self.best, self.held.test), self.clients.world.graph
        counts = self.held.test.counts(graph)
        there = counts > 0

        def mean(weights: np.ndarray) -> float | None:
            return float(np.average(found[there], weights=weights[there])) if there.any() else None

        average, pooled, plain = self.clients.protocol.average, mean(counts), mean(np.ones(len(counts)))
        weighted = mean(np.diff(graph.ptr)) if average == "nodes" else None
        return Measured(
            accuracy={"pooled": pooled, "clients": plain, "nodes": weighted}[average],
            pooled=pooled,
            clients_mean=plain,
            macro=None,
            nodes_mean=weighted,
            clients=[float(value) if some else None for value, some in zip(found, there, strict=True)],
            counts=counts.tolist(),
            metric="auc",
        )


def link_logits(outputs: Tensor, pairs: Tensor) -> Tensor:
    """Compute z_i . z_j of pairs ``[2, P]``, from z ``[N, C]``: ``[P]``."""
    return (outputs[pairs[0]] * outputs[pairs[1]]).sum(1)


def area(scores: np.ndarray, positive: np.ndarray) -> float:
    """Measure the area under the ROC curve: how often a positive's score is greater, ties counting half (Mann-Whitney).

    Args:
        scores: ``[P]``.
        positive: bool ``[P]``; NaN comes back where all or none are.
    """
    ones = int(positive.sum())
    zeros = len(positive) - ones
    if not ones or not zeros:
        return float("nan")
    return float((stats.rankdata(scores)[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))
