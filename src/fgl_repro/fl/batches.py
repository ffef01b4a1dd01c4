"""Mini-batches of training nodes: every client draws its own, clients take their steps together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fgl_repro.streams import numpy_rng

if TYPE_CHECKING:
    from fgl_repro.federation import World


@dataclass(frozen=True)
class Batch:
    """One step of all clients.

    Attributes:
        rows: Union nodes of all batches, int64, ascending.
        active: Clients that still have a batch in this epoch, bool ``[K]``; the others take no step.
    """

    rows: np.ndarray
    active: np.ndarray


class Batches:
    """Draws without replacement: ``max(n_k // size, 1)`` batches an epoch, the remainder of n_k left out.

    Each client has a stream of its own, so that no client's draws depend on another's data.
    """

    def __init__(self, world: World, size: int, seed: int) -> None:
        owner = world.graph.owner[world.train]
        self.rows = [world.train[owner == k] for k in range(world.num_clients)]
        self.size = size
        self.steps = np.array([max(len(rows) // size, 1) for rows in self.rows])
        self._rng = [numpy_rng(f"batches/{k}", seed) for k in range(world.num_clients)]

    def epoch(self) -> Iterator[Batch]:
        """The steps of one epoch."""
        orders = [rng.permutation(rows) for rng, rows in zip(self._rng, self.rows, strict=True)]
        for step in range(int(self.steps.max())):
            active = step < self.steps
            part = slice(step * self.size, (step + 1) * self.size)
            yield Batch(np.concatenate([np.sort(o[part]) for o, on in zip(orders, active, strict=True) if on]), active)
