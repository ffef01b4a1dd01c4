"""FedLoG's local training: the release's warm-up, then a client's own nodes, and the global ones with their prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Generator, Tensor

from fgl_repro.core.streams import torch_rng
from fgl_repro.fl.optim import Optimiser, stacked
from fgl_repro.fl.phase import Turn
from fgl_repro.fl.steps import LocalStep, Step, descend
from fgl_repro.methods.fedlog.method import BRANCHES
from fgl_repro.methods.fedlog.prompts import prompts
from fgl_repro.methods.fedlog.prototypes import PrototypeNet, net_of, sage_view
from fgl_repro.nn.models.sage import SAGE, SageView
from fgl_repro.nn.ops import log_likelihood

if TYPE_CHECKING:
    from fgl_repro.fl.batches import Batches
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.fedlog.method import FedLoG, State


@dataclass(frozen=True)
class GlobalStep(Step):
    """A step on global nodes: which of them, int64."""

    part: Tensor


@dataclass(frozen=True)
class LocalTraining:
    """A round of local training under the method's hyper-parameters."""

    method: FedLoG
    clients: Clients
    state: State

    @property
    def net(self) -> PrototypeNet:
        return net_of(self.clients)

    def fit(self, epochs: int, taught: bool) -> Tensor:
        """Train all epochs with new optimisers for the model and the learnable nodes; return the last losses ``[K]``.

        Where clients are ``taught``, global nodes take part in every step (release) or after each epoch (paper).
        """
        method, clients, params = self.method, self.clients, self.clients.params
        optimisers = [
            stacked({name: params[name] for name in self.net.felt(params)}, clients.protocol),
            stacked(clients.personal, clients.protocol, weight_decay=0.0),
        ]
        both, after = taught and not method.as_paper, taught and method.as_paper
        for _ in range(epochs):
            steps = clients.steps(1, batches=self.state.batches)
            last = descend(steps, partial(self.step_loss, both=both), optimisers)
            if after:
                last = self.generalization(optimisers)
        if after:
            with torch.no_grad():
                _, known = self.global_loss(self.prompted(), self.learnable(None), None)
            self.rescale(known, None)
        return last

    def step_loss(self, step: LocalStep, both: bool) -> Tensor:
        """Compute the loss on a client's nodes ``[K]``, or on ``both`` its own and global ones; then gamma moves."""
        dropout = self.state.dropout
        nodes = self.learnable(dropout)
        loss = self.local_loss(sage_view(step.view), nodes)
        if not both:
            return loss
        of_global, known = self.global_loss(self.prompted(), nodes, dropout)
        self.rescale(known, step.active)
        return loss + of_global

    def generalization(self, optimisers: Sequence[Optimiser]) -> Tensor:
        """Run the paper's second phase, an epoch over global nodes in mini-batches; return the last losses ``[K]``."""
        prompted, dropout = self.prompted(), self.state.dropout
        order = torch.randperm(prompted[0].shape[1], generator=self.state.shuffles).to(prompted[0].device)
        steps = (GlobalStep(None, part) for part in torch.split(order, self.method.batch))

        def loss(step: GlobalStep) -> Tensor:
            return self.global_loss(prompted, self.learnable(dropout), dropout, step.part)[0]

        return descend(steps, loss, optimisers)

    def local_loss(self, view: SageView, nodes: dict[str, Tensor]) -> Tensor:
        """Compute L_cls of a batch of local nodes and the norm of the learnable nodes, ``[K]``."""
        net, clients, method = self.net, self.clients, self.method
        query, neighbours = net.around(clients.params, view, self.state.dropout)
        head, tail = net.branches(clients.params, query, neighbours, nodes)
        if method.as_paper:
            loss = -log_likelihood(net.mixture(head, tail, view.degree), view.labels)
            norms = [x.norm(dim=2).sum(1) for x in clients.personal.values()]
        else:
            alpha = torch.sigmoid(net.preference(view.degree)).squeeze(-1)
            loss = -alpha * log_likelihood(head, view.labels) - (1 - alpha) * log_likelihood(tail, view.labels)
            norms = [0.5 * x.flatten(1).norm(dim=1) for x in clients.personal.values()]
        return view.mean(loss) + method.beta * torch.stack(norms).sum(0)

    def learnable(self, dropout: Generator | None) -> dict[str, Tensor]:
        """Embed both branches' learnable nodes, ``[K, C s, E]`` each."""
        params, personal = self.clients.params, self.clients.personal
        both = self.net.isolated(params, torch.cat(list(personal.values()), dim=1), dropout)
        return dict(zip(BRANCHES, both.chunk(2, dim=1), strict=True))

    def prompted(self) -> tuple[Tensor, Tensor]:
        """Scale the global set for each client (equation 5) and make its prompts, ``[K, C s, d]`` each, no gradient."""
        state, method = self.state, self.method
        with torch.no_grad():
            gamma = state.gamma.repeat_interleave(method.slots, dim=1).unsqueeze(-1)
            x = state.synthetic.lerp(state.synthetic.mean(1, keepdim=True), gamma)
            return x, prompts(state.generators, x, None if method.as_paper else state.dropout)

    def global_loss(
        self,
        prompted: tuple[Tensor, Tensor],
        nodes: dict[str, Tensor],
        dropout: Generator | None,
        part: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Compute L_cls of global nodes with their prompts ``[K]``, and whether each was recognised ``[K, C s]``.

        Args:
            nodes: Embedded learnable nodes of both branches, ``[K, C s, E]`` each.
            part: Which of the nodes to use, int64; None: all.
        """
        net, params, method = self.net, self.clients.params, self.method
        x, prompt = prompted if part is None else (t[:, part] for t in prompted)
        labels = torch.arange(net.num_classes, device=x.device).repeat_interleave(method.slots)
        labels = (labels if part is None else labels[part]).expand(x.shape[:2])
        query, neighbours = net.pair(params, x, prompt, dropout)
        head, tail = net.branches(params, query, neighbours, nodes)
        both = (head + tail) / 2
        even = torch.full_like(both[..., 0], method.threshold + 1)
        mixed = net.mixture(head, tail, even) if method.as_paper else both
        return -log_likelihood(mixed, labels).mean(1), both.argmax(-1) == labels

    def rescale(self, known: Tensor, active: np.ndarray | None) -> None:
        """Move gamma of ``active`` clients up for classes whose global nodes are ``known``, bool ``[K, C s]``.

        The release moves it down for the others.
        """
        state, method = self.state, self.method
        above = known.view(*state.gamma.shape, method.slots).float().mean(2) > method.scale_above
        down = 0.0 if method.as_paper else -method.scale_step
        moved = (state.gamma + torch.where(above, method.scale_step, down)).clamp(0, 1)
        on = torch.ones(len(moved), dtype=torch.bool) if active is None else torch.from_numpy(active)
        state.gamma = torch.where(on.to(moved.device).unsqueeze(1), moved, state.gamma)
        state.above = above.float().mean()


class WarmUp:
    """The release's plain training of encoder and linear classifier before round 0; a round of the phase is an epoch.

    It lasts until each client's validation accuracy stands still. A tie counts as progress. Clients leave one by one
    and go on from their last weights, not their best. While others stay, one that has left counts as a loss of 0 in the
    curve, and its batches are drawn all the same: published runs were made so, and their records keep the curve.
    """

    def __init__(self, clients: Clients, batches: Batches, patience: int) -> None:
        self.clients, self.batches, self.patience = clients, batches, patience
        self.net = net_of(clients)
        self.params = {name: clients.params[name] for name in ("W1", "b1", "W2", "b2", "W3", "b3")}
        self.optimiser = stacked(self.params, clients.protocol)
        self.dropout = torch_rng("warm-up", clients.seed, str(clients.device))
        self.validation = sage_view(clients.inputs.cut(clients.views, clients.world.validation.rows))
        self.best, self.waited = np.full(clients.count, -1.0), np.zeros(clients.count, dtype=int)

    def turn(self, number: int, going: np.ndarray) -> Turn:
        """Train the clients that are going for an epoch, and measure everybody's validation accuracy."""
        loss = descend(self.clients.steps(1, batches=self.batches, going=going), self.loss, [self.optimiser])
        with torch.no_grad():
            right = self.logits(self.validation).argmax(-1) == self.validation.labels
            fetched = torch.cat([self.validation.mean(right.float()), loss.mean().view(1)]).cpu().numpy()
        now = fetched[:-1]
        self.waited = np.where(now >= self.best, 0, self.waited + 1)
        self.best = np.maximum(self.best, now)
        values = {"loss": float(fetched[-1]), "validation": float(now.mean())}
        return Turn(values, going=self.waited < self.patience)

    def loss(self, step: LocalStep) -> Tensor:
        """Compute the mean cross-entropy of the linear classifier ``[K]``."""
        log_p = torch.log_softmax(self.logits(sage_view(step.view), self.dropout), -1)
        return step.mean(-log_likelihood(log_p, step.view.labels))

    def logits(self, view: SageView, rng: Generator | None = None) -> Tensor:
        """Compute logits of the encoder's linear classifier, ``[K, r, C]``; dropout when ``rng`` is given."""
        return SAGE.__call__(self.net, self.params, view, rng)
