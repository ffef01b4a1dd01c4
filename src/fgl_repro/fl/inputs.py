"""What clients see: the views from which rows of their graphs are predicted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fgl_repro.core.lazy import lazy
from fgl_repro.core.streams import numpy_rng

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph, World
    from fgl_repro.fl.batches import Batch
    from fgl_repro.nn import sampling
    from fgl_repro.nn.models.model import Model
    from fgl_repro.nn.sampling import Neighbours
    from fgl_repro.nn.view import View, Views
else:
    sampling = lazy("fgl_repro.nn.sampling")


@dataclass(frozen=True)
class Inputs:
    """Clients' own subgraphs; a method whose clients see something else overrides ``cut`` and ``neighbours``.

    Attributes:
        world: What is trained on and probed.
        model: The network that reads the views.
        views: Builds them, on one device.
        seed: Run seed, for the neighbours that are drawn once for all tests.
    """

    world: World
    model: Model
    views: Views
    seed: int

    def cut(self, views: Views, rows: np.ndarray) -> View:
        """Cut out what ``rows`` of the training graph, int64 ``[R]``, ascending, are predicted from.

        All neighbours are at hand.
        """
        return self.model.view(views, self.world.graph, rows)

    @cached_property
    def neighbours(self) -> Neighbours:
        """What mini-batches of a model with a fan-out draw their neighbours from."""
        return sampling.Neighbours.of(self.world.graph, self.views.device)

    @cached_property
    def train(self) -> View:
        """All training rows."""
        return self.cut(self.views, self.world.train)

    def batch(self, batch: Batch) -> View:
        """Cut out a mini-batch: all neighbours, or a few drawn ones where the model has a fan-out."""
        if self.model.fanout:
            return self.neighbours.view(batch.rows, batch.uniform, self.model.fanout)
        return self.cut(self.views.brief, batch.rows)

    def evaluation_view(self, rows: np.ndarray) -> View:
        """View ``rows`` of the training graph, int64 ``[R]``, ascending, to judge models."""
        if self.model.test_fanout:
            return self.elsewhere(self.world.graph, rows)
        return self.cut(self.views, rows)

    def elsewhere(self, graph: UnionGraph, rows: np.ndarray) -> View:
        """View ``rows`` of any graph to judge models: all neighbours, or a few, drawn once for the whole run."""
        if not self.model.test_fanout:
            return self.model.view(self.views, graph, rows)
        shape = (len(rows), draws_of(self.model.test_fanout))
        uniform = numpy_rng("test-neighbours", self.seed).random(shape, np.float32)
        return sampling.Neighbours.of(graph, self.views.device).view(rows, uniform, self.model.test_fanout)


def draws_of(fan: int) -> int:
    """Tell how many random numbers choose the neighbours of a node and theirs."""
    return fan + fan * fan
