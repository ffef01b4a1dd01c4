"""FedVN: virtual nodes that all clients share, joined to their graphs by a generator that each keeps to itself.

Paper: Fu et al., "Virtual Nodes Can Help: Tackling Distribution Shifts in Federated Graph Learning", AAAI 2025.
Networks: equations 4 to 6 (``networks.py``). Losses: L_S, cross-entropy or squared error; L_V, equation 7,

    L_V = || Sigma ||_F^2 / M^2,  Sigma the correlations of the rows of Q;

L_E, equation 8, with s_i the sum of the weights of graph i's links to the virtual nodes,

    L_E = mean_i softplus((cos(s_i, s_global) - cos(s_i, s_local)) / tau).

A round (Algorithm 1): every client first steps its generator down L_S + lambda_2 L_E (equation 10), then, with that
generator fixed, the network and Q down L_S + lambda_1 L_V (equations 11, 12); the server averages network and Q,
weighted by training graphs (equation 13).

Variants:
    release  the message of the virtual nodes passes through the layer with that of the neighbours; Q has the hidden
             width and enters after the map of features; s_local is the mean over the batch before, kept from round to
             round, and at first all one half.
    paper    the message is added after the layer (equation 5), its batch norm, ReLU and dropout included; Q has the
             features' width and is mapped as they are, with the bias where that map has one (molecules, whose features
             are categories, have none), so that it has something to say while it is 0; s_local is the mean over all
             training graphs of the client, taken before its epochs. Where features are one number (Motif) a row of Q
             has no spread: L_V is 0 there and ``decoupling`` without effect; with three (CMNIST) it cannot fall below
             one half.
    Each of the three can be had alone, by ``message``, ``width`` and ``local``.
    In both s_global is constant and the same for all virtual nodes, as the paper allows; its length says nothing.

Known differences: Table 2's "w/o g", which the released code does not have, joins all virtual nodes to all nodes alike
and calls that a single one. What such links weigh is not said, and matters: the single one is ``generator=false
nodes=1``, joined with weight 1; with M nodes and a weight of 1 / M each, which is what ``generator=false`` alone gives,
they hear the graph M times as faintly (``fedvn/variants``). A generator without dropout and batch statistics of the
graphs at hand answer when models are tested, as in the code, 32 of them together: in the order of their numbers here
(``nn.graphs.norm_order``), as drawn there, so that a test graph has other batch mates (as with every method on a GIN).
All tensors have the protocol's one rate, as in the code, unless ``generator_rate`` or ``nodes_rate`` says otherwise;
the paper has three letters for it and prints one number. Nodes of one graph have no graphs around them to be joined to:
hence no variant for node classification. ``decoupling``, ``contrast`` and ``nodes`` are what its readme gives for
Motif/Basis; the paper searches them for each data set and prints none, though its section 6.3 has M = 100 "in our
experiments", beside a figure by which a hundred are hard to train. On Motif/Basis the last digit of its initial weights
moves a run with ``local=all`` by about what a seed is worth (``scripts/last_digit.py``, of one seed).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, cast

from fgl_repro.core.lazy import lazy, torch
from fgl_repro.core.schema import added
from fgl_repro.core.streams import torch_rng
from fgl_repro.fl.start import Start
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from fgl_repro.fl import steps
    from fgl_repro.fl.clients import Clients
    from fgl_repro.fl.steps import LocalStep
    from fgl_repro.methods.fedvn import networks
    from fgl_repro.methods.fedvn.networks import VirtualGIN
    from fgl_repro.nn.graphs import GraphsView
    from fgl_repro.nn.models.model import Model, Params
else:
    networks = lazy("fgl_repro.methods.fedvn.networks")
    steps = lazy("fgl_repro.fl.steps")

WAYS = {
    "release": {"message": "inside", "width": "hidden", "local": "batch"},
    "paper": {"message": "after", "width": "features", "local": "all"},
}
"""Where the variants part."""


@dataclass
class State:
    """What clients keep between rounds.

    Attributes:
        local: s_local of each client, ``[K, M]``.
        dropout: Stream of dropout.
        traced: Last values of what is traced.
    """

    local: Tensor
    dropout: Generator
    traced: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class FedVN(FedAvg[State]):
    """Attributes:
    nodes: Number M of virtual nodes.
    decoupling: lambda_1.
    contrast: lambda_2.
    tau: Temperature of L_E.
    generator: Whether clients have generators.
    message: That of the virtual nodes passes ``inside`` the layer or comes ``after`` it; else the variant's way.
    width: That of Q is the ``hidden`` layers' or the ``features``'; else the variant's.
    local: s_local is taken over the ``batch`` before or ``all`` graphs; else the variant's way.
    generator_rate: eta_omega, the generators' rate, as a multiple of the protocol's.
    nodes_rate: eta_Q, that of the virtual nodes.
    """

    name: ClassVar[str] = "fedvn"
    display: ClassVar[str] = "FedVN"
    units: ClassVar[tuple[str, ...]] = ("graph",)
    variants: ClassVar[tuple[str, ...]] = ("release", "paper")
    uniform: ClassVar[tuple[str, ...]] = ()
    models: ClassVar[tuple[str, ...]] = ("gin",)
    own_optimisers: ClassVar[bool] = True
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "message": ("variant", "inside", "after"),
        "width": ("variant", "hidden", "features"),
        "local": ("variant", "batch", "all"),
    }
    least: ClassVar[dict[str, float]] = {"nodes": 1, "decoupling": 0, "contrast": 0}
    above: ClassVar[dict[str, float]] = {"tau": 0, "generator_rate": 0, "nodes_rate": 0}
    quick: ClassVar[dict[str, Any]] = {"nodes": 3}

    variant: str = "release"
    nodes: int = 20
    decoupling: float = 0.1
    contrast: float = 1.0
    tau: float = 0.1
    generator: bool = True
    message: str = added("variant")
    width: str = added("variant")
    local: str = added("variant")
    generator_rate: float = added(1.0)
    nodes_rate: float = added(1.0)

    @classmethod
    def can_sit_out(cls) -> bool:
        return True

    def way(self, name: str) -> str:
        """Tell what ``message``, ``width`` or ``local`` comes to."""
        chosen: str = getattr(self, name)
        return WAYS[self.variant][name] if chosen == "variant" else chosen

    def start(self, model: Model, seed: int) -> Start:
        inside, raw = self.way("message") == "inside", self.way("width") == "features"
        network = networks.VirtualGIN(
            **vars(model), virtual=self.nodes, inside=inside, raw=raw, generated=self.generator
        )
        rng = torch_rng("init", seed)
        return Start(network, network.init(rng), network.init_generator(rng))

    def state(self, clients: Clients) -> State:
        """Let every client draw a generator of its own."""
        device = clients.device
        for k in range(clients.count if self.generator else 0):
            for name, value in network_of(clients).init_generator(torch_rng(f"generator/{k}", clients.seed)).items():
                clients.personal[name].data[k] = value.to(device)
        local = torch.full((clients.count, self.nodes), 0.5, device=device)
        return State(local, torch_rng("fedvn-dropout", clients.seed, str(device)))

    def fit(self, clients: Clients, state: State, round: int, epochs: int) -> Tensor:
        """Train the generator for the epochs, then network and virtual nodes for as many."""
        if self.generator:
            self.fit_generator(clients, state, epochs)
        network, rest = network_of(clients), dict(clients.params)
        virtual = {"Q1": rest.pop("Q1")}

        def loss(step: LocalStep) -> Tensor:
            with torch.no_grad():
                scores = network.scores(clients.personal, inside(step))
            outputs = network.predict(clients.params, inside(step), scores, state.dropout)
            apart = correlation(clients.params["Q1"])
            state.traced |= {"scores": scores.mean(), "decoupling": apart.detach().mean()}
            return step.task_loss(outputs) + self.decoupling * apart

        optimisers = [
            clients.optimiser_of("network", rest),
            clients.optimiser_of("nodes", virtual, self.nodes_rate),
        ]
        return steps.descend(clients.steps(epochs), loss, optimisers)

    def fit_generator(self, clients: Clients, state: State, epochs: int) -> None:
        """Train the generator in phase 1: network and virtual nodes stay as they came down."""
        network, fixed = network_of(clients), {name: value.detach() for name, value in clients.params.items()}
        if self.way("local") == "all":
            with torch.no_grad():
                everything = cast("GraphsView", clients.inputs.train)
                now = mean_totals(everything, network.scores(clients.personal, everything), state.local)
            there = torch.from_numpy(clients.takes_part).to(now.device).unsqueeze(1)
            state.local = torch.where(there, now, state.local)

        def loss(step: LocalStep) -> Tensor:
            view = inside(step)
            scores = network.scores(clients.personal, view, state.dropout)
            near = step.mean(contrastive(view.totals(scores), state.local, self.tau))
            state.traced["contrast"] = near.detach().mean()
            if self.way("local") == "batch":
                state.local = mean_totals(view, scores.detach(), state.local)
            return step.task_loss(network.predict(fixed, view, scores)) + self.contrast * near

        optimiser = clients.optimiser_of("generator", clients.personal, self.generator_rate)
        steps.descend(clients.steps(epochs), loss, [optimiser])

    def trace(self, clients: Clients, state: State) -> dict[str, Tensor]:
        """Return mean weight of a link and losses at the last batch, and the length of the virtual nodes."""
        return {**state.traced, "virtual": clients.params["Q1"].flatten(1).norm(dim=1).mean()}

    def details(self, trained: Params) -> dict[str, Any]:
        """Return the cosine of every two virtual nodes (Figures 4 and 5); none of a single one."""
        if self.nodes == 1:
            return {}
        return {"cosines": [[round(value, 6) for value in line] for line in cosines(trained["Q1"]).tolist()]}


def network_of(clients: Clients) -> VirtualGIN:
    """Return the network that ``start`` has built."""
    return cast("VirtualGIN", clients.model)


def inside(step: LocalStep) -> GraphsView:
    """Return what is inside the graphs of a step."""
    return cast("GraphsView", step.view)


def mean_totals(view: GraphsView, scores: Tensor, before: Tensor) -> Tensor:
    """Average the sums of ``scores`` ``[n, M]`` over each client's graphs, ``[K, M]``; ``before`` where it has none."""
    totals = view.totals(scores).sum(1) / view.counts.clamp_min(1).unsqueeze(1)
    return torch.where(view.counts.unsqueeze(1) > 0, totals, before)


