"""GHOST: clients send generators of graphs like theirs; a server's model learns from these, one client after the other.

Paper: Qian et al., "GHOST: Generalizable One-Shot Federated Graph Learning with Proxy-Based Topology Knowledge
Retention", ICML 2025 (its text was not at hand: from its abstract and the released code, which lacks a file and cannot
run). With x_i the features of training node i and x~_i what the generator makes of noise and the node's label:

    client   mean_i [``distributed`` KL(softmax x_i || softmax x~_i) + 1 - cos(x_i, x~_i)] + ``aligned`` FGW, where FGW
             is the fused Gromov-Wasserstein distance of real and generated training nodes, half of it features
    server   for each client in random order, ``graphs`` times: as many nodes as it has, classes balanced, linked with
             their nearest; I = gradient of sum e_ij^2 over links, e_ij = (h_i W)(tanh h_j W), h the first layer's
             output and W its weights; ``server_steps`` of CE + ``retention`` sum_q |I_q| (theta - theta_q)^2, q earlier

The model comes down once and is fine-tuned where the protocol says so. Phases: ``proxies`` (clients), ``integration``
(server), then a round in which nobody trains.

Variants:
    release  the code as it is: generated nodes are linked with nobody (rounding down leaves the identity), so that FGW
             aligns with no structure; generators drop out at the server, too; I holds the gradient that the step before
             has left.
    paper    links of nearest neighbours at the clients, and each real node linked with itself in FGW, as generated ones
             are; no dropout at the server; I alone.

Known differences: couplings of FGW come from proximal steps for all clients at once, which stop before the least
distance; ``couplings=conditional`` has the conditional gradients of the solver that the code calls, client by client.
Generators see training nodes and their labels alone: those of the others, which the code feeds in, have no part in any
loss but by their links. The norm of I, a constant in the loss, is left out, and a node's link to itself, which the code
counts twice in I, counts once. Generators start from the same weights, in the code each from its own. Hidden width 128
and dropout 0.3 are the code's; here the model is the configuration's. Better than O-pFGL prints; its fine-tuning
decides: results/opfgl/notes. Generators know no architecture, so another backbone changes the server alone: h and W are
those of its first layer as it is, neighbours and all (GraphSAGE: both maps one above the other; SGC: the only layer).
O-pFGL prints GHOST with GAT, and "N/A" with GraphSAGE and SGC, of which it does not say why: there h and W are our
reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fgl_repro.core.lazy import lazy
from fgl_repro.core.schema import added
from fgl_repro.fl.messages import Message, Weights
from fgl_repro.fl.phase import Phase, Turn
from fgl_repro.methods.phased import Phased

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl.clients import Clients
    from fgl_repro.nn import ops
    from fgl_repro.nn.models.model import Params
else:
    ops = lazy("fgl_repro.nn.ops")

integration, proxies = (lazy(f"fgl_repro.methods.ghost.{name}") for name in ("integration", "proxies"))

REPORTS = 10
"""Looks at the loss while generators train."""


@dataclass
class Proxy(Message):
    """Generators ``[K, ...]`` and clients' nodes, int64 ``[K]``."""

    generators: Params
    nodes: Tensor


@dataclass
class Ghost(Phased[None]):
    """Attributes:
    steps: Steps of the generators.
    lr_generator, lr_server, weight_decay: Learning rates of generators and server, and the weight decay of both.
    dropout: Dropout of the generators.
    distributed, aligned, structure: Weights of KL and of FGW in the loss, and of structure in FGW.
    neighbours: Nearest nodes that each is linked with, itself among them.
    graphs, server_steps: Graphs that the server makes with each client's generator, and steps on each.
    retention: Weight of what earlier graphs have taught.
    couplings: Found by ``proximal`` steps or by ``conditional`` gradients.
    """

    name: ClassVar[str] = "ghost"
    display: ClassVar[str] = "GHOST"
    variants: ClassVar[tuple[str, ...]] = ("release", "paper")
    models: ClassVar[tuple[str, ...]] = ("gcn2", "graphsage", "gat", "sgc")
    least: ClassVar[dict[str, float]] = {
        **dict.fromkeys(("steps", "neighbours", "graphs", "server_steps"), 1),
        **dict.fromkeys(("lr_generator", "lr_server", "weight_decay", "dropout", "distributed", "aligned"), 0),
        **dict.fromkeys(("structure", "retention"), 0),
    }
    below: ClassVar[dict[str, float]] = {"dropout": 1}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"couplings": ("proximal", "conditional")}
    quick: ClassVar[dict[str, Any]] = {"steps": 2, "graphs": 1}

    variant: str = "release"
    steps: int = 100
    lr_generator: float = 5e-3
    lr_server: float = 1e-2
    weight_decay: float = 4e-4
    dropout: float = 0.2
    distributed: float = 0.05
    aligned: float = 0.1
    structure: float = 0.5
    neighbours: int = 5
    graphs: int = 3
    server_steps: int = 5
    retention: float = 1e-11
    couplings: str = added("proximal")

    def phases(self, clients: Clients, state: None) -> Iterable[Phase]:
        training = proxies.Training(self, clients)
        every = -(-self.steps // REPORTS)

        def turn(number: int, going: object) -> Turn:
            done: Turn = training.turn(min(every, self.steps - number * every))
            return done

        yield Phase("proxies", -(-self.steps // every), turn)
        sent = Proxy({name: value.detach() for name, value in training.nets.items()}, clients.nodes.long())
        yield Phase.once("upload", Turn(up=sent))
        server = integration.GhostServer(self, clients, sent.generators)
        yield Phase("integration", clients.count, lambda number, _: server.turn(number), "server")
        learnt = ops.broadcast(server.params, clients.count)
        clients.load(learnt)
        yield Phase.once("download", Turn(down=Weights(learnt)), "server")
