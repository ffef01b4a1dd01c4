"""FedNTD: FedAvg whose clients keep the received model's opinion on the classes that are not the true one.

Paper: Lee et al., "Preservation of the Global Knowledge by Not-True Distillation in Federated Learning",
NeurIPS 2022. With student logits f and the frozen received model's logits g, both without the true coordinate y,

    L = CE(f, y) + beta * tau^2 * mean_i sum_{c != y} q_g(c) log(q_g(c) / q_f(c)),   q(c) = softmax_{c != y}(. / tau).

Variants: none; beta = tau = 1 are the values of the authors' configuration.
Known differences from the authors' code: teacher logits are computed once a round (they are constant in it), always in
evaluation mode (there the very first client's are not); the optimiser is the protocol's Adam, kept across rounds, in
place of SGD with momentum restarted and a rate that falls by 1 % a round.
On PubMed (three classes) only two classes are ever "not true". Weights are averaged by training nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.lazy import functional as F
from fgl_repro.core.lazy import torch
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl.clients import Clients
    from fgl_repro.fl.steps import LocalStep, Loss


@dataclass
class FedNTD(FedAvg[None]):
    """Attributes:
    beta: Weight of the distillation.
    tau: Its temperature.
    """

    name: ClassVar[str] = "fedntd"
    display: ClassVar[str] = "FedNTD"
    units: ClassVar[tuple[str, ...]] = ("node",)
    variants: ClassVar[tuple[str, ...]] = ("paper",)
    least: ClassVar[dict[str, float]] = {"beta": 0}
    above: ClassVar[dict[str, float]] = {"tau": 0}

    variant: str = "paper"
    beta: float = 1.0
    tau: float = 1.0

    def objective(self, clients: Clients, state: None, round: int) -> Loss:
        teacher = clients.teacher()

        def loss(step: LocalStep) -> Tensor:
            logits = clients.logits(step, teacher)
            gap = self.not_true(logits, teacher.of(step), step.view.labels)
            return step.task_loss(logits) + self.beta * step.mean(gap)

        return loss

    def not_true(self, student: Tensor, teacher: Tensor, labels: Tensor) -> Tensor:
        """Compute not-true distillation by row: logits ``[K, r, C]`` of both and classes ``[K, r]`` to ``[K, r]``."""
        if student.shape[-1] == 1:  # no class is not the true one
            return torch.zeros_like(labels, dtype=student.dtype)
        true = F.one_hot(labels, student.shape[-1]).bool()
        log_f = torch.log_softmax((student / self.tau).masked_fill(true, -torch.inf), -1)
        log_g = torch.log_softmax((teacher / self.tau).masked_fill(true, -torch.inf), -1)
        gap = (log_g - log_f).masked_fill(true, 0.0)
        return self.tau**2 * (log_g.exp() * gap).sum(-1)
