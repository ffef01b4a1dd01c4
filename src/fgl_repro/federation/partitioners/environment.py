"""Clients that differ by the distribution their graphs are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.data.dataset import Dataset
from fgl_repro.data.graph import Graph
from fgl_repro.data.graphset import GraphSet
from fgl_repro.federation.partitioners import Partitioner
from fgl_repro.federation.split import TEST, TRAIN, UNUSED, VALIDATION, Split


@dataclass
class Environment(Partitioner):
    """Every client has graphs of one environment (Fu et al., FedVN, AAAI 2025, section 6.1), or mostly of one.

    Drawn as the released code draws: one generator, seeded with the run's seed, shuffles the graphs of each environment
    in turn; a client takes the first ``graphs``, of which the first train, the next validate, if any do, and the next
    test. With more clients than environments, client k has environment k modulo their number, and takes the next ones.
    With ``mixed`` that share of a client's graphs is what other environments have left, drawn alike from each.

    Attributes:
        graphs: Graphs of each client.
        mixed: Share of them that comes from other environments.
    """

    name: ClassVar[str] = "environment"
    units: ClassVar[tuple[str, ...]] = ("graph",)

    clients: int = 5
    graphs: int = 1000
    mixed: float = 0.0

    def check(self) -> None:
        super().check()
        self.at_least(2, "graphs")
        if not 0 <= self.mixed <= 1:
            raise UserError(f"partitioner.mixed={self.mixed} must lie in [0, 1].")

    def check_sizes(self, dataset: Dataset) -> None:
        known = dataset.known.graphs if dataset.known else ()
        at_home = self.graphs - (round(self.mixed * self.graphs) if len(known) > 1 else 0)
        at_homes = [len(range(each, self.clients, len(known))) * at_home for each in range(len(known))]
        named = [f" of environment {each}" for each in range(len(known))]
        sizes = [("", self.clients * self.graphs, sum(known)), *zip(named, at_homes, known, strict=True)]
        for what, number, there in sizes if known else []:
            if number > there:
                given = f"partitioner.clients={self.clients} and partitioner.graphs={self.graphs}"
                taken = f"take {number} graphs{what}, and {dataset.name} has {there}"
                raise UserError(f"{given} {taken}: lower one of them.")

    def assign(self, graph: Graph, parts: int, seed: int) -> tuple[list[np.ndarray], str]:
        """Return the graphs of each client, ascending int64.

        Raises:
            UserError: An environment has too few graphs, or there is but one to mix.
        """
        return [np.sort(own) for own in self._drawn(graph, parts, seed)], f"environments of {graph.name}"

    def drawn_roles(self, graph: Graph, split: Split) -> np.ndarray:
        """Draw the role of each graph, int8 ``[N]``.

        Raises:
            UserError: A role that has a share of the graphs gets none of them, or as ``assign``.
        """
        train, validation, _ = (round(share * self.graphs) for share in split.ratios)
        counts = {"training": train, "validation": validation, "test": self.graphs - train - validation}
        for (role, count), share in zip(counts.items(), split.ratios, strict=True):
            if share and count < 1:
                raise UserError(f"partitioner.graphs={self.graphs} leaves each client no {role} graph: raise it.")
        roles = np.full(graph.num_nodes, UNUSED, dtype=np.int8)
        for own in self._drawn(graph, self.clients, split.seed):
            roles[own] = TEST
            roles[own[:train]] = TRAIN
            roles[own[train : train + validation]] = VALIDATION
        return roles

    def _drawn(self, graph: Graph, parts: int, seed: int) -> list[np.ndarray]:
        """Draw the graphs of each client, and return them in the order in which they are drawn."""
        assert isinstance(graph, GraphSet), "refused beforehand"
        if seed >= 2**32:
            raise UserError(f"partitioner=environment draws by the seed {seed}, which must be below {2**32}: lower it.")
        rng, count = np.random.RandomState(seed), graph.num_environments
        queues = []
        for each in range(count):
            order = np.flatnonzero(graph.environment == each)
            rng.shuffle(order)
            queues.append(order)
        if self.mixed and count == 1:
            raise UserError(
                f"partitioner.mixed={self.mixed} takes graphs of other environments, and {graph.name} has but one: "
                "set it to 0."
            )
        foreign = round(self.mixed * self.graphs)
        drawn = []
        for k in range(parts):
            home = k % count
            others = [e for e in range(count) if e != home]
            shares = [len(part) for part in np.array_split(np.arange(foreign), len(others))] if others else []
            wanted = {home: self.graphs - foreign, **dict(zip(others, shares, strict=True))}
            taken = []
            for each, number in wanted.items():
                if number > len(queues[each]):
                    raise UserError(
                        f"environment {each} of {graph.name} has no {number} graphs left for client {k}: lower "
                        "partitioner.graphs, partitioner.clients or partitioner.mixed."
                    )
                taken.append(queues[each][:number])
                queues[each] = queues[each][number:]
            own = np.concatenate(taken)
            drawn.append((rng.permutation(own) if foreign else own).astype(np.int64))
        return drawn
