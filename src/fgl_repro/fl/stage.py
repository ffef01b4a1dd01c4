"""Local training that each client ends for itself: now and then it looks at its validation nodes and keeps its best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from fgl_repro.fl.metrics import hits
from fgl_repro.fl.optim import Optimiser, StackedAdam
from fgl_repro.fl.phase import Phase, Turn
from fgl_repro.fl.steps import LocalStep, Loss, Step, descend

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.nn.models.model import Params

S = TypeVar("S", bound=Step)


class Stage(Generic[S]):
    """Training with checks: ``every`` epochs between two of them, one more before the first (O-pFGL's loop).

    A client is done after ``patience`` checks without a better validation accuracy (a tie is none better).

    Args:
        clients: Who is judged, and has its best tensors after :meth:`settle`.
        params: What is trained, ``[K, ...]`` or, where all clients train the same, ``[1, ...]``.
        steps: The steps of so many epochs for the clients that are going, bool ``[K]``.
        loss: Of each client at a step, ``[K]`` or ``[1]``.
        optimisers: What they step with.
    """

    def __init__(
        self,
        clients: Clients,
        params: Params,
        steps: Callable[[int, np.ndarray], Iterable[S]],
        loss: Callable[[S], Tensor],
        optimisers: Sequence[Optimiser],
        every: int,
        patience: int,
    ) -> None:
        self.clients, self.params, self.steps, self.loss = clients, params, steps, loss
        self.optimisers, self.every, self.patience = optimisers, every, patience
        self.best = {name: value.clone() for name, value in self._each().items()}
        self.score, self.waited = np.full(clients.count, -1.0), np.zeros(clients.count, dtype=int)

    def _each(self) -> Params:
        """What is trained, a row for every client ``[K, ...]``."""
        held = {name: len(self.clients.holders(name)) for name in self.params}
        return {name: value.detach().expand(held[name], *value.shape[1:]) for name, value in self.params.items()}

    def phase(self, name: str, epochs: int) -> Phase:
        """The stage as a phase of at most so many epochs; a round of it ends with a check."""
        return Phase(name, max(epochs // self.every, 1), self.turn)

    def turn(self, number: int, going: np.ndarray) -> Turn:
        """The epochs up to a check, and the check."""
        loss = descend(self.steps(self.every + (number == 0), going), self.loss, self.optimisers)
        clients, now = self.clients, self._each()
        with torch.no_grad():
            view = clients.validation
            right = hits(clients.model(clients.trained | now, view), view) / view.counts.clamp_min(1)
            *scores, mean = torch.cat([right, loss.mean().view(1)]).tolist()
            better = going & (np.array(scores) > self.score)
            chosen = torch.from_numpy(better).to(right.device)
            for name, value in now.items():
                kept = self.best[name]
                better_rows = chosen[torch.from_numpy(clients.holders(name)).to(chosen.device)]
                kept.copy_(torch.where(better_rows.view(-1, *[1] * (value.dim() - 1)), value, kept))
        self.score = np.where(better, scores, self.score)
        self.waited = np.where(better, 0, self.waited + 1)
        values = {"loss": mean, "validation": float(self.score.mean())}
        return Turn(values, going=self.waited < self.patience)

    @torch.no_grad()
    def settle(self) -> None:
        """Give every client its best tensors."""
        for name, value in self.best.items():
            self.clients.trained[name].copy_(value)


@torch.no_grad()
def untrained(clients: Clients) -> Tensor:
    """The loss of the models as they are on the clients' training nodes ``[K]``, for a round in which nobody trains."""
    view = clients.inputs.train
    return LocalStep(None, view).cross_entropy(clients.model(clients.trained, view))


def fine_tuning(clients: Clients, loss: Loss, lr: float) -> Iterator[Phase]:
    """Clients go on with what they have, each on its own nodes, with a new Adam without weight decay."""

    def steps(epochs: int, going: np.ndarray) -> Iterator[LocalStep]:
        return clients.steps(epochs, going=going)

    rules, params = clients.protocol, clients.trained
    stage = Stage(
        clients,
        params,
        steps,
        loss,
        [StackedAdam(params, lr, owners=clients.owners)],
        rules.check_every,
        rules.patience,
    )
    yield stage.phase("fine_tuning", rules.fine_tuning)
    stage.settle()
