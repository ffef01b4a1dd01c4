"""Evaluation settings: what clients train on and what is probed. One module a world, found by its name."""

from __future__ import annotations

from collections.abc import Callable

from fgl_repro.core import registry as scan
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.settings.common import Imbalance, Plan
from fgl_repro.federation.split import Ratios, check_ratios
from fgl_repro.federation.world import World

__all__ = ["Imbalance", "build"]

BALANCED = Imbalance()


def build(
    world: str,
    graph: Graph,
    partitioner: str,
    clients: int,
    hops: int,
    crop: float,
    ratios: Ratios,
    split_seed: int,
    split_source: str = "stream",
    imbalance: Imbalance = BALANCED,
) -> World:
    """Build the world named ``world`` (``closed_set``, ``imbalance``, ``open_set``, ``plain``).

    Args:
        world: Module of this package.
        graph: The whole graph.
        partitioner: Name of a partitioner, see :func:`fgl_repro.federation.partitioners.membership`.
        clients: Number of training clients K; a new client comes on top where the world has one.
        hops: Distance h up to which a client meets new nodes at test time (closed and open set only).
        crop: Share of nodes held back before partitioning (``open_set`` only).
        ratios: Shares of training, validation and test nodes.
        split_seed: Seed of everything drawn here: roles, cropped or thinned nodes, parts of a random partitioner.
        split_source: Who draws the roles, see ``protocol.split_source``.
        imbalance: How training nodes are thinned (``imbalance`` only).

    Raises:
        UserError: An argument is out of range, or a client is left without nodes or without training nodes.
    """
    make: Callable[[Plan], World] = scan.find(__name__, world, "build", "setting.world")
    if clients < 1:
        raise UserError(f"partitioner.clients={clients} must be at least 1.")
    if hops < 0:
        raise UserError(f"setting.hops={hops} must not be negative.")
    if not 0 <= crop < 1:
        raise UserError(f"setting.crop={crop} must be a share of the nodes, at least 0 and below 1.")
    rules = (check_ratios(ratios), split_seed, split_source, imbalance)
    return make(Plan(graph, partitioner, clients, hops, crop, *rules))
