"""Co-Boosting's server: DENSE's with hard nodes, moved features and weights of the teachers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.fl.optim import Optimiser
from fgl_repro.methods.dense.server import DenseServer, softened_divergence
from fgl_repro.methods.generated.graphs import PseudoGraph
from fgl_repro.methods.generated.server import Lesson

if TYPE_CHECKING:
    from fgl_repro.methods.coboost.method import CoBoost

SOFTENED = 4.0
"""Temperature of the ensemble's answers by which features are moved."""
FADING = 0.99
"""What the step of the teachers' weights is multiplied with after each epoch."""


class CoBoostServer(DenseServer):
    """DENSE's server with hard nodes, moved features and weighed teachers."""

    method: CoBoost

    def begin(self) -> None:
        super().begin()
        if not self.method.as_paper:
            self.weights /= self.count

    def wrong(self, teacher: Tensor) -> Tensor:
        """Average (1 - p_y)^h times the cross-entropy, the former without gradient; logits ``[n, C]``."""
        wrong = F.cross_entropy(teacher, self.labels, reduction="none")
        hard = (1 - torch.exp(-wrong.detach())) ** self.method.hardness
        return (hard * wrong).mean()

    def disagreement(self, teacher: Tensor, student: Tensor) -> Tensor:
        """Compute KL(teacher || student) of all nodes, softened; logits ``[n, C]``."""
        return softened_divergence(teacher, student, self.method.temperature_adversarial).mean()

    def lessons(self, epoch: int, graph: PseudoGraph) -> Iterable[Lesson]:
        """Weigh the teachers on the graphs that were there before, then return the lessons."""
        for lesson in self.pool:
            self.weights = self.weighed(lesson.teacher_logits, self.method.weight_step * FADING**epoch)
        return super().lessons(epoch, graph)

    @torch.no_grad()
    def weighed(self, logits: Tensor, step: float) -> Tensor:
        """Return the weights ``[K]`` after a step of this length against the sign of the gradient of the ensemble's CE.

        With T the ensemble and p its softmax, d CE / d w_k is mean_i (p_i - y_i) (f_k(i) - T(i)) up to a factor > 0.

        Args:
            logits: The teachers' logits f ``[K, n, C]``.
        """
        teacher = self.ensemble(logits)
        slope = torch.softmax(teacher, -1) - F.one_hot(self.labels, teacher.shape[1])
        gradient = ((logits - teacher) * slope).sum((1, 2))
        return (self.weights - step * gradient.sign()).clamp(0, 1)

    def student_loss(self, lesson: Lesson) -> Tensor:
        graph = self.moved(lesson.graph)
        with torch.no_grad():
            teacher = self.ensemble(self.teacher_logits(graph))
        return self.taught(teacher, graph)

    def moved(self, graph: PseudoGraph) -> PseudoGraph:
        """Move features a step from where they were, by the sign of the gradient of a random mean of the answers."""
        features = graph.features.detach().requires_grad_()
        soft = torch.softmax(self.ensemble(self.teacher_logits(graph.moved(features))) / SOFTENED, -1)
        random = 2 * torch.rand(soft.shape, generator=self.rng, device=self.device) - 1
        (slope,) = torch.autograd.grad((random * soft).sum(), features)
        return graph.moved(graph.features + self.method.move * graph.features.std(0) * slope.sign())

    def student_optimiser(self, epoch: int) -> Optimiser:
        """Let the step fade like a cosine over the epochs."""
        self.student_descent.lr = self.method.lr_student * (1 + math.cos(math.pi * epoch / self.method.epochs)) / 2
        return self.student_descent

    def facts(self) -> dict[str, Any]:
        """Return the teachers' weights after the last epoch."""
        return {"weights": [round(weight, 4) for weight in self.weights.tolist()]}
