"""O-pFGL's two stages at the clients: a model from the surrogate graph, and its fine-tuning with distillation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fgl_repro.core.device import one_thread
from fgl_repro.fl.mixing import copied
from fgl_repro.fl.optim import StackedAdam
from fgl_repro.fl.phase import Phase
from fgl_repro.fl.stage import Stage, fine_tuning
from fgl_repro.fl.steps import LocalStep, Loss, Step
from fgl_repro.methods.opfgl.labels import distillation
from fgl_repro.methods.opfgl.surrogate import ONE_THREAD_BELOW
from fgl_repro.nn.ops import kl_divergence, log_likelihood
from fgl_repro.nn.view import DeepView, Padded, View, Views

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.opfgl.method import OpFGL, State
    from fgl_repro.methods.opfgl.surrogate import Surrogate


class SmallViews(Views):
    """Views of a surrogate graph: convolutions as dense products, which so few nodes are faster with."""

    def __init__(self, small: Surrogate) -> None:
        super().__init__(small.features.device)
        self.small = small

    def of(self, graph: UnionGraph, rows: np.ndarray, layers: int = 2) -> View:
        around = self.small.normalised
        inputs = around @ self.small.features

        def first(weight: Tensor, bias: Tensor) -> Tensor:
            return (inputs @ weight.squeeze(0)).unsqueeze(0) + bias.unsqueeze(1)

        def step(values: Tensor) -> Tensor:
            return around @ values

        assert graph.num_clients == 1
        rest: dict[str, Any] = dict(Padded.of(rows, graph).tensors(graph, self.device))
        return DeepView(dense=first, sparse=None, inner=None, outer=step, between=(step,) * (layers - 2), **rest)


def generalisation(method: OpFGL, clients: Clients, state: State) -> Iterator[Phase]:
    """Run stage 1, generalisation.

    All clients train the same model on the same graph, so one is trained, and each keeps its own check.
    """
    small = state.surrogate
    assert small is not None
    graph = small.union(clients.model.kinds)
    view = clients.model.view(SmallViews(small), graph, np.arange(graph.num_nodes))
    params = copied({name: value[:1] for name, value in clients.params.items()}, grad=True)

    def loss(step: Step) -> Tensor:
        found = clients.model(params, view)
        return torch.stack([F.cross_entropy(logits, small.labels) for logits in found])

    def steps(epochs: int, going: np.ndarray) -> Iterator[Step]:
        with one_thread(len(small.labels) < ONE_THREAD_BELOW):  # until the last of them is taken
            yield from (Step(None) for _ in range(epochs))

    rules = clients.protocol
    stage = Stage(
        clients,
        params,
        steps,
        loss,
        [StackedAdam(params, method.lr)],
        rules.check_every,
        rules.patience,
    )
    yield stage.phase("generalisation", method.epochs)
    stage.keep_best()


def personalisation(method: OpFGL, clients: Clients, state: State) -> Iterator[Phase]:
    """Run stage 2: fine-tuning on the client's training nodes, held to the teacher on all of its nodes."""
    graph, device = clients.world.graph, clients.device
    nodes = np.arange(graph.num_nodes)
    gamma = distillation(graph, state.soft, state.weights, method.scale)
    if method.distill == "fixed":
        gamma = np.full(graph.num_nodes, method.scale)
    whole = clients.inputs.evaluation_view(nodes)
    trains, weight = (
        whole.placed(torch.from_numpy(values.astype(np.float32)).to(device))
        for values in (np.isin(nodes, clients.world.train), gamma.clip(method.floor, method.ceiling))
    )
    with torch.no_grad():
        taught = torch.log_softmax(clients.model(clients.trained, whole), -1)

    def objective(some: Clients) -> Loss:
        view = whole if some is clients else some.inputs.evaluation_view(np.arange(some.world.graph.num_nodes))
        own_rows, held, teacher = (some.among(values, view) for values in (trains, weight, taught))

        def loss(step: LocalStep) -> Tensor:
            log_p = torch.log_softmax(some.model(some.trained, view), -1)
            wrong = -log_likelihood(log_p, view.labels)
            if method.focus:  # rows that are right already count less
                wrong = wrong * (1 - torch.exp(-wrong)) ** method.focus
            own = (wrong * own_rows).sum(1) / some.samples
            if method.distill == "none":
                return own
            return own + view.mean(held * kl_divergence(teacher, log_p))

        return loss

    yield from fine_tuning(clients, objective, method.lr_tuning)
