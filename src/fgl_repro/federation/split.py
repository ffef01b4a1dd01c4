"""The role of each node: training, validation or test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import torch
from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.catalog import facts

TRAIN, VALIDATION, TEST = 0, 1, 2
UNUSED = 3  # neither trained on nor measured: of no client, or thinned out of the training nodes

Ratios = tuple[float, float, float]
RoleSource = Literal["stream", "fedpub", "opfgl", "openfgl", "partitioner"]

BY_CLASS = ("opfgl", "openfgl")
"""Sources that draw roles at each client and for each class."""
PUBLISHED = 42, (0.2, 0.4, 0.4)
"""Seed and shares of the roles that O-pFGL's partitions are published with."""

ORDER = ("cora", "citeseer", "pubmed")
"""Data sets of FED-PUB's released generators, in turn."""
COUNTS = {False: (5, 10, 20), True: (10, 30, 50)}
"""Their client counts, by whether clients share nodes."""


@dataclass(frozen=True)
class Split:
    """How a world is drawn: who trains, validates and tests, and the seed of that and of all else that is drawn.

    Attributes:
        ratios: Shares of training, validation and test nodes; they sum to 1.
        seed: Seed of the roles, of cropped or thinned nodes, of parts that are drawn at random.
        source: Who draws the roles: ``stream``, we; ``fedpub``, that paper's released generator; ``opfgl`` or
            ``openfgl``, we, but client by client and class by class, with the one or the other code's rounding;
            ``partitioner``, the partitioner together with the parts.
    """

    ratios: Ratios
    seed: int
    source: RoleSource = "stream"

    def __post_init__(self) -> None:
        """Refuse shares that are no three, no whole, or leave nothing to train on, and seeds that torch cannot hold."""
        if self.source == "fedpub" and self.seed >= 2**63:
            raise UserError(f"protocol.split_source=fedpub draws by the seed {self.seed}, which must be below 2^63.")
        shares = list(self.ratios)
        if len(shares) != 3 or not math.isclose(sum(shares), 1, abs_tol=1e-6) or min(shares) < 0 or not shares[0]:
            raise UserError(
                f"protocol.split={shares} must be three shares (train, validation, test) that sum to 1, "
                "with train above 0."
            )

    def roles(self, name: str, num_nodes: int, clients: int, overlapping: bool) -> np.ndarray:
        """Draw the role of each of the N nodes of graph ``name`` (``TRAIN``, ``VALIDATION``, ``TEST``), int8 ``[N]``.

        Roles are drawn once over the whole graph, before any partition (FED-PUB's generator, which FedLoG reuses). In
        one random order the first round(r_train N) nodes train, the next round(r_test N) test, the rest validate.
        Shares therefore fluctuate from client to client and class to class, as in the published split tables. The
        released generator permutes the nodes anew for each client count, with torch; see :func:`turns_before`.

        Args:
            clients: Number of clients, which the released generator draws by.
            overlapping: Whether they share nodes; so is this.
        """
        if self.source == "stream":
            order = numpy_rng("split", self.seed).permutation(num_nodes)
        else:
            rng = torch.Generator().manual_seed(self.seed)
            for other, _ in turns_before(name, clients, overlapping):
                torch.randperm(num_nodes if other == name else facts(other).nodes, generator=rng)
            order = torch.randperm(num_nodes, generator=rng).numpy()
        train, _, test = self.ratios
        first = round(train * num_nodes)
        roles = np.full(num_nodes, VALIDATION, dtype=np.int8)
        roles[order[:first]] = TRAIN
        roles[order[first : first + round(test * num_nodes)]] = TEST
        return roles

    def roles_by_class(self, labels: np.ndarray, nodes: Sequence[np.ndarray]) -> np.ndarray:
        """Draw the role of each node, at each client from the ``nodes`` it alone has, class by class, int8 ``[N]``.

        Of n nodes of a class floor(r_train n) train. O-pFGL's code then takes floor(r_validation n) nodes to validate,
        OpenFGL's all up to floor((r_train + r_validation) n); the rest test. Classes of few nodes thus have no training
        node. Nodes of no client stay ``UNUSED``.
        """
        train, validation, _ = self.ratios
        roles = np.full(len(labels), UNUSED, dtype=np.int8)
        for client, own in enumerate(nodes):
            rng = numpy_rng(f"split/{client}", self.seed)
            for label in np.unique(labels[own]):
                order = rng.permutation(own[labels[own] == label])
                first = floor(train * len(order))
                both = floor((train + validation) * len(order))
                second = both if self.source == "openfgl" else first + floor(validation * len(order))
                roles[order[:first]] = TRAIN
                roles[order[first:second]] = VALIDATION
                roles[order[second:]] = TEST
        return roles


def floor(value: float) -> int:
    """Round ``value`` down to an integer, give or take what floats lose: 0.6 * 5 is 3."""
    return math.floor(value + 1e-9)


def turns_before(name: str, clients: int, overlap: bool) -> list[tuple[str, int]]:
    """List draws of FED-PUB's released generators before that for ``clients`` on ``name``: data set and client count.

    A script seeds Python's and torch's generators once, with 1234, and goes through the data sets and, for each, the
    client counts. What a data set gets therefore depends on all that was drawn before it. For overlapping clients two
    printed facts show it: the halves of Cora, CiteSeer and PubMed have the nine mean numbers of edges of the
    supplement's Table 1, and with 30 clients on Cora the commonest class is 29.94 % of the test nodes, mean over
    clients, which Table 6 prints for models that have not learned yet. That the script for disjoint clients does the
    same is inferred: with the second permutation FedAvg's printed accuracy comes back for 10 clients on Cora, with the
    first it does not. The data set after PubMed is presumably ogbn-arxiv, whose parts we do not have; all others start
    afresh here.

    A count that the generator does not have takes its data set's first turn; a data set that it does not have starts
    afresh, with the counts in the same order.
    """
    counts = COUNTS[overlap]
    turns = [(each, count) for each in (ORDER if name in ORDER else (name,)) for count in counts]
    return turns[: turns.index((name, clients if clients in counts else counts[0]))]
