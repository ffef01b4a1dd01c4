"""FedGM's server: one network from the union of the condensed graphs, and in later rounds a step on their features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.core.streams import torch_rng
from fgl_repro.fl.metrics import accuracy
from fgl_repro.fl.mixing import copied
from fgl_repro.fl.optim import StackedAdam
from fgl_repro.fl.steps import Step, descend
from fgl_repro.methods.condensing.weighted import weighted_union
from fgl_repro.methods.fedgm.condensation import Small
from fgl_repro.methods.fedgm.gradients import Data, Map, by_class, distance, random_weights
from fgl_repro.nn.models.gcn import convolves_twice
from fgl_repro.nn.models.model import Params
from fgl_repro.nn.ops import broadcast
from fgl_repro.nn.sparse import BlockOp, DenseOp
from fgl_repro.nn.view import View, Views

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.fedgm.method import FedGM
    from fgl_repro.nn.models.model import Layered

LOOK = 10
"""Steps of the server's training between two looks at the clients' validation nodes."""


class CondensedGraphServer:
    """What the server has: the union of all condensed graphs, without links from one to another.

    Attributes:
        graphs: The condensed graphs as they came.
        around: Their normalised adjacencies.
        counts: Nodes of each client and class ``[K, C]``.
        probe: Weights at which gradients are asked for next.
    """

    def __init__(self, method: FedGM, clients: Clients, graphs: list[Small], counts: Tensor) -> None:
        self.method, self.clients, self.counts = method, clients, counts
        self.features = {"X": torch.cat([each.features for each in graphs]).unsqueeze(0).clone().requires_grad_()}
        self.graphs, self.around = graphs, BlockOp.of([each.around for each in graphs])
        self.labels = torch.cat([each.labels for each in graphs])
        self.optimiser = StackedAdam(self.features, method.lr_features)
        self.rng = torch_rng("server", clients.seed)
        self.dropout = torch_rng("server-dropout", clients.seed, str(counts.device))
        self.probe = self.random_weights()

    def random_weights(self) -> Params:
        """Draw a new GCN's weights."""
        model = cast("Layered", self.clients.model)
        return random_weights(model.num_features, model.hidden, model.num_classes, self.rng, self.counts.device)

    def beginning(self) -> tuple[Any, Params]:
        """Return how the network of the clients sees the union, and its first weights, no client axis."""
        model, device = self.clients.model, self.counts.device
        if convolves_twice(model):
            return self.view(), self.random_weights()
        union = self.union()
        view = model.view(Views(device), union, np.arange(union.num_nodes))
        return view, {name: value.to(device) for name, value in model.init(self.rng).items()}

    def view(self) -> View:
        """View the union as one network of two convolutions sees it."""
        features = self.features["X"][0].detach()
        first = DenseOp(self.around(features).unsqueeze(0))
        return View.of_all(first, self.around, 1, len(features), features.device)

    def union(self) -> UnionGraph:
        """Build the union with the links' weights in the adjacency, as other networks read it."""
        links = sp.block_diag([links_of(each.around).cpu().numpy() for each in self.graphs], format="csr")
        features = self.features["X"][0].detach().cpu().numpy()
        return weighted_union("condensed", features, sp.csr_matrix(links), self.labels.cpu().numpy())

    def matched(self, gradients: Params) -> None:
        """Take one step on the features, towards the clients' gradients ``[K, C, ...]`` at ``probe``."""
        total = self.counts.sum(0)
        share = self.counts / total.clamp_min(1)
        target = {name: torch.einsum("kc,kc...->c...", share, value) for name, value in gradients.items()}
        with torch.enable_grad():
            small = Data(Map.dense(self.around(self.features["X"][0])), Map(self.around, self.around), self.labels)
            loss = distance(
                by_class(self.probe, small, torch.arange(len(total), device=total.device)),
                target,
                total / total.max().clamp_min(1),
            )
            self.optimiser.step(list(torch.autograd.grad(loss, self.optimiser.params)))
        self.probe = self.random_weights()

    def trained(self) -> Params:
        """Train a new network; return the weights ``[1, ...]`` of its best check on the clients' validation nodes."""
        clients, model = self.clients, self.clients.model
        view, first = self.beginning()
        params = {name: value.unsqueeze(0).clone().requires_grad_() for name, value in first.items()}
        best = copied(params)
        score = torch.full((), -1.0, device=self.counts.device)

        def loss(step: Step) -> Tensor:
            return F.cross_entropy(model(params, view, self.dropout)[0], self.labels).view(1)

        for rate in (self.method.lr_server, self.method.lr_server / 10):
            optimiser = StackedAdam(params, rate, self.method.weight_decay)
            for start in range(0, self.method.epochs // 2, LOOK):
                steps = min(LOOK, self.method.epochs // 2 - start)
                with torch.enable_grad():
                    descend((Step(None) for _ in range(steps)), loss, [optimiser])
                with torch.no_grad():
                    found = model(broadcast(params, clients.count), clients.validation)
                    average = clients.world.validation.average
                    now = accuracy(found, clients.validation, average, clients.nodes)
                    better, score = now > score, torch.maximum(now, score)
                    best = {name: torch.where(better, value, best[name]) for name, value in params.items()}
        return best


def links_of(around: Tensor) -> Tensor:
    """Recover the weights of links ``[M, M]``, none of a node with itself, from D^-1/2 (A + I) D^-1/2."""
    scale = around.diagonal().rsqrt()  # the roots of the degrees of A + I
    return (around * torch.outer(scale, scale)).fill_diagonal_(0.0)