def contrastive(totals: Tensor, local: Tensor, tau: float) -> Tensor:
    """Compute L_E of each graph, equation 8, ``[K, r]``.

    Args:
        totals: s_i, ``[K, r, M]``.
        local: s_local, ``[K, M]``.
    """
    similar = torch.nn.functional.cosine_similarity
    to_global = similar(totals, torch.ones_like(totals), dim=2)
    to_local = similar(totals, local.unsqueeze(1), dim=2)
    return torch.nn.functional.softplus((to_global - to_local) / tau)


def correlation(virtual: Tensor) -> Tensor:
    """Compute L_V, equation 7, ``[K]`` from ``[K, M, D]``; 0, without gradient, where all virtual nodes are 0.

    A single node is correlated with itself alone: 1, without the gradient that rounding would leave of it.
    """
    if virtual.shape[1] == 1:
        return virtual.new_ones(len(virtual))
    centred = virtual - virtual.mean(2, keepdim=True)
    unit = torch.nn.functional.normalize(centred, dim=2)
    return torch.bmm(unit, unit.transpose(1, 2)).square().mean((1, 2))


def cosines(virtual: Tensor) -> Tensor:
    """Compute the cosine of every two virtual nodes, ``[M, M]`` from ``[K, M, D]``: the mean of the clients'.

    All clients have the same virtual nodes where the server's model is judged. With a node that is 0 it is 0.
    """
    unit = torch.nn.functional.normalize(virtual, dim=2)
    return torch.bmm(unit, unit.transpose(1, 2)).mean(0)
