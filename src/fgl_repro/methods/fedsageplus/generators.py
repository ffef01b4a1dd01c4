"""Phase 1 of FedSage+: the generators' training, at home and with the other clients, group by group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fgl_repro.core.streams import numpy_rng, torch_rng
from fgl_repro.fl.messages import Features, Message
from fgl_repro.fl.optim import StackedAdam
from fgl_repro.fl.phase import Turn
from fgl_repro.methods.fedsageplus.impaired import Impaired
from fgl_repro.methods.fedsageplus.mending import MendedGraph
from fgl_repro.methods.fedsageplus.neighgen import Locals, NeighGen, Others, Pool
from fgl_repro.nn.ragged import ClientStreams, client_sums

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.fedsageplus.method import FedSagePlus

GROUP_BYTES = 1 << 30
"""What weights, moments and gradients of the generators trained together may take."""

FGEN = ("F1", "f1", "F2", "f2", "F3", "f3")
CLASSIFIER = ("C1", "c1", "C2", "c2")


@dataclass
class Cooperation(Message):
    """What the generators of one epoch send, as bytes of each client, int64 ``[K]``; None where it does not travel.

    Attributes:
        generator: Weights of the feature generators.
        noisy_z: Embeddings with noise that others' generators are applied to (paper).
        choices: How many neighbours each of these generates (paper).
        gradients: Gradients of term (6), sent back to the generators' owners (paper).
    """

    generator: np.ndarray
    noisy_z: np.ndarray | None = None
    choices: np.ndarray | None = None
    gradients: np.ndarray | None = None


class GeneratorGroup:
    """The generators of some clients, which are trained together.

    A step takes the gradients of several losses with respect to different tensors, some of them sent back by others, on
    ragged rows: it is not the common training loop's. The loop over epochs is the phase's.

    Attributes:
        params: Their generators ``[G, ...]``.
        impaired: What they learn from; the paper's losses see other nodes of it in every epoch.
        others: Features of all clients: their own as targets of L^f, others' in term (6) alone.
        streams: Noise, dropout and choice of slots.
        picks: Choice of neighbours of other clients (release).
        rows: Rows that went over the wire for term (6) in the last epoch, for each of these clients int64 ``[G]``:
            noisy z that it sent (paper) or features of others that it got (release).
        losses: Mean L^d and L^f of these clients in the last epoch.
    """

    rows: np.ndarray
    losses: tuple[float, float]
    adam: StackedAdam

    def __init__(self, training: GeneratorTraining, who: range) -> None:
        self.rules, self.net, self.others, self.clients = training.rules, training.net, training.others, who
        world, device, seed = training.clients.world, training.clients.device, training.clients.seed
        self.graph, as_paper = world.graph, self.rules.as_paper
        self.params = self.net.start([torch_rng(f"neighgen-init/{k}", seed) for k in who], device)
        most = None if as_paper else self.rules.num_pred
        self.impaired = Impaired(world, who, training.hidden, training.judged, most, device)
        self.streams = ClientStreams([torch_rng(f"neighgen/{k}", seed, str(device)) for k in who])
        self.picks = [numpy_rng(f"neighgen/{k}", seed) for k in who]
        if as_paper:  # a rectified unit that starts below zero everywhere would stay there
            self.params["d1"].data.copy_(self.impaired.mean(self.impaired.missing).unsqueeze(1))

    def epoch(self, number: int) -> None:
        """Train for one epoch: on Equation (5) at home, then with term (6), for which a new Adam begins."""
        rules, home = self.rules, number < self.rules.epochs_at_home
        if number in (0, rules.epochs_at_home):
            moved = {
                n: p for n, p in self.params.items() if home or (n not in CLASSIFIER if rules.as_paper else n in FGEN)
            }
            self.adam = StackedAdam(moved, rules.generator_lr, rules.generator_decay)
        if home:
            self.at_home()
        else:
            self.cooperate()

    def at_home(self) -> None:
        """Train every generator on Equation (5); a shared one is the mean of them after each epoch."""
        pool, estimate = self.generate(self.streams, everywhere=self.rules.parents == "all")
        loss = self.home_loss(pool, estimate) + self.rules.c * self.label_loss(pool, self.streams)
        self.adam.step(gradients(loss, self.adam.params))
        if self.rules.shared:
            for value in self.params.values():
                value.data.copy_(value.data.mean(0, keepdim=True).expand_as(value))

    def cooperate(self) -> None:
        """Train for a federated epoch, with term (6)."""
        rules, adam = self.rules, self.adam
        pool, estimate = self.generate(self.streams if rules.as_paper else None)
        loss = self.home_loss(pool, estimate)
        if not rules.as_paper:
            of_labels, of_others = self.label_loss(pool, None), self.drawn_loss(pool)
            loss = loss + rules.c * of_labels + rules.b * rules.alpha * of_others
            adam.step(gradients(loss / self.graph.num_clients, adam.params))
            return
        returned = dict(zip(FGEN, self.returned_gradients(pool), strict=True))
        moved = [name for name in self.params if name not in CLASSIFIER]
        own = zip(moved, gradients(loss, adam.params), strict=True)
        adam.step([g.add_(returned[n], alpha=rules.b * rules.alpha) if n in returned else g for n, g in own])
        mended = torch.bincount(pool.parent, minlength=len(estimate)) > 0
        self.rows = client_sums(mended.long(), self.impaired.local.owner, len(self.clients)).cpu().numpy()

    def generate(self, streams: ClientStreams | None, everywhere: bool = False) -> tuple[Pool, Tensor]:
        """Generate neighbours and n~_v ``[n]`` of the impaired graphs.

        Args:
            streams: They turn on the encoder's dropout.
            everywhere: Whether nodes beside the epoch's sample (paper) get neighbours, too.
        """
        net, local, as_paper = self.net, self.impaired.local, self.rules.as_paper
        z = net.encode(self.params, local, streams)
        estimate = net.count(self.params, local, z)
        counts = self.counts(estimate, as_paper)
        if as_paper:
            self.impaired = self.impaired.sampled(self.rules.nodes, self.streams)
            counts = counts if everywhere else counts * (self.impaired.weight > 0)
        return net.generate(self.params, local, z, counts, self.streams, drop=True, sample=as_paper), estimate

    def counts(self, estimate: Tensor, rounded: bool) -> Tensor:
        """Turn n~_v into a number of neighbours, rounded or truncated, int64 ``[n]``."""
        whole = estimate.detach().round() if rounded else estimate.detach().trunc()
        return whole.clamp(0, self.rules.num_pred).long()

    def home_loss(self, pool: Pool, estimate: Tensor) -> Tensor:
        """Compute a L^d + b L^f ``[G]``; the means of both are noted."""
        impaired = self.impaired
        of_counts = impaired.count_loss(estimate)
        of_features = self.scaled(impaired.feature_loss(pool, self.others.rows, impaired.candidates, impaired.start))
        self.losses = float(of_counts.detach().mean()), float(of_features.detach().mean())
        return self.rules.a * of_counts + self.rules.b * of_features

    def scaled(self, loss: Tensor) -> Tensor:
        """Divide L^f, in the release, by the size of the pool and the number of features."""
        return loss if self.rules.as_paper else loss / (self.rules.num_pred * self.net.num_features)

    def label_loss(self, pool: Pool, streams: ClientStreams | None) -> Tensor:
        """Compute L^c ``[G]`` of the inner classifier on the graph mended with ``pool``."""
        return self.impaired.label_loss(self.net.classify(self.params, self.impaired.local, pool, streams))

    def drawn_loss(self, pool: Pool) -> Tensor:
        """Compute the release's term (6) ``[G]``.

        Neighbours of random nodes of every other client stand in for hidden ones.
        """
        impaired, nodes, graph, each = self.impaired, self.impaired.targeted, self.graph, self.rules.num_pred
        start = torch.zeros_like(impaired.start)
        start[nodes] = torch.arange(len(nodes), device=nodes.device) * each
        total = torch.zeros_like(self.params["d1"][:, 0])
        wanted = client_sums(impaired.count[nodes].double(), impaired.local.owner[nodes], len(self.clients))
        for ahead in range(1, graph.num_clients):
            owners = [(k + ahead) % graph.num_clients for k in self.clients]
            drawn = impaired.strangers(graph, owners, each, self.picks)
            total = total + self.scaled(impaired.feature_loss(pool, self.others.rows, drawn, start))
        self.rows = wanted.long().cpu().numpy() * (graph.num_clients - 1)
        return total

    def returned_gradients(self, pool: Pool) -> list[Tensor]:
        """Differentiate term (6) with respect to fGen, as the server sends it: summed over the other clients."""
        made = pool.features
        pull = torch.zeros_like(made)
        for g, k in enumerate(self.clients):
            own = slice(pool.ptr[g], pool.ptr[g + 1])
            pull[own] = self.others.pull(made[own].detach(), k)
        pull *= self.impaired.weight[pool.parent].unsqueeze(1)
        return list(torch.autograd.grad(made, [self.params[name] for name in FGEN], pull, retain_graph=True))

    def mend(self) -> tuple[np.ndarray, np.ndarray]:
        """Make what is hung on the clients' graphs: parents (union nodes) ``[S]`` and features ``[S, d]``."""
        net, params, graph, as_paper = self.net, self.params, self.graph, self.rules.as_paper
        tidy = as_paper or not self.rules.federated
        local = self.impaired.local
        if as_paper:
            local = Locals(graph, self.clients, np.zeros(graph.num_nodes, dtype=bool), self.others.rows.device)
        with torch.no_grad():
            z = net.encode(params, local, None)
            counts = self.counts(net.count(params, local, z), tidy)
            pool = net.generate(params, local, z, counts, self.streams, drop=not tidy, sample=as_paper)
        return local.nodes[pool.parent.cpu().numpy()], pool.features.cpu().numpy()


