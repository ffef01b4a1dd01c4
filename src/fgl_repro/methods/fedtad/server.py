"""FedTAD's server: teachers weighted by how reliably they know the class of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.fl.optim import Optimiser, StackedAdam
from fgl_repro.fl.steps import descend
from fgl_repro.methods.generated.graphs import PseudoGraph
from fgl_repro.methods.generated.server import DistillingServer, Lesson

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.fedtad.method import FedTAD


class FedTADServer(DistillingServer):
    """Its generator and both optimisers go on from round to round.

    Args:
        reliability: Of each class at each client, columns summing to 1, ``[K, C]``.
    """

    method: FedTAD

    def __init__(self, method: FedTAD, clients: Clients, reliability: Tensor) -> None:
        super().__init__(method, clients)
        self.teacher_dropout = self.rng if method.variant == "release" else None
        count = F.one_hot(self.labels, reliability.shape[1]).sum(0)
        self.weight = (reliability / count)[:, self.labels]  # of what client k says of node i, [K, n]
        self.optimiser = StackedAdam(self.generator, method.lr_generator, method.weight_decay)
        self.student_descent = StackedAdam(self.student, method.lr_student, method.weight_decay)

    def train_generator(self, epoch: int) -> PseudoGraph:
        noise = self.noise()
        descend(self.steps(), lambda _: self.generator_loss(noise), [self.optimiser])
        return self.graph(noise).detached()

    def generator_loss(self, noise: Tensor) -> Tensor:
        """Compute the generator's loss ``[1]``: teachers know classes, nodes differ, student and teachers disagree."""
        graph = self.graph(noise)
        logits = self.teacher_logits(graph)
        wrong = F.cross_entropy(logits.flatten(0, 1), self.labels.repeat(self.count), reduction="none")
        known = (self.weight * wrong.view_as(self.weight)).sum()
        alike = self.count * alikeness(noise, graph.features)
        apart = self.apart(self.student_logits_fixed(graph), logits.detach()).mean()
        return (self.method.known * known + self.method.diverse * alike - apart).view(1)

    def apart(self, students: Tensor, teachers: Tensor) -> Tensor:
        """Measure the weighted distance ``[S]`` of students' logits ``[S, n, C]`` from teachers' ``[K, n, C]``."""
        return (self.weight * (students.unsqueeze(1) - teachers).abs().mean(-1)).sum((1, 2))

    def lessons(self, epoch: int, graph: PseudoGraph) -> Iterator[Lesson]:
        with torch.no_grad():
            logits = self.teacher_logits(graph)
        return (Lesson(None, graph, logits) for _ in range(self.method.student_steps))

    def student_loss(self, lesson: Lesson) -> Tensor:
        return self.apart(self.student_logits(lesson.graph), lesson.teacher_logits)

    def student_optimiser(self, epoch: int) -> Optimiser:
        return self.student_descent


def alikeness(noise: Tensor, features: Tensor) -> Tensor:
    """Compute exp(-mean over pairs a, b of mean (z_a - z_b)^2 times mean |x_a - x_b|), one number.

    Args:
        noise: z ``[n, z]``.
        features: x ``[n, d]``.
    """
    squares = torch.cdist(noise, noise) ** 2 / noise.shape[1]
    return torch.exp(-(squares * torch.cdist(features, features, p=1.0) / features.shape[1]).mean())
