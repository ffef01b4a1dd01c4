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
from fgl_repro.federation.fedpub_draws import turns_before

TRAIN, VALIDATION, TEST = 0, 1, 2
UNUSED = 3  # in the graph, but neither trained on nor measured; only worlds that thin the training nodes have such

Ratios = tuple[float, float, float]


@dataclass(frozen=True)
class Split:
    """How a world is drawn: who trains, validates and tests, and the seed of that and of all else that is drawn.

    Attributes:
        ratios: Shares of training, validation and test nodes.
        seed: Seed of the roles, of cropped or thinned nodes, of parts that are drawn at random.
        source: Who draws the roles: ``stream``, we, or ``fedpub``, that paper's released generator.
    """

    ratios: Ratios
    seed: int
    source: Literal["stream", "fedpub"] = "stream"

    def __post_init__(self) -> None:
        check_ratios(self.ratios)

    def roles(self, name: str, num_nodes: int, clients: int, overlapping: bool) -> np.ndarray:
        """Role of each node of the graph ``name`` with N nodes, int8 ``[N]``.

        Args:
            clients: Number of clients, which the released generator draws by.
            overlapping: Whether they share nodes; so is this.
        """
        if self.source == "stream":
            return global_split(num_nodes, self.ratios, self.seed)
        return released_split(name, num_nodes, self.ratios, self.seed, clients, overlapping)


def global_split(num_nodes: int, ratios: Ratios, seed: int) -> np.ndarray:
    """Roles drawn once over the whole graph, before any partition (FED-PUB's generator, which FedLoG reuses).

    In one random order the first round(r_train N) nodes train, the next round(r_test N) test, the rest validate. Shares
    therefore fluctuate from client to client and class to class, as in the published split tables.

    Args:
        num_nodes: N.
        ratios: Shares of training, validation and test nodes; they sum to 1.
        seed: Seed of the stream ``split``.

    Returns:
        Role of each node (``TRAIN``, ``VALIDATION``, ``TEST``), int8 ``[N]``.

    Raises:
        UserError: The ratios are not three shares of a whole, or leave nothing to train on.
    """
    return _roles(numpy_rng("split", seed).permutation(num_nodes), ratios)


def released_split(name: str, num_nodes: int, ratios: Ratios, seed: int, clients: int, overlap: bool) -> np.ndarray:
    """The roles that FED-PUB's released generator draws, with its seed 1234; else as :func:`global_split`.

    It permutes the nodes anew for each client count, with torch; see :mod:`fgl_repro.federation.fedpub_draws`.

    Args:
        name: Name of the graph.
        clients: Number of clients.
        overlap: Whether they share nodes.
    """
    rng = torch.Generator().manual_seed(seed)
    for other, _ in turns_before(name, clients, overlap):
        torch.randperm(num_nodes if other == name else facts(other).nodes, generator=rng)
    return _roles(torch.randperm(num_nodes, generator=rng).numpy(), ratios)


def _roles(order: np.ndarray, ratios: Ratios) -> np.ndarray:
    check_ratios(ratios)
    train, _, test = ratios
    num_nodes = len(order)
    first = round(train * num_nodes)
    roles = np.full(num_nodes, VALIDATION, dtype=np.int8)
    roles[order[:first]] = TRAIN
    roles[order[first : first + round(test * num_nodes)]] = TEST
    return roles


def check_ratios(ratios: Sequence[float]) -> None:
    """Refuse shares that are no three, no whole, or leave nothing to train on or to select a round by."""
    if len(ratios) != 3 or not math.isclose(sum(ratios), 1, abs_tol=1e-6) or min(ratios) < 0 or 0 in ratios[:2]:
        raise UserError(
            f"protocol.split={list(ratios)} must be three shares (train, validation, test) that sum to 1, "
            "with train and validation above 0."
        )
