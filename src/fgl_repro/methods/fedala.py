"""FedALA: FedAvg whose clients go on from a mix of what they received and what they had, weight by weight.

Paper: Zhang et al., "FedALA: Adaptive Local Aggregation for Personalized Federated Learning", AAAI 2023, Algorithm 1.
The lower tensors are those received; the last ``tensors`` of them become

    theta_k + (theta - theta_k) * W,    W <- clip(W - rate * dL/dW, 0, 1),

with W of one number for each weight, 1 at first and kept from round to round. L is taken batch after batch, in their
order, on a random contiguous ``part`` of the client's training units. The first time W is learned until the last
``window`` losses (of the last batch of each epoch) have a standard deviation below ``spread``, after that for one
epoch a round; what all start from is not mixed. The mix is what is trained on and, where models are
judged after the server has mixed, what is judged. All clients learn at once; one that is done waits for the others.

Variants: as FedAvg's, uniform mean (release) or by training nodes (paper; its code, too).
Known differences from its code (PFLlib's too): learning ends after ``most`` epochs, theirs when it has converged. Their
classifier's tensors are the last linear map's, weight and bias, as here, but for the GAT, whose last two are the scores
of its attention (``tensors=4`` are those of its last layer).
Their list of units is shuffled once; units here are in ascending order, so that where a client mixes environments
(``partitioner.mixed``) a contiguous part lacks graphs of the first or the last of them.
FedVN, in whose Table 1 it stands, gives none of these numbers; those of the code's defaults stand here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fgl_repro.core.lazy import lazy, torch
from fgl_repro.core.streams import numpy_rng, torch_rng
from fgl_repro.fl.batches import Batch
from fgl_repro.fl.inputs import draws_of
from fgl_repro.fl.messages import Message
from fgl_repro.fl.mixing import copied, flat
from fgl_repro.fl.optim import StackedSGD
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl import steps
    from fgl_repro.fl.clients import Clients
    from fgl_repro.fl.steps import LocalStep
    from fgl_repro.nn.models.model import Params
else:
    steps = lazy("fgl_repro.fl.steps")


@dataclass
class State:
    """What clients keep between rounds.

    Attributes:
        weights: W, by the name of the tensor that it mixes, ``[K, ...]``.
        rngs: Each client's stream of random numbers.
        learned: Clients that have learned W to the end, bool ``[K]``.
        received: How often something came down; the first time all have what comes.
    """

    weights: Params
    rngs: list[np.random.Generator]
    learned: np.ndarray
    received: int = 0


class ClampedSGD(StackedSGD):
    """SGD that keeps every number in [0, 1]."""

    def _move(self, params: list[Tensor], *rest: Any) -> None:
        super()._move(params, *rest)
        for tensor in params:
            tensor.clamp_(0, 1)


@dataclass
class FedALA(FedAvg[State]):
    """Attributes:
    tensors: How many of the last tensors are mixed; 0: all.
    part: Share of the training units that W is learned on.
    rate: Learning rate of W.
    spread: Standard deviation of losses below which W has converged, the first time.
    window: Over how many of the last losses that is taken.
    most: Epochs after which learning ends at the latest.
    """

    name: ClassVar[str] = "fedala"
    display: ClassVar[str] = "FedALA"
    least: ClassVar[dict[str, float]] = {"tensors": 0, "rate": 0, "spread": 0, "window": 1, "most": 1}
    greatest: ClassVar[dict[str, float]] = {"part": 1}
    above: ClassVar[dict[str, float]] = {"part": 0}
    quick: ClassVar[dict[str, Any]] = {"most": 3}

    tensors: int = 2
    part: float = 0.8
    rate: float = 1.0
    spread: float = 0.1
    window: int = 10
    most: int = 100

    @classmethod
    def can_sit_out(cls) -> bool:
        return True

    def state(self, clients: Clients) -> State:
        upper = list(clients.params)[-self.tensors :]
        ones = {name: torch.ones_like(clients.params[name]).requires_grad_() for name in upper}
        rngs = [numpy_rng(f"fedala/{k}", clients.seed) for k in range(clients.count)]
        return State(ones, rngs, np.zeros(clients.count, dtype=bool))

    def receive(self, clients: Clients, state: State, message: Message) -> None:
        """Take the lower tensors as they are, learn how to mix the upper ones, and mix them."""
        sent, weights = message.tensors(), state.weights
        own = copied({name: clients.params[name] for name in weights})
        apart = {name: sent[name] - own[name] for name in weights}
        clients.load(sent)
        if state.received:
            self.learn(clients, state, own, apart)
        clients.load({name: own[name] + apart[name] * weights[name].detach() for name in weights})
        state.received += 1

    def learn(self, clients: Clients, state: State, own: Params, apart: Params) -> None:
        """Learn W for an epoch, a client's first time for more; ``own`` tensors and those sent are so far ``apart``.

        No client's draws depend on how long another one learns, and those that sit the round out learn nothing.
        """
        fixed = {name: value.detach() for name, value in clients.trained.items()}
        # torch draws here and NumPy in state(): the two have nothing in common where their names are the same
        dropout = torch_rng(f"fedala/{state.received}", clients.seed, str(clients.device))
        optimiser, epoch = ClampedSGD(state.weights, self.rate), self.epoch(clients, state)

        def loss(step: LocalStep) -> Tensor:
            mixed = {name: own[name] + apart[name] * weight for name, weight in state.weights.items()}
            return step.task_loss(clients.model(fixed | mixed, step.view, dropout))

        losses: list[np.ndarray] = []
        going = clients.takes_part
        first, state.learned = going & ~state.learned, state.learned | going
        while going.any() and len(losses) < self.most:
            now = (steps.LocalStep(step.active & going, step.view, step.batch) for step in epoch)
            last = steps.descend(now, loss, [optimiser])
            going = going & first
            if going.any():  # else nobody waits for the device to tell them
                losses.append(last.cpu().numpy())
            if len(losses) > self.window:
                going &= np.std(losses[-self.window :], axis=0) >= self.spread

    def epoch(self, clients: Clients, state: State) -> list[LocalStep]:
        """Draw the batches of an epoch, of a part that every client that is there draws anew."""
        parts = []
        for rng, rows, there in zip(state.rngs, clients.world.train_of, clients.takes_part, strict=True):
            if not there:
                parts.append(rows[:0])
                continue
            count = min(max(int(self.part * len(rows)), 1), len(rows))
            first = rng.integers(len(rows) - count + 1)
            parts.append(rows[first : first + count])
        longest = max(map(len, parts))
        size, made = clients.protocol.batch or longest, []
        for start in range(0, longest, size):
            some = [part[start : start + size] for part in parts]
            draws = draws_of(clients.model.fanout)
            uniform = [rng.random((len(own), draws), np.float32) for rng, own in zip(state.rngs, some, strict=True)]
            batch = Batch(np.concatenate(some), np.array([len(own) > 0 for own in some]), np.concatenate(uniform))
            made.append(steps.LocalStep(batch.active, clients.inputs.batch(batch), batch))
        return made

    def trace(self, clients: Clients, state: State) -> dict[str, Tensor]:
        """Return the mean of W."""
        return {"mixing": flat(state.weights).detach().mean()}
