"""FedTAD: the mean of the clients' models learns on, from graphs that the server makes up, what each client knows best.

Paper: Zhu et al., "FedTAD: Topology-aware Data-free Knowledge Distillation for Subgraph Federated Learning", IJCAI
2024; released code of April 2024. Its formulas are taken from the code, for we had the paper's prose alone.

    client   once: reliability of class c, the sum over its training nodes i of
             r_i = (1 + sum_{j in N(i)} cos(e_i, e_j)) / (|N(i)| + 1),  e_i = [x_i | t_i], t_i an embedding of topology
    server   theta <- sum_k n_k / N theta_k over all nodes, then ``epochs`` times, with w_k(c) client k's share of the
             reliabilities of class c, f_k the clients' models and f the server's:
             generator  min  L_sem + L_div - L_dis,  L_sem = sum_k sum_c w_k(c) CE(f_k(G) on the nodes of c, c)
                        L_div = sum_k exp(-mean_ab(mean (z_a - z_b)^2 mean |x_a - x_b|))
             server     min  L_dis = sum_k sum_c w_k(c) mean |f(G) - f_k(G)| over nodes of c and logits, five steps

G has 100 nodes, in blocks of classes; each is linked with the four nearest by cosine. Noise is drawn in each epoch;
generator and both Adams go on from round to round.

Variants, by the embedding of topology:
    paper    t_i = [T_ii, ..., T^5_ii], T = A D^-1: the chances that a random walk is back after 1 to 5 steps
    release  numbers of the nodes on five walks that in the released code go nearly anywhere, for its T is diagonal;
             they outweigh all features. Dropout (``model.dropout``) is on in teachers and when the generator learns

Known differences from the released code: a class that no client trains on is shared equally (there: not a number);
teachers are asked once a step, not once for each loss; its dropout stays on in tests, not here; what it calls
rep_distill (the generator makes hidden values) is not there. OpenFGL's FedTAD divides each client's reliabilities by
their sum over classes first; here, as in the authors' code, they are shared among clients class by class as they are.
The server must see single models, so that secure aggregation is none for it.
On Cora O-pFGL's numbers come back with 100 local epochs, which validation prefers to 20; on PubMed printed numbers are
far lower, as FedAvg's are, and a small rate of fine-tuning leads there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fgl_repro.core.lazy import lazy, torch
from fgl_repro.fl.messages import Message
from fgl_repro.fl.mixing import class_shares
from fgl_repro.fl.phase import Phase, Turn
from fgl_repro.methods.generated.method import DistilledOnGenerated, Distiller

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl.clients import Clients

reliability, server = (lazy(f"fgl_repro.methods.fedtad.{name}") for name in ("reliability", "server"))


@dataclass
class Reliability(Message):
    """The reliability of each class at each client, ``[K, C]``."""

    reliability: Tensor


@dataclass
class State:
    """What clients sent before the rounds, and who distils."""

    sent: Reliability
    server: Distiller


@dataclass
class FedTAD(DistilledOnGenerated[State]):
    """Attributes:
    student_steps: Steps of the server's model in a turn.
    weight_decay: Weight decay of generator and server's model.
    known, diverse: Weights of L_sem and L_div.
    """

    name: ClassVar[str] = "fedtad"
    display: ClassVar[str] = "FedTAD"
    variants: ClassVar[tuple[str, ...]] = ("paper", "release")
    least: ClassVar[dict[str, float]] = {
        **DistilledOnGenerated.least,
        **{"student_steps": 1, "weight_decay": 0, "known": 0, "diverse": 0},
    }
    quick: ClassVar[dict[str, Any]] = {"nodes": 16, "epochs": 2}

    variant: str = "paper"
    student_steps: int = 5
    weight_decay: float = 5e-4
    known: float = 1.0
    diverse: float = 1.0

    def state(self, clients: Clients) -> State:
        self.check_nodes(clients)
        graph = clients.world.graph
        walks = self.variant == "release"
        topology = reliability.visited(graph, clients.seed) if walks else reliability.return_probabilities(graph)
        found = torch.from_numpy(reliability.reliability(clients.world, topology)).to(clients.device)
        return State(Reliability(found), server.FedTADServer(self, clients, class_shares(found)))

    def phases(self, clients: Clients, state: State) -> Iterable[Phase]:
        yield Phase.once("reliability", Turn(up=state.sent))

    def distiller(self, state: State) -> Distiller:
        return state.server

    def share(self, clients: Clients) -> Tensor:
        return clients.nodes
