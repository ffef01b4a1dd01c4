"""A server that knows the clients' models and no data: it makes up graphs and teaches one model what they say there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from fgl_repro.core.streams import torch_rng
from fgl_repro.fl.mixing import copied
from fgl_repro.fl.optim import Optimiser
from fgl_repro.fl.steps import Step, descend
from fgl_repro.methods.generated.graphs import PseudoGraph, balanced, features, network, side_by_side
from fgl_repro.nn.models.fleet import FleetModel

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.generated.method import DistilledOnGenerated
    from fgl_repro.nn.models.model import Params


@dataclass(frozen=True)
class Lesson(Step):
    """A step of the student on a graph, and the logits there of all teachers ``[K, n, C]``."""

    graph: PseudoGraph
    teacher_logits: Tensor


class DistillingServer(ABC):
    """In turns a generator makes up a graph and a student learns what K teachers say of it.

    Attributes:
        count: How many clients there are, K.
        labels: Classes that nodes are made up for, int64 ``[n]``.
        teachers: The clients' models of this round, ``[K, ...]``.
        student: What learns from them: one model ``[1, ...]``, or one for each client of a fleet.
        copies: How many these are, S.
        generator: The weights of the network that makes up features, ``[1, ...]``.
        teacher_dropout: From where models draw what they drop that do not train; None: they drop nothing.
    """

    def __init__(self, method: DistilledOnGenerated, clients: Clients) -> None:
        self.method, self.model, self.count = method, clients.model, clients.count
        self.device = clients.device
        self.labels = balanced(method.nodes, clients.model.num_classes, self.device)
        self.init = torch_rng("generator/init", clients.seed)
        self.rng = torch_rng("generator", clients.seed, str(self.device))
        self.teacher_dropout: Generator | None = None
        self.teachers: Params = {}
        # of how many clients each has a student of its own
        one = 1 if isinstance(self.model, FleetModel) else clients.count
        self.copies = clients.count // one
        first = {name: value[: len(value) // one] for name, value in clients.params.items()}
        self.student = copied(first, grad=True)
        self.generator = self.new_generator()

    def new_generator(self) -> Params:
        """Draw a generator at its beginning."""
        sizes = self.method.noise, self.model.num_classes, self.model.num_features
        return network(*sizes, self.init, self.device)

    def noise(self) -> Tensor:
        """Draw from N(0, 1), ``[n, z]``."""
        return torch.randn(self.method.nodes, self.method.noise, generator=self.rng, device=self.device)

    def graph(self, noise: Tensor) -> PseudoGraph:
        """Return what the generator makes of this noise."""
        return PseudoGraph.of(self.features(noise), self.method.neighbours)

    def features(self, noise: Tensor) -> Tensor:
        """Return the features ``[n, d]`` that the generator makes of this noise."""
        return features(self.generator, noise, self.labels)

    def teacher_logits(self, graph: PseudoGraph) -> Tensor:
        """Compute logits of all teachers on a graph ``[K, n, C]``, in one forward pass."""
        return graph.logits(self.model, self.teachers, self.count, self.teacher_dropout)

    def student_logits_fixed(self, graph: PseudoGraph) -> Tensor:
        """Compute logits of the students on a graph ``[S, n, C]``; weights stay fixed and drop what teachers do."""
        fixed = {name: value.detach() for name, value in self.student.items()}
        return graph.logits(self.model, fixed, self.copies, self.teacher_dropout)

    def student_logits(self, graph: PseudoGraph) -> Tensor:
        """Compute logits of the students on a graph ``[S, n, C]``, in training."""
        return graph.logits(self.model, self.student, self.copies, self.rng)

    @torch.enable_grad()
    def distil(self, teachers: Params, start: Params) -> Params:
        """Train the students for all epochs, and return their weights ``[S, ...]``.

        Args:
            teachers: The clients' models ``[K, ...]``.
            start: What students start from ``[S, ...]``.
        """
        self.teachers = {name: side_by_side(value.detach()) for name, value in teachers.items()}
        with torch.no_grad():
            for name, value in start.items():
                self.student[name].copy_(value)
        for epoch in range(self.method.epochs):
            graph = self.train_generator(epoch)
            descend(self.lessons(epoch, graph), self.student_loss, [self.student_optimiser(epoch)])
        return {name: value.detach() for name, value in self.student.items()}

    def facts(self) -> dict[str, Any]:
        """Return what the record keeps of the server; default: nothing."""
        return {}

    def steps(self) -> Iterator[Step]:
        """Yield the generator's steps of an epoch."""
        return (Step(None) for _ in range(self.method.generator_steps))

    @abstractmethod
    def train_generator(self, epoch: int) -> PseudoGraph:
        """Train the generator; return the graph that it ends with, without gradient."""

    @abstractmethod
    def lessons(self, epoch: int, graph: PseudoGraph) -> Iterable[Lesson]:
        """Return the student's steps of an epoch, whose newest graph this is."""

    @abstractmethod
    def student_loss(self, lesson: Lesson) -> Tensor:
        """Compute each student's loss ``[S]``."""

    @abstractmethod
    def student_optimiser(self, epoch: int) -> Optimiser:
        """Return what the student steps with."""
