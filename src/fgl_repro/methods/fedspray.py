"""FedSpray: structure proxies of classes, shared by all, teach every client's own GNN what it sees too little of.

Paper: Fu et al., "Federated Graph Learning with Structure Proxy Alignment", KDD 2024 (its text was not at hand: from
its abstract and the released code). Every client has a GNN g, which never leaves it, and a proxy Q_i for each of its
training nodes. Shared by averaging are an encoder e(x) = ReLU(x W + b), classifiers a, of e(x) + Q, and b, of e(x), and
a proxy s_c for each class. In a round a client

    takes pi_i = softmax b(e(x_i)) and Q_i = sum_c pi_ic s_c for its other nodes; those with max pi_i > ``sure`` and
    all training nodes are its reliable set R; tau_i = softmax a(e(x_i) + Q_i), frozen;
    trains g:           CE(training nodes) + ``weight`` mean_R KL(tau || softmax g);
    trains e, a, b, Q:  mean over training nodes of CE(b(e(x))) + KL(softmax g || softmax a(e(x) + Q));
    uploads e, a, b, and the mean of Q over its training nodes of each class, 0 where it has none.

The server averages e, a, b by training nodes. GNNs train with the protocol's optimiser, the rest with Adams of its own.

Variants:
    release  a proxy for every training node, which the client keeps from round to round; once pi is told, b trains on
             from the weights of a; s_c is a mean over clients weighted by the share of c among their training nodes
             (small clients weigh as much as big ones).
    paper    a proxy for every class of a client, which starts a round from s_c; b from its own mean; s_c is weighted by
             training nodes of class c.

Known differences: a class that nobody trains on keeps its s_c (the code divides by zero). The code draws all weights
and biases of its GNNs from U[0, 1), ``initial=uniform``, and every client its own; here models start as all others do,
all clients' alike. Its accuracy on nodes of minor classes is not measured. Rates and epochs of the code are 0.003 and
5, with GraphSAGE. Cora and CiteSeer come back, PubMed's macro-F1 with more local epochs: results/opfgl/notes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fgl_repro.core.lazy import functional as F
from fgl_repro.core.lazy import lazy, torch
from fgl_repro.core.streams import torch_rng
from fgl_repro.fl.messages import Message
from fgl_repro.fl.method import Method
from fgl_repro.fl.mixing import average, copied
from fgl_repro.fl.start import Start

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl import optim, steps
    from fgl_repro.fl.clients import Clients
    from fgl_repro.fl.optim import Optimiser
    from fgl_repro.fl.steps import LocalStep, Loss
    from fgl_repro.nn import ops
    from fgl_repro.nn.models import gcn
    from fgl_repro.nn.models.gcn import GCN
    from fgl_repro.nn.models.model import Model, Params
    from fgl_repro.nn.view import View
else:
    optim, steps, ops, gcn = (lazy(f"fgl_repro.{name}") for name in ("fl.optim", "fl.steps", "nn.ops", "nn.models.gcn"))


@dataclass
class Shared(Message):
    """Encoder and classifiers, and a proxy for every class ``[K, C, H]``."""

    weights: Params
    proxies: Tensor


@dataclass
class State:
    """What clients have beside their GNNs; n nodes, r training nodes each, H the proxies' width.

    Attributes:
        encoder: The network of e (its first layer) and b (its second).
        shared: Weights of e, b and of a, leaves ``[K, ...]``.
        classes: Proxies s as they came down ``[K, C, H]``.
        guide: The classifier b as it came down, which tells pi, ``[K, ...]``.
        own: Proxies that a client learns, of its training nodes or (paper) its classes, a leaf ``[K, r or C, H]``.
        around: All nodes with their neighbours.
        alone, trains: All nodes, and training nodes, without neighbours.
        known: Training nodes among all, 1.0 or 0.0 ``[K, n]``.
        place: Of each training node in the flattened ``[K * n]``, int64.
        optimisers: Of ``shared`` and of ``own``.
    """

    encoder: GCN
    shared: Params
    classes: Tensor
    guide: Params
    own: Params
    around: View
    alone: View
    trains: View
    known: Tensor
    place: Tensor
    optimisers: list[Optimiser]

    def encoded(self, view: View) -> Tensor:
        """Compute e(x) of nodes without neighbours ``[K, r, H]``."""
        return self.encoder.activated(self.encoder.first(self.shared, view), None)


@dataclass
class FedSpray(Method[State]):
    """Attributes:
    width: Width of encoder and proxies.
    weight: Weight of the distillation in the GNN's loss.
    sure: Share that one class must have of pi for a node to be reliable.
    lr_shared, lr_proxies: Learning rates of e, a, b and of Q.
    initial: GNNs start as any model (``model``), or from U[0, 1) throughout (``uniform``).
    """

    name: ClassVar[str] = "fedspray"
    display: ClassVar[str] = "FedSpray"
    revision: ClassVar[int] = 2
    variants: ClassVar[tuple[str, ...]] = ("release", "paper")
    batched: ClassVar[bool] = False
    fleets: ClassVar[bool] = True  # its GNNs stay with their clients
    own_optimisers: ClassVar[bool] = True
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"initial": ("model", "uniform")}
    least: ClassVar[dict[str, float]] = {"width": 1, **dict.fromkeys(("weight", "sure", "lr_shared", "lr_proxies"), 0)}
    quick: ClassVar[dict[str, Any]] = {"width": 4}

    variant: str = "release"
    width: int = 64
    weight: float = 1.0
    sure: float = 0.7
    lr_shared: float = 0.003
    lr_proxies: float = 0.02
    initial: str = "model"

    # --- before the rounds --------------------------------------------------------------------------------------------

    def start(self, model: Model, seed: int) -> Start:
        rng = torch_rng("init", seed)
        weights = model.init(rng)
        if self.initial == "uniform":
            weights = {name: torch.rand(value.shape, generator=rng) for name, value in weights.items()}
        return Start(model, weights)

    def state(self, clients: Clients) -> State:
        world, device, classes = clients.world, clients.device, clients.model.num_classes
        rng, every = torch_rng("spray", clients.seed), np.arange(world.graph.num_nodes)
        encoder = gcn.GCN(clients.model.num_features, classes, hidden=self.width, dropout=0.0, linear=False)
        shapes = {"W1": (encoder.num_features, self.width), "W2": (self.width, classes), "Wa": (self.width, classes)}
        drawn = {name: ops.fan_in(shape, shape[1], rng) for name, shape in shapes.items()}
        drawn |= {f"b{name[1]}": ops.fan_in(shape[1:], shape[1], rng) for name, shape in shapes.items()}
        shared = {name: value.to(device) for name, value in ops.stack(drawn, clients.count).items()}
        first = 0.01 * torch.arange(classes, device=device).float().view(1, -1, 1)
        around = clients.inputs.evaluation_view(every)
        alone, trains = (clients.views.alone(world.graph, rows) for rows in (every, world.train))
        place = alone.slots[torch.from_numpy(world.train).to(device)]
        known = torch.zeros(alone.mask.numel(), device=device)
        known[place] = 1.0
        rows = classes if self.as_paper else trains.mask.shape[1]
        own = {"Q": torch.full((clients.count, rows, self.width), 0.1, device=device).requires_grad_()}
        shared = {name: value.requires_grad_() for name, value in shared.items()}
        return State(
            encoder,
            shared,
            first.expand(clients.count, -1, self.width),
            copied({name: shared[name] for name in ("W2", "b2")}),
            own,
            around,
            alone,
            trains,
            known.view_as(alone.mask),
            place,
            [optim.StackedAdam(shared, self.lr_shared), optim.StackedAdam(own, self.lr_proxies)],
        )

    def publish(self, clients: Clients, state: State) -> Message:
        return Shared(state.shared, state.classes)

    # --- a round ------------------------------------------------------------------------------------------------------

    def receive(self, clients: Clients, state: State, message: Message) -> None:
        assert isinstance(message, Shared)
        state.classes = message.proxies
        state.guide = copied({name: message.weights[name] for name in state.guide})
        with torch.no_grad():
            for name, value in message.weights.items():
                state.shared[name].copy_(value)
            if self.as_paper:
                state.own["Q"].copy_(message.proxies)
            else:
                state.shared["W2"].copy_(message.weights["Wa"])
                state.shared["b2"].copy_(message.weights["ba"])

    def fit(self, clients: Clients, state: State, round: int, epochs: int) -> Tensor:
        loss = super().fit(clients, state, round, epochs)
        with torch.no_grad():
            log_g = torch.log_softmax(clients.model(clients.trained, clients.inputs.train), -1)
        turns = (steps.Step(None) for _ in range(epochs))
        steps.descend(turns, lambda step: self.own_loss(state, log_g), state.optimisers)
        return loss

    def objective(self, clients: Clients, state: State, round: int) -> Loss:
        with torch.no_grad():
            target, reliable = self.target(state)
        share = state.known / state.known.sum(1, keepdim=True)
        weight = self.weight * reliable / reliable.sum(1, keepdim=True)

        def loss(step: LocalStep) -> Tensor:
            log_p = torch.log_softmax(clients.logits(steps.LocalStep(step.active, state.around)), -1)
            wrong = -ops.log_likelihood(log_p, state.around.labels)
            return (share * wrong + weight * ops.kl_divergence(target, log_p)).sum(1)

        return loss

    def target(self, state: State) -> tuple[Tensor, Tensor]:
        """Compute log tau of all nodes ``[K, n, C]``, and which are reliable, 1.0 or 0.0 ``[K, n]``."""
        hidden = state.encoded(state.alone)
        pi = torch.softmax(ops.linear(hidden, state.guide["W2"], state.guide["b2"]), -1)
        structure = pi @ state.classes
        structure.flatten(0, 1)[state.place] = self.proxies(state).flatten(0, 1)[state.trains.slots]
        reliable = ((pi.amax(-1) > self.sure) * state.alone.mask).maximum(state.known)
        tau = ops.linear(hidden + structure, state.shared["Wa"], state.shared["ba"])
        return torch.log_softmax(tau, -1), reliable

    def proxies(self, state: State) -> Tensor:
        """Return Q of the training nodes ``[K, r, H]``."""
        own = state.own["Q"]
        return own.gather(1, state.trains.labels.unsqueeze(-1).expand(-1, -1, self.width)) if self.as_paper else own

    def own_loss(self, state: State, log_g: Tensor) -> Tensor:
        """Compute what e, a, b and Q are trained on ``[K]``, with g's log-softmax at training nodes ``[K, r, C]``."""
        hidden = state.encoded(state.trains)
        plain = torch.log_softmax(ops.linear(hidden, state.shared["W2"], state.shared["b2"]), -1)
        wrong = -ops.log_likelihood(plain, state.trains.labels)
        structured = ops.linear(hidden + self.proxies(state), state.shared["Wa"], state.shared["ba"])
        return state.trains.mean(wrong + ops.kl_divergence(log_g, torch.log_softmax(structured, -1)))

    def upload(self, clients: Clients, state: State) -> Message:
        if self.as_paper:
            has = (clients.class_counts > 0).unsqueeze(-1)
            return Shared(state.shared, state.own["Q"] * has)
        member = F.one_hot(state.trains.labels, clients.model.num_classes) * state.trains.mask.unsqueeze(-1)
        means = member.transpose(1, 2) @ state.own["Q"] / clients.class_counts.clamp_min(1).unsqueeze(-1)
        return Shared(state.shared, means)

    def aggregate(self, clients: Clients, state: State, upload: Message) -> Message:
        assert isinstance(upload, Shared)
        weight = clients.class_counts if self.as_paper else clients.prior
        total = weight.sum(0).unsqueeze(-1)
        mean = torch.einsum("kc,kch->ch", weight, upload.proxies) / torch.where(total > 0, total, 1)
        classes = torch.where(total > 0, mean, state.classes[0])
        return Shared(average(upload.weights, clients.samples), classes.expand_as(state.classes))
