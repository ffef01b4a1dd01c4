"""FedSage+: clients learn to generate the neighbours they lost to other clients, mend their graphs, then run FedAvg.

Paper: Zhang et al., "Subgraph Federated Learning with Missing Neighbor Generation", NeurIPS 2021. Phase 1, once: a
client hides a share of its nodes and trains NeighGen on the rest: z_v from an encoder, n~_v (dGen) against the number
n_v of hidden neighbours, vectors x~_v^p (fGen, from z_v plus noise) against the hidden neighbours' features,

    L^d = mean_v smoothL1(n~_v - n_v),   L^f = mean_v sum_{p <= n~_v} min_{u hidden, u in N(v)} |x~_v^p - x_u|^2   (4)
    L   = a L^d + b L^f + c L^c, L^c the cross-entropy of an inner classifier on the graph mended so far           (5)
    L^f += alpha mean_v sum_{p <= n~_v} sum_{j other clients} min_{u in V_j} |x~_v^p - x_u|^2                      (6)

and hangs n~_v generated neighbours on each node. Phase 2: uniform FedAvg of GraphSAGE; training nodes are embedded in
the mended graphs, validation and all probes in the real ones, where the paper tests.

Variants, where the paper and its code (zkhku/fedsage at 5b3429a) part:
                        paper                                       release
    networks            GraphSAGE                                   x W averaged with the node's own; ReLU on logits
    hidden              share h of all nodes                        share h, within the 20 % of nodes kept for it
    L^d, L^f over       a new sample of ``nodes`` every epoch       a random 60 % of the nodes, fixed
    L^f                 sum of squares, all hidden neighbours       divided by P d, the first P of them
    term (6)            all slots; nearest of all V_j               nodes with n_v > 0; nearest of min(n_v, P) drawn
                                                                    neighbours of a random node of j, new every epoch
    what (6) moves      all of NeighGen, by a L^d + b L^f; the      fGen alone, by (b L^f + c L^c + b (6)) / K; the rest
                        gradient of (6) stops at fGen's input       is frozen and without dropout
    sent in phase 1     noisy z, chosen slots, fGen, to others;     raw features of the drawn neighbours
                        gradients back, summed by the server
    n~_v                rounded                                     truncated
    which of P slots    a random choice every epoch                 the first
    mended              the whole graph, without dropout            nodes that were left; fGen's dropout stays on
    dGen's bias starts  at the mean of n_v                          at random

Both: a warm-up on (5) at home (Algorithm 1 has none: ``warmup=0``), a new Adam for (6), counts capped at P, tanh and
the widths of the code (the paper gives none), a stream of its own for every client's generator. The owner draws noise
and choice and sends them along, so that all clients judge the same vectors in (6). Of dGen: started at random, its
rectified output is zero for every node of some clients when features are small (row-normalised), and then stays there;
the paper is silent on the start, the code has this.

``shared``: one generator for all, the mean of the clients' after every epoch on (5), without (6) (Table D2).

Left out: labels shifted past hidden nodes, and labels of test nodes, in the code's L^c (here: training nodes); one Adam
shared by all clients; sampled neighbours in phase 1. Splits, batches, rounds and repetitions are the protocol's, widths
and sampled neighbours of the classifier the model's, Louvain the partitioner's. Neither z nor gradients are protected.

Generators depend on other clients through features alone, never on each other: they are trained in groups that fit in
memory, since the last layer of one has 2048 x P d weights (38 million on CiteSeer).
FedLoG prints 1543.58 MB for CiteSeer, 100 rounds, both ways: 1,929,478 numbers a model, exactly two GraphSAGE encoders
(128, 64) and one classifier. So there an encoder of the generator seems to travel with the classifier every round; by
FedSage's paper, and here, the classifier alone does, and phase 1 (``setup``) sends far more than all rounds.
FedLoG's tables trained it as FedLoG, on batches of 64 at 0.001 (protocol fedlog_matched, results/fedlog/FINDINGS.md).
Tables: FedLoG 1, 2, 5, 6, 9; FedSage 2, D1-D4, Figures 3-5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fgl_repro import nn
from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import lazy, torch
from fgl_repro.core.streams import numpy_rng, torch_rng
from fgl_repro.fl import optim
from fgl_repro.fl.messages import Exchange, Message
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.fedsageplus import mending, neighgen
    from fgl_repro.methods.fedsageplus.mending import Impaired, MendedGraph
    from fgl_repro.methods.fedsageplus.neighgen import NeighGen, Others, Pool
    from fgl_repro.nn import Draws, Neighbours
    from fgl_repro.nn.models.model import Params
    from fgl_repro.nn.view import View
else:
    mending = lazy("fgl_repro.methods.fedsageplus.mending")
    neighgen = lazy("fgl_repro.methods.fedsageplus.neighgen")

GROUP_BYTES = 1 << 30
"""What weights, moments and gradients of the generators trained together may take."""

FGEN = ("F1", "f1", "F2", "f2", "F3", "f3")
CLASSIFIER = ("C1", "c1", "C2", "c2")


@dataclass
class Cooperation(Message):
    """Phase 1, bytes of each field: sums over its epochs, means over clients."""

    sizes: dict[str, float]

    def bytes_by_field(self) -> dict[str, int]:
        return {name: round(size) for name, size in self.sizes.items()}


@dataclass
class Bench:
    """Some clients at work on their generators.

    Attributes:
        clients: Which.
        net: The architecture.
        params: Their generators ``[G, ...]``.
        impaired: What they learn from; the paper's losses see other nodes of it in every epoch.
        others: Features of all clients: their own as targets of L^f, others' in term (6) alone.
        draws: Noise, dropout and choice of slots.
        picks: Choice of neighbours of other clients (release).
        shown: Rows sent for term (6) in all epochs: noisy z (paper) or features of others (release).
        curve: Mean L^d and L^f of these clients, by epoch.
    """

    clients: range
    net: NeighGen
    params: Params
    impaired: Impaired
    others: Others
    draws: Draws
    picks: list[np.random.Generator]
    shown: int = 0
    curve: list[list[float]] = field(default_factory=list)


@dataclass
class Mended:
    """What phase 1 leaves: mended graphs, and mean L^d and L^f of all clients by epoch ``[epochs, 2]``."""

    graph: MendedGraph
    curve: np.ndarray


@dataclass
class FedSagePlus(FedAvg):
    name: ClassVar[str] = "fedsageplus"
    display: ClassVar[str] = "FedSage+"
    variants: ClassVar[tuple[str, ...]] = ("paper", "release")
    shares_features: ClassVar[bool] = True
    models: ClassVar[tuple[str, ...]] = ("sage", "sage_halves")
    federated: ClassVar[bool] = True
    quick: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"hidden": 0.2, "generator_epochs": 2, "generator_lr": 0.01, "fgen_inner": 8, "fgen_outer": 16}
    )

    variant: str = "paper"
    hidden: float = 0.1
    num_pred: int = 5
    nodes: int = 256
    warmup: int = 20
    generator_epochs: int = 20
    generator_lr: float = 1e-3
    generator_decay: float = 1e-4
    generator_dropout: float = 0.5
    alpha: float = 1.0
    a: float = 1.0
    b: float = 1.0
    c: float = 1.0
    encoder: int = 32
    latent: int = 128
    fgen_inner: int = 256
    fgen_outer: int = 2048
    shared: bool = field(default=False, metadata={"added": True})

    def check(self) -> None:
        super().check()
        most, where = (0.9, "") if self.written else (0.2, " by the release, which keeps 20 % of the nodes for it")
        if not 0 < self.hidden <= most:
            raise UserError(
                f"method.hidden={self.hidden} cannot be hidden{where}: choose a share above 0, up to {most}."
            )
        self.at_least(1, "num_pred", "nodes", "encoder", "latent", "fgen_inner", "fgen_outer")
        self.at_least(0, "warmup", "generator_epochs", "generator_lr", "generator_decay", "alpha", "a", "b", "c")
        if not 0 <= self.generator_dropout < 1:
            raise UserError(f"method.generator_dropout={self.generator_dropout} must lie in [0, 1).")

    @property
    def written(self) -> bool:
        """Whether the method runs as the paper writes it."""
        return self.variant == "paper"

    @property
    def at_home(self) -> bool:
        """Whether all epochs of the generators are on (5) alone."""
        return self.shared or not self.federated

    def share(self, clients: Clients) -> Tensor:
        return torch.ones_like(clients.samples)

    def begin(self, clients: Clients) -> Exchange:
        graph, device, seed = clients.world.graph, clients.samples.device, clients.seed
        sizes = (self.encoder, self.latent, (self.fgen_inner, self.fgen_outer), self.generator_dropout)
        net = neighgen.NeighGen(
            clients.model.num_features, clients.model.num_classes, self.written, self.num_pred, *sizes
        )
        hidden, judged = self.hide(graph, seed)
        others = neighgen.Others(graph.base.features[graph.node], graph.ptr, device)
        together = max(GROUP_BYTES // (5 * 4 * net.numbers()), 1)  # weights, two moments, two gradients
        together = clients.count if self.shared else together
        found, shown, curve = [], 0, np.zeros((self.warmup + self.generator_epochs, 2))
        for first in range(0, clients.count, together):
            group = range(first, min(first + together, clients.count))
            bench = Bench(
                clients=group,
                net=net,
                params=net.start([torch_rng(f"neighgen-init/{k}", seed) for k in group], device),
                impaired=mending.Impaired.of(
                    clients.world, group, hidden, judged, None if self.written else self.num_pred, device
                ),
                others=others,
                draws=nn.Draws([torch_rng(f"neighgen/{k}", seed, str(device)) for k in group]),
                picks=[numpy_rng(f"neighgen/{k}", seed) for k in group],
            )
            if self.written:  # a rectified unit that starts below zero everywhere would stay there
                bench.params["d1"].data.copy_(bench.impaired.mean_missing().unsqueeze(1))
            self.warm_up(bench)
            if not self.at_home:
                self.cooperate(bench, graph)
            found.append(self.mend(bench, graph))
            shown += bench.shown
            curve += np.reshape(bench.curve, curve.shape) * len(group) / clients.count
            del bench  # before the next group's generators are made
        parents, features = (np.concatenate(parts) for parts in zip(*found, strict=True))
        mended = mending.MendedGraph(graph, mending.Generated.of(parents, features, self.num_pred))
        if not clients.sampled:  # batches are drawn from the mended graph, see ``neighbours``
            clients.train = mended.view(clients.world.train, device)
        clients.state = Mended(mended, curve)
        return self.exchanged(net, clients.count, shown)

    def batch_view(self, clients: Clients, rows: np.ndarray) -> View:
        view: View = clients.state.graph.view(rows, clients.views.device)
        return view

    def neighbours(self, clients: Clients) -> Neighbours:
        neighbours: Neighbours = clients.state.graph.neighbours(clients.views.device)
        return neighbours

    def hide(self, graph: UnionGraph, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Hidden nodes, and nodes that L^d and L^f judge if they are left, bool ``[N]`` each."""
        hidden, judged = (np.zeros(graph.num_nodes, dtype=bool) for _ in range(2))
        for k in range(graph.num_clients):
            low, high = graph.ptr[k], graph.ptr[k + 1]
            order = low + numpy_rng(f"neighgen-hide/{k}", seed).permutation(high - low)
            hidden[order[len(order) - max(round(self.hidden * len(order)), 1) :]] = True
            judged[order if self.written else order[: round(0.6 * len(order))]] = True
        return hidden, judged

    # --- training -----------------------------------------------------------------------------------------------------

    def warm_up(self, bench: Bench) -> None:
        """Every generator at home, on Equation (5); a shared one is the mean of them after each of all epochs."""
        adam = optim.StackedAdam(bench.params, self.generator_lr, self.generator_decay)
        for _ in range(self.warmup + self.at_home * self.generator_epochs):
            pool, estimate = self.generate(bench, bench.draws)
            loss = self.home_loss(bench, pool, estimate) + self.c * self.label_loss(bench, pool, bench.draws)
            adam.step(gradients(loss, adam.params))
            if self.shared:
                for value in bench.params.values():
                    value.data.copy_(value.data.mean(0, keepdim=True).expand_as(value))

    def cooperate(self, bench: Bench, graph: UnionGraph) -> None:
        """The federated epochs, with term (6)."""
        moved = [name for name in bench.params if (name not in CLASSIFIER if self.written else name in FGEN)]
        adam = optim.StackedAdam({name: bench.params[name] for name in moved}, self.generator_lr, self.generator_decay)
        for _ in range(self.generator_epochs):
            pool, estimate = self.generate(bench, bench.draws if self.written else None)
            loss = self.home_loss(bench, pool, estimate)
            if self.written:
                returned = dict(zip(FGEN, returned_gradients(bench, pool), strict=True))
                own = zip(moved, gradients(loss, adam.params), strict=True)
                step = [g.add_(returned[n], alpha=self.b * self.alpha) if n in returned else g for n, g in own]
                bench.shown += int(pool.parents.sum())
            else:
                loss = (
                    loss
                    + self.c * self.label_loss(bench, pool, None)
                    + self.b * self.alpha * self.drawn_loss(bench, pool, graph)
                )
                step = gradients(loss / graph.num_clients, adam.params)
            adam.step(step)

    def generate(self, bench: Bench, draws: Draws | None) -> tuple[Pool, Tensor]:
        """Generated neighbours and n~_v ``[n]`` of the impaired graphs; ``draws`` turn on the encoder's dropout."""
        net, local = bench.net, bench.impaired.local
        z = net.encode(bench.params, local, draws)
        estimate = net.count(bench.params, local, z)
        counts = self.counts(estimate, self.written)
        if self.written:
            bench.impaired = bench.impaired.sampled(self.nodes, bench.draws)
            counts = counts * (bench.impaired.weight > 0)
        pool = net.generate(bench.params, local, z, counts, bench.draws, drop=True, sample=self.written)
        return pool, estimate

    def counts(self, estimate: Tensor, rounded: bool) -> Tensor:
        """n~_v as a number of neighbours, rounded or truncated, int64 ``[n]``."""
        whole = estimate.detach().round() if rounded else estimate.detach().trunc()
        return whole.clamp(0, self.num_pred).long()

    def home_loss(self, bench: Bench, pool: Pool, estimate: Tensor) -> Tensor:
        """a L^d + b L^f ``[G]``; both are noted in the curve."""
        impaired = bench.impaired
        of_counts = impaired.count_loss(estimate)
        of_features = self.scaled(
            bench, impaired.feature_loss(pool, bench.others.rows, impaired.candidates, impaired.start)
        )
        bench.curve.append([float(of_counts.detach().mean()), float(of_features.detach().mean())])
        return self.a * of_counts + self.b * of_features

    def scaled(self, bench: Bench, loss: Tensor) -> Tensor:
        """The release divides L^f by the size of the pool and the number of features."""
        return loss if self.written else loss / (self.num_pred * bench.net.num_features)

    def label_loss(self, bench: Bench, pool: Pool, draws: Draws | None) -> Tensor:
        """L^c ``[G]`` of the inner classifier on the graph mended with ``pool``."""
        return bench.impaired.label_loss(bench.net.classify(bench.params, bench.impaired.local, pool, draws))

    def drawn_loss(self, bench: Bench, pool: Pool, graph: UnionGraph) -> Tensor:
        """The release's term (6) ``[G]``: neighbours of random nodes of every other client stand in for hidden ones."""
        impaired, nodes = bench.impaired, bench.impaired.targeted
        start = torch.zeros_like(impaired.start)
        start[nodes] = torch.arange(len(nodes), device=nodes.device) * self.num_pred
        total = torch.zeros_like(bench.params["d1"][:, 0])
        for ahead in range(1, graph.num_clients):
            owners = [(k + ahead) % graph.num_clients for k in bench.clients]
            drawn = impaired.strangers(graph, owners, self.num_pred, bench.picks)
            total = total + self.scaled(bench, impaired.feature_loss(pool, bench.others.rows, drawn, start))
            bench.shown += int(impaired.count[nodes].sum())
        return total

    def mend(self, bench: Bench, graph: UnionGraph) -> tuple[np.ndarray, np.ndarray]:
        """Parents (union nodes) ``[S]`` and features ``[S, d]`` of what is hung on the clients' graphs."""
        net, params, device = bench.net, bench.params, bench.others.rows.device
        local, nodes = bench.impaired.local, bench.impaired.nodes
        tidy = self.written or not self.federated
        if self.written:
            local = mending.locals_of(graph, bench.clients, device)
            nodes = np.arange(graph.ptr[bench.clients[0]], graph.ptr[bench.clients[-1] + 1])
        with torch.no_grad():
            z = net.encode(params, local, None)
            counts = self.counts(net.count(params, local, z), tidy)
            pool = net.generate(params, local, z, counts, bench.draws, drop=not tidy, sample=self.written)
        return nodes[pool.parent.cpu().numpy()], pool.features.cpu().numpy()

    # --- what it cost and what it made --------------------------------------------------------------------------------

    def exchanged(self, net: NeighGen, clients: int, shown: int) -> Exchange:
        """Bytes of phase 1.

        Args:
            shown: ``Bench.shown`` of all clients together.
        """
        if clients == 1 or not self.federated:
            return Exchange()
        if self.shared:
            size = 4.0 * sum(value.numel() for value in net.init(torch_rng("neighgen-init", 0)).values())
            whole = Cooperation({"generator": size * (self.warmup + self.generator_epochs)})
            return Exchange(up=whole, down=whole)
        rows, others = shown / clients, clients - 1
        if not self.written:
            features = {"features": 4.0 * rows * net.num_features}
            return Exchange(up=Cooperation(features), down=Cooperation(features))
        weights = 4.0 * net.numbers() * self.generator_epochs
        sent = {"noisy_z": 4 * rows * self.latent, "choices": rows * self.num_pred, "generator": weights}
        return Exchange(
            up=Cooperation({**sent, "gradients": weights * others}),
            down=Cooperation({name: size * others for name, size in sent.items()} | {"gradients": weights}),
        )

    def facts(self, clients: Clients) -> dict[str, Any]:
        """Generated neighbours of each client; mean L^d and L^f in every epoch of phase 1; Table D1's distances."""
        state, graph = clients.state, clients.world.graph
        made = state.graph.generated
        generated = np.bincount(graph.owner[made.parent], minlength=clients.count)
        of_counts, of_features = state.curve.T.round(6).tolist()
        told = {"generated": generated.tolist(), "count_loss": of_counts, "feature_loss": of_features}
        return told | {"distance": mending.distances(state.graph)}


def gradients(loss: Tensor, params: list[Tensor]) -> list[Tensor]:
    """Of each client's own loss ``[G]`` with respect to its own tensors; zero where the loss does not reach."""
    return list(torch.autograd.grad(loss.sum(), params, allow_unused=True, materialize_grads=True))


def returned_gradients(bench: Bench, pool: Pool) -> list[Tensor]:
    """Gradient of term (6) with respect to fGen, as the server sends it: summed over the other clients."""
    made = pool.features
    pull = torch.zeros_like(made)
    for g, k in enumerate(bench.clients):
        own = slice(pool.ptr[g], pool.ptr[g + 1])
        pull[own] = bench.others.pull(made[own].detach(), k)
    pull *= bench.impaired.weight[pool.parent].unsqueeze(1)
    return list(torch.autograd.grad(made, [bench.params[name] for name in FGEN], pull, retain_graph=True))