class GeneratorTraining:
    """All generators, trained group after group: one's last layer alone has 2048 x P d weights.

    Attributes:
        turns: How many epochs all groups have together.
        turns_left: The phase's rounds, an epoch of one group each.
    """

    def __init__(self, rules: FedSagePlus, clients: Clients, curve: np.ndarray) -> None:
        self.rules, self.clients, self.curve = rules, clients, curve
        graph, model = clients.world.graph, clients.model
        sizes = (rules.encoder, rules.latent, (rules.fgen_inner, rules.fgen_outer), rules.generator_dropout)
        self.net = NeighGen(model.num_features, model.num_classes, rules.as_paper, rules.num_pred, *sizes)
        self.hidden, self.judged = hide(rules, graph, clients.seed)
        self.others = Others(graph.base.features[graph.node], graph.ptr, clients.device)
        together = max(GROUP_BYTES // (5 * 4 * self.net.numbers()), 1)  # weights, two moments, two gradients
        together = clients.count if rules.shared else together
        self.groups = [range(k, min(k + together, clients.count)) for k in range(0, clients.count, together)]
        self.turns = len(curve) * len(self.groups)
        self.made: list[tuple[np.ndarray, np.ndarray]] = []
        self.turns_left = self.epochs()

    def epochs(self) -> Iterator[Turn]:
        """Yield turns of all epochs; a group hands over what it made, and frees its memory, before the next begins."""
        for who in self.groups:
            group = GeneratorGroup(self, who)
            for epoch, losses in enumerate(self.curve):
                group.epoch(epoch)
                losses += np.array(group.losses) * len(who) / self.clients.count
                values = dict(zip(("count_loss", "feature_loss"), group.losses, strict=True))
                yield Turn(values, *self.sent(group, epoch))
            self.made.append(group.mend())
            del group

    def mended(self) -> MendedGraph:
        """Hang on the clients' graphs what the generators of all groups make after their last epoch."""
        list(self.turns_left)  # where there are no epochs, no turn was taken
        parents, features = (np.concatenate(parts) for parts in zip(*self.made, strict=True))
        return MendedGraph(self.clients.world.graph, parents, features, self.rules.num_pred)

    def sent(self, group: GeneratorGroup, epoch: int) -> tuple[Message | None, Message | None]:
        """Return what every client sent and received in an epoch of a group."""
        clients, rules = self.clients.count, self.rules
        if clients == 1 or not rules.federated or (epoch < rules.epochs_at_home and not rules.shared):
            return None, None
        member, rows = np.zeros((2, clients), dtype=np.int64)
        member[group.clients] = 1
        if rules.shared:
            whole = Cooperation(
                member * sum(value[0].numel() * value.element_size() for value in group.params.values())
            )
            return whole, whole
        rows[group.clients] = group.rows
        if not rules.as_paper:
            size = 4 * self.net.num_features  # each of the others gives a client equally many
            return Features(size * from_others(rows) // (clients - 1)), Features(size * rows)
        fgen, z, choices = 4 * self.net.numbers() * member, 4 * rules.latent * rows, rules.num_pred * rows
        up = Cooperation(fgen, z, choices, from_others(fgen))
        return up, Cooperation(from_others(fgen), from_others(z), from_others(choices), fgen)


def from_others(sizes: np.ndarray) -> np.ndarray:
    """Tell what each client gets if everybody's ``sizes`` ``[K]`` go to all others."""
    return np.asarray(sizes.sum() - sizes)


def hide(rules: FedSagePlus, graph: UnionGraph, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw hidden nodes, and nodes that L^d and L^f judge if they are left, bool ``[N]`` each."""
    hidden, judged = (np.zeros(graph.num_nodes, dtype=bool) for _ in range(2))
    for k in range(graph.num_clients):
        low, high = graph.ptr[k], graph.ptr[k + 1]
        order = low + numpy_rng(f"neighgen-hide/{k}", seed).permutation(high - low)
        hidden[order[len(order) - max(round(rules.hidden * len(order)), 1) :]] = True
        judged[order if rules.as_paper else order[: round(0.6 * len(order))]] = True
    return hidden, judged


def gradients(loss: Tensor, params: list[Tensor]) -> list[Tensor]:
    """Differentiate each client's own loss ``[G]`` by its own tensors; zero where the loss does not reach."""
    return list(torch.autograd.grad(loss.sum(), params, materialize_grads=True))
