"""DENSE's server: a pool of generated graphs, one more each epoch, on which a student learns what the ensemble says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.core.streams import numpy_rng, torch_rng
from fgl_repro.fl.optim import Optimiser, StackedAdam, StackedSGD
from fgl_repro.fl.steps import descend
from fgl_repro.methods.generated.graphs import PseudoGraph
from fgl_repro.methods.generated.server import DistillingServer, Lesson
from fgl_repro.nn.ops import kl_divergence

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.dense.method import Dense
    from fgl_repro.nn.models.model import Params

MOMENTUM = 0.9
"""Momentum of the student's SGD."""


class DenseServer(DistillingServer):
    """DENSE's server: in turn a generator makes a graph, and a student learns what the ensemble says of all so far.

    Attributes:
        pool: Graphs so far and what the teachers say of each.
        weights: Of the teachers in the ensemble, float ``[K]``.
    """

    method: Dense

    def __init__(self, method: Dense, clients: Clients) -> None:
        super().__init__(method, clients)
        self.order = numpy_rng("pool", clients.seed)
        fresh = clients.model.init(torch_rng("student", clients.seed))
        self.fresh = {name: value.unsqueeze(0).to(self.device) for name, value in fresh.items()}
        self.begin()

    def begin(self) -> None:
        """Forget the last round."""
        self.pool: list[Lesson] = []
        self.weights = torch.ones(self.count, device=self.device)
        lr, decay = self.method.lr_student, self.method.weight_decay
        sgd = self.method.optimiser == "sgd"
        self.student_descent = (
            StackedSGD(self.student, lr, decay, MOMENTUM) if sgd else StackedAdam(self.student, lr, decay)
        )

    def distil(self, teachers: Params, start: Params) -> Params:
        if self.method.renewed and self.pool:
            self.generator = self.new_generator()
        self.begin()
        return super().distil(teachers, self.fresh if self.method.student == "random" else start)

    def features(self, noise: Tensor) -> Tensor:
        found = super().features(noise)
        return torch.tanh(found) if self.method.bounded else found

    def ensemble(self, logits: Tensor) -> Tensor:
        """Average the teachers' logits by their weights: ``[K, n, C] -> [n, C]``."""
        share = self.weights / self.weights.sum().clamp_min(1e-12)
        return torch.einsum("k,knc->nc", share, logits)

    def train_generator(self, epoch: int) -> PseudoGraph:
        """Train for an epoch, in which the noise learns, too; return the graph of lowest loss among its steps."""
        if self.method.renewed and epoch:
            self.generator = self.new_generator()
        noise = self.noise().unsqueeze(0).requires_grad_()
        self.lowest = torch.full((), torch.inf, device=self.device)
        self.kept = noise.new_zeros(self.method.nodes, self.model.num_features)
        optimiser = StackedAdam({**self.generator, "z": noise}, self.method.lr_generator, beta=self.method.beta)
        descend(self.steps(), lambda _: self.generator_loss(noise[0]), [optimiser])
        return PseudoGraph.of(self.kept, self.method.neighbours)

    def generator_loss(self, noise: Tensor) -> Tensor:
        """Compute the generator's loss ``[1]``: the ensemble knows the classes, and students do not agree."""
        graph = self.graph(noise)
        teacher = self.ensemble(self.teacher_logits(graph))
        apart = torch.stack([self.disagreement(teacher, own) for own in self.student_logits_fixed(graph)]).mean()
        loss = self.method.known * self.wrong(teacher) - self.method.adversarial * apart
        with torch.no_grad():
            better = loss < self.lowest
            self.lowest = torch.where(better, loss, self.lowest)
            self.kept = torch.where(better, graph.features, self.kept)
        return loss.view(1)

    def wrong(self, teacher: Tensor) -> Tensor:
        """Compute the cross-entropy of the ensemble's logits ``[n, C]``, one number."""
        return F.cross_entropy(teacher, self.labels)

    def disagreement(self, teacher: Tensor, student: Tensor) -> Tensor:
        """Average over all nodes KL(teacher || student) of logits ``[n, C]`` where they predict different classes."""
        differ = (teacher.argmax(1) != student.argmax(1)).to(teacher.dtype)
        return (differ * softened_divergence(teacher, student, 1.0)).mean()

    def lessons(self, epoch: int, graph: PseudoGraph) -> Iterable[Lesson]:
        """Return the whole pool in random order, the new graph among it."""
        with torch.no_grad():
            self.pool.append(Lesson(None, graph, self.teacher_logits(graph)))
        return [self.pool[i] for i in self.order.permutation(len(self.pool))]

    def student_loss(self, lesson: Lesson) -> Tensor:
        return self.taught(self.ensemble(lesson.teacher_logits), lesson.graph)

    def taught(self, teacher: Tensor, graph: PseudoGraph) -> Tensor:
        """Measure each student's distance ``[S]`` from the ensemble's logits ``[n, C]`` of a graph."""
        return softened_divergence(teacher, self.student_logits(graph), self.method.temperature).mean(1)

    def student_optimiser(self, epoch: int) -> Optimiser:
        return self.student_descent


def softened_divergence(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """Compute KL(teacher || student) of logits ``[..., n, C]`` at a temperature, times its square, ``[..., n]``."""
    log_p = torch.log_softmax(teacher / temperature, -1)
    log_q = torch.log_softmax(student / temperature, -1)
    return temperature**2 * kl_divergence(log_p, log_q)
