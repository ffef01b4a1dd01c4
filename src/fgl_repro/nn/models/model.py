"""What the engine asks of an architecture, and what those here share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Generator, Tensor

from fgl_repro.nn.ops import dropout

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.view import View, Views

Params = dict[str, Tensor]


class Model(Protocol):
    """K networks as one: parameters are dicts of tensors ``[K, ...]``, inputs are views."""

    @property
    def num_features(self) -> int:
        """Width d of the inputs."""

    @property
    def num_classes(self) -> int:
        """Number C of classes."""

    @property
    def fanout(self) -> int:
        """Neighbours drawn of each node and layer in mini-batches; 0: all of them."""

    @property
    def test_fanout(self) -> int:
        """Neighbours drawn of each node and layer in validation and tests; 0: all of them."""

    @property
    def linear(self) -> bool:
        """Whether the last layer is a linear classifier, which sees no neighbours."""

    @property
    def depth(self) -> int:
        """Number of the last layer with weights; names of weights end with their layer's number, from 1."""

    @property
    def heads(self) -> int:
        """How many of the last layers with weights are the classifier, which personal methods keep at home."""

    @property
    def kinds(self) -> int:
        """Number of architectures."""

    def holders(self, name: str, clients: int) -> np.ndarray:
        """Tell which of so many clients have the tensor of this name, ascending: all, unless architectures differ."""

    def init(self, rng: Generator) -> Params:
        """Draw one network's initial weights, no client axis."""

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> View:
        """Build what it needs to predict ``rows`` of ``graph``: union nodes, int64 ``[R]``, ascending."""

    def first(self, params: Params, view: Any) -> Tensor:
        """Compute the first layer's output before its non-linearity and before any dropout, ``[K, n, H]``.

        That of the GIN, whose clients' nodes are not padded, is ``[n, H]``.
        """

    def embed(self, params: Params, view: Any, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        """Compute the last layer that sees neighbours, ``[K, r, H]``: what a linear classifier reads, or the logits.

        There is dropout when ``rng`` is given.
        """

    def __call__(self, params: Params, view: Any, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        """Compute logits of the view's rows ``[K, r, C]``; ``first`` spares the first layer where it is at hand."""


@dataclass(frozen=True)
class Layered:
    """Sizes of a network of layers, and how values get to its second one.

    Attributes:
        hidden: Width H of the first layer.
        dropout: Share of hidden values that training drops.
        fanout, test_fanout: As in :class:`Model`.
        linear: As in :class:`Model`.
    """

    num_features: int
    num_classes: int
    hidden: int = 128
    dropout: float = 0.5
    fanout: int = 0
    test_fanout: int = 0
    linear: bool = False

    @property
    def depth(self) -> int:
        """Number of the last layer."""
        return 2 + self.linear

    @property
    def heads(self) -> int:
        """The last one."""
        return 1

    @property
    def kinds(self) -> int:
        """One architecture."""
        return 1

    def holders(self, name: str, clients: int) -> np.ndarray:
        """Return all clients."""
        return np.arange(clients)

    def first(self, params: Params, view: View) -> Tensor:
        """Compute the first layer's output before its ReLU, at the view's inner nodes, ``[K, n1, H]``."""
        if view.dense is not None:
            return view.dense(params["W1"], params["b1"])
        assert view.sparse is not None
        mapped = view.sparse(params["W1"].flatten(0, 1))
        if view.inner is not None:
            mapped = view.inner(mapped)
        return mapped.view(view.num_clients, -1, mapped.shape[1]) + params["b1"].unsqueeze(1)

    def convolved(self, params: Params, view: Any) -> Tensor:
        """Compute the first layer's output with all that neighbours bring to it, before its ReLU, ``[K, n1, H]``."""
        return self.first(params, view)

    def activated(self, values: Tensor, rng: Generator | None) -> Tensor:
        """Apply ReLU, and dropout when ``rng`` is given."""
        values = torch.relu(values)
        return values if rng is None else dropout(values, self.dropout, rng)
