"""GHOST's server: one model learns from graphs of each client's generator in turn, and keeps what earlier ones need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.core.streams import numpy_rng, torch_rng
from fgl_repro.fl.mixing import copied
from fgl_repro.fl.optim import StackedAdam
from fgl_repro.fl.phase import Turn
from fgl_repro.methods.generated.graphs import PseudoGraph, balanced
from fgl_repro.methods.generated.named import mapped
from fgl_repro.methods.ghost.proxies import NOISE, generated
from fgl_repro.nn.models.gcn import convolves_twice
from fgl_repro.nn.models.model import Params

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.ghost.method import Ghost


class GhostServer:
    """What the server does; a turn of the phase is a client.

    Weights theta_q after graph q, whose importances were I_q, are not stored: the retention
    sum_q |I_q| (theta - theta_q)^2 is S0 theta^2 - 2 S1 theta + S2 with three running sums.
    """

    def __init__(self, method: Ghost, clients: Clients, nets: Params) -> None:
        self.method, self.nets = method, nets
        self.model: Any = clients.model  # a Layered one: `Ghost.models` names no other
        self.params = copied({name: value[:1] for name, value in clients.params.items()}, grad=True)
        self.optimiser = StackedAdam(self.params, method.lr_server, method.weight_decay)
        self.sizes = np.diff(clients.world.graph.ptr)
        self.order = numpy_rng("integration", clients.seed).permutation(clients.count)
        device = str(clients.device)
        self.rng, self.dropout = torch_rng("pseudo", clients.seed), torch_rng("pseudo-dropout", clients.seed, device)
        self.sums = [{name: torch.zeros_like(value) for name, value in self.params.items()} for _ in range(3)]
        self.left: Params = {}

    def turn(self, number: int) -> Turn:
        """Learn from graphs of one client's generator."""
        k = int(self.order[number])
        for _ in range(self.method.graphs):
            loss = self.learn(*self.graph(k))
        return Turn({"loss": float(loss)})

    @torch.no_grad()
    def graph(self, k: int) -> tuple[PseudoGraph, Tensor]:
        """Generate as many nodes as client k has, classes balanced, and their labels ``[n]``."""
        own, nodes = {name: value[k : k + 1] for name, value in self.nets.items()}, int(self.sizes[k])
        device = own["E"].device
        labels = balanced(nodes, own["E"].shape[1], device)[torch.randperm(nodes, generator=self.rng).to(device)]
        noise = torch.randn(1, nodes, NOISE, generator=self.rng).to(device)
        rate = 0.0 if self.method.as_paper else self.method.dropout
        made = generated(own, noise, labels.unsqueeze(0), rate, self.dropout)[0]
        return PseudoGraph.of(made, min(self.method.neighbours, nodes)), labels

    def inputs(self, graph: PseudoGraph) -> tuple[Params, Any]:
        """Return weights and view by which the server's model reads a graph."""
        if convolves_twice(self.model):
            return self.params, graph.view(1)
        first = mapped(graph.features, self.params["W1"])
        return {**self.params, "W1": first}, graph.named.view(self.model, 1)

    def importance(self, graph: PseudoGraph) -> Params:
        """Compute I, the gradient of sum e_ij^2 over links, e_ij = (h_i W)(tanh h_j W), W the first layer's map."""
        hidden = torch.relu(self.model.convolved(*self.inputs(graph)))[0]
        weight = self.params["W1"][0]
        other = torch.tanh(hidden @ weight.T) @ weight  # e_ij is the product of h_i and row j of this
        held = (hidden @ other.T * graph.around.sign()).square().sum()
        grads = torch.autograd.grad(held, list(self.params.values()), allow_unused=True)
        found = {
            name: torch.zeros_like(value) if grad is None else grad
            for (name, value), grad in zip(self.params.items(), grads, strict=True)
        }
        return {name: value + self.left.get(name, 0) for name, value in found.items()}

    def learn(self, graph: PseudoGraph, labels: Tensor) -> Tensor:
        """Take a few steps on one graph; return the loss at the last."""
        importance, names = self.importance(graph), list(self.params)
        squares, products, constants = self.sums
        for _ in range(self.method.server_steps):
            loss = F.cross_entropy(self.model(*self.inputs(graph), self.dropout)[0], labels)
            for n in names:
                theta = self.params[n]
                kept = squares[n] * theta**2 - 2 * products[n] * theta + constants[n]
                loss = loss + self.method.retention * kept.sum()
            grads = list(torch.autograd.grad(loss, self.optimiser.params))
            self.optimiser.step(grads)
        if not self.method.as_paper:
            self.left = dict(zip(names, grads, strict=True))
        for n, weight in importance.items():
            theta, weight = self.params[n].detach(), weight.abs()
            for total, term in zip(self.sums, (weight, weight * theta, weight * theta**2), strict=True):
                total[n] += term
        return loss.detach()
