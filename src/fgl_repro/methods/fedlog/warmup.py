"""FedLoG's warm-up: plain training of encoder and linear classifier before round 0, as its released code does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fgl_repro.core.streams import torch_rng
from fgl_repro.fl.optim import stacked
from fgl_repro.fl.phase import Turn
from fgl_repro.fl.steps import LocalStep, descend
from fgl_repro.methods.fedlog.prototypes import net_of, picked, sage_view

if TYPE_CHECKING:
    from fgl_repro.fl.batches import Batches
    from fgl_repro.fl.clients import Clients

ENCODER = ("W1", "b1", "W2", "b2", "W3", "b3")
"""What is trained: both convolutions and the linear classifier."""


class WarmUp:
    """Epochs until each client's validation accuracy stands still; a round of the phase is an epoch.

    A tie counts as progress. Clients leave one by one and go on from their last weights, not their best.
    """

    def __init__(self, clients: Clients, batches: Batches, patience: int) -> None:
        self.clients, self.batches, self.patience = clients, batches, patience
        self.encoder = net_of(clients).encoder
        self.params = {name: clients.params[name] for name in ENCODER}
        self.optimiser = stacked(self.params, clients.protocol)
        self.dropout = torch_rng("warm-up", clients.seed, str(clients.samples.device))
        self.validation = sage_view(clients.inputs.cut(clients.views, clients.world.validation.rows))
        self.best, self.waited = np.full(clients.count, -1.0), np.zeros(clients.count, dtype=int)

    def turn(self, number: int, going: np.ndarray) -> Turn:
        """An epoch of the clients that are going, and everybody's validation accuracy."""
        loss = descend(self.clients.steps(1, batches=self.batches, going=going), self.loss, [self.optimiser])
        with torch.no_grad():
            right = self.encoder(self.params, self.validation).argmax(-1) == self.validation.labels
            fetched = torch.cat([self.validation.mean(right.float()), loss.mean().view(1)]).cpu().numpy()
        now = fetched[:-1]
        self.waited = np.where(now >= self.best, 0, self.waited + 1)
        self.best = np.maximum(self.best, now)
        values = {"loss": float(fetched[-1]), "validation": float(now.mean())}
        return Turn(values, going=self.waited < self.patience)

    def loss(self, step: LocalStep) -> Tensor:
        """Mean cross-entropy of the linear classifier ``[K]``."""
        log_p = torch.log_softmax(self.encoder(self.params, sage_view(step.view), self.dropout), -1)
        return step.mean(-picked(log_p, step.view.labels))
