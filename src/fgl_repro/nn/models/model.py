"""What the engine asks of an architecture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from torch import Generator, Tensor

if TYPE_CHECKING:
    import numpy as np

    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.view import Views

Params = dict[str, Tensor]

CLASSIFIER = ("W3", "b3")
"""The last, linear layer of both architectures; what is before it is the base."""


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
        """The same in validation and tests."""

    def init(self, rng: Generator) -> Params:
        """One network's initial weights, no client axis."""

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> Any:
        """What it needs to predict ``rows`` (union nodes, ascending) of ``graph``."""

    def first(self, params: Params, view: Any) -> Tensor:
        """First layer's output before its non-linearity and before any dropout."""

    def embed(self, params: Params, view: Any, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        """Embeddings of the view's rows ``[K, r, H]``; dropout when ``rng`` is given."""

    def __call__(self, params: Params, view: Any, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        """Logits of the view's rows ``[K, r, C]``; ``first`` spares the first layer where it is at hand."""
