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

    Where fewer epochs are asked for than that, there is one check, after all of them.

    A client is done after ``patience`` checks without a better validation accuracy, or a smaller error (a tie is none
    better). A score that is no finite number is never better: such a client keeps what it began with. The curve is the
    mean of the clients' best scores so far, of those that have a finite one, errors as they are measured.

    Args:
        clients: Who is judged, and has its best tensors after :meth:`keep_best`.
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
        self.before_first = every + 1
        self.best = {name: value.clone() for name, value in self._each().items()}
        self.score, self.waited = np.full(clients.count, -np.inf), np.zeros(clients.count, dtype=int)
        self._home = clients.trained

    def _each(self) -> Params:
        """Return what is trained, a row for every client ``[K, ...]``."""
        held = {name: len(self.clients.holders(name)) for name in self.params}
        return {name: value.detach().expand(held[name], *value.shape[1:]) for name, value in self.params.items()}

    def phase(self, name: str, epochs: int) -> Phase:
        """Make the stage a phase of at most so many epochs and the one before; a round of it ends with a check."""
        if epochs < self.every:
            self.before_first = epochs
        return Phase(name, max(epochs // self.every, 1), self.turn)

    def turn(self, number: int, going: np.ndarray) -> Turn:
        """Train those that are ``going``, bool ``[K]``, for the epochs up to a check, and make the check."""
        clients, at = self.clients, self.clients.index
        at_work = going[at]
        epochs = self.every if number else self.before_first
        loss = descend(self.steps(epochs, at_work), self.loss, self.optimisers)
        now = self._each()
        with torch.no_grad():
            right = self.scores(clients.trained | now)
            if len(loss) == clients.count:
                loss = loss[torch.from_numpy(at_work).to(loss.device)]
            *scores, mean = torch.cat([right, loss.mean().view(1)]).tolist()
            better = at_work & (np.array(scores) > self.score[at])
            chosen = torch.from_numpy(better).to(right.device)
            for name, value in now.items():
                kept = self.best[name]
                better_rows = chosen[torch.from_numpy(clients.holders(name)).to(chosen.device)]
                kept.copy_(torch.where(better_rows.view(-1, *[1] * (value.dim() - 1)), value, kept))
        self.score[at] = np.where(better, scores, self.score[at])
        self.waited[at] = np.where(better, 0, self.waited[at] + 1)
        scored = self.score[np.isfinite(self.score)]
        values = {"loss": mean, "validation": abs(float(scored.mean())) if len(scored) else float("nan")}
        return Turn(values, going=self.waited < self.patience)

    def scores(self, trained: Params) -> Tensor:
        """Measure what a check compares, more being better ``[K]``: accuracies on the clients' own validation nodes.

        Where numbers are predicted, minus the mean absolute errors.
        """
        view = self.clients.validation
        return hits(self.clients.model(trained, view), view) / view.counts.clamp_min(1)

    @torch.no_grad()
    def keep_best(self) -> None:
        """Give every client its best tensors."""
        index = self.clients.index
        rows = index if len(index) < len(self.score) else slice(None)  # a fleet's have rows for their holders
        for name, value in self.best.items():
            self._home[name][rows] = value


class FineTuning(Stage[LocalStep]):
    """Clients go on with what they have, each on its own nodes, with a new Adam without weight decay.

    Those that are done leave the stack where nobody notices, so that the last one does not pay for all.

    Args:
        objective: Makes the loss of some clients ``[K']``; it is asked anew whenever some have left.
    """

    def __init__(self, clients: Clients, objective: Callable[[Clients], Loss], lr: float) -> None:
        rules, params = clients.protocol, clients.trained
        adam = StackedAdam(params, lr, owners=clients.owners)
        super().__init__(clients, params, self._steps, objective(clients), [adam], rules.check_every, rules.patience)
        self.objective = objective

    def _steps(self, epochs: int, going: np.ndarray) -> Iterator[LocalStep]:
        return self.clients.steps(epochs, going=going)

    def turn(self, number: int, going: np.ndarray) -> Turn:
        """Take a turn as in any stage, by those who are still at it."""
        stay = np.flatnonzero(going[self.clients.index])
        if self.clients.separable and len(stay) < self.clients.count:
            self._leave(stay)
        return super().turn(number, going)

    def _leave(self, stay: np.ndarray) -> None:
        """Go on with the clients at these places alone; the others have what they came for."""
        clients = self.clients.only(stay)
        self.keep_best()
        self.clients, self.params = clients, clients.trained
        self.best = {name: value[torch.from_numpy(stay).to(value.device)] for name, value in self.best.items()}
        self.optimisers = [each.only(self.params, stay) for each in self.optimisers]
        self.loss = self.objective(clients)


@torch.no_grad()
def untrained(clients: Clients) -> Tensor:
    """Compute the loss of the models as they are on the clients' training nodes ``[K]``.

    It is for a round in which nobody trains.
    """
    view = clients.inputs.train
    return LocalStep(None, view).task_loss(clients.model(clients.trained, view))


def fine_tuning(clients: Clients, objective: Callable[[Clients], Loss], lr: float) -> Iterator[Phase]:
    """Fine-tune in a phase of at most so many epochs as the protocol says."""
    stage = FineTuning(clients, objective, lr)
    yield stage.phase("fine_tuning", clients.protocol.fine_tuning)
    stage.keep_best()
