"""Mini-batches of training nodes: every client draws its own, clients take their steps together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fgl_repro.core.streams import numpy_rng

if TYPE_CHECKING:
    from fgl_repro.federation.world import World


@dataclass(frozen=True)
class Batch:
    """One step of all clients.

    Attributes:
        rows: Union nodes of all batches, int64, ascending.
        active: Clients that still have a batch in this epoch, bool ``[K]``; the others take no step.
        uniform: Uniform numbers of each row, ``[R, n]``.
    """

    rows: np.ndarray
    active: np.ndarray
    uniform: np.ndarray

    def only(self, present: np.ndarray, owner: np.ndarray) -> Batch:
        """Leave the rows of some clients, bool ``[K]``.

        Args:
            owner: Client of every union node, int64.
        """
        kept = present[owner[self.rows]]
        return Batch(self.rows[kept], self.active & present, self.uniform[kept])


class Batches:
    """Draws without replacement: ``max(n_k // size, 1)`` batches a pass, the remainder of n_k left out.

    Each client has streams of its own, so that no client's draws depend on another's data.

    Args:
        remainder: A pass ends with a smaller batch of the nodes that are left.
        steps: Batches of an epoch at every client, drawn from as many passes as it takes; 0: an epoch is a pass.
        draws: Uniform numbers for every row, to choose its neighbours by, from further streams.
    """

    def __init__(
        self, world: World, size: int, seed: int, remainder: bool = False, draws: int = 0, steps: int = 0
    ) -> None:
        self.rows = world.train_of
        self.size, self.draws = size, draws
        held = np.array([len(rows) for rows in self.rows])
        self.filled = np.maximum(-(-held // size) if remainder else held // size, 1)
        self.steps = np.full_like(held, steps) if steps else self.filled
        self._rng = [numpy_rng(f"batches/{k}", seed) for k in range(world.num_clients)]
        self._neighbour_rng = [numpy_rng(f"neighbours/{k}", seed) for k in range(world.num_clients)]

    def epoch(self) -> Iterator[Batch]:
        """Yield the steps of one epoch."""
        shape = (len(self.rows), int(self.steps.max()) * self.size)
        orders = np.full(shape, -1, dtype=np.int64)
        uniform = np.zeros((*shape, self.draws), dtype=np.float32)
        for k, rows in enumerate(self.rows):
            end, whole = self.steps[k] * self.size, self.filled[k] * self.size
            for start in range(0, end, whole):
                count = min(len(rows), whole, end - start)
                orders[k, start : start + count] = self._rng[k].permutation(rows)[:count]
                uniform[k, start : start + count] = self._neighbour_rng[k].random((count, self.draws), dtype=np.float32)
        for step in range(int(self.steps.max())):
            columns = slice(step * self.size, (step + 1) * self.size)
            part = orders[:, columns]
            taken = part >= 0
            yield Batch(np.sort(part[taken]), step < self.steps, uniform[:, columns][taken])
