"""Clients with different architectures as one model: those of one architecture, a cohort, are one stack."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fgl_repro.core.errors import UserError
from fgl_repro.nn.view import Padded, View

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.nn.models.model import Model, Params
    from fgl_repro.nn.view import Views


@dataclass(frozen=True)
class FleetView(View):
    """Rows of all clients, as any view has them, and what each cohort sees.

    Attributes:
        parts: The view of each cohort.
        back: Place of each client among the cohorts' members one after the other, int64 ``[K]``.
    """

    parts: tuple[View, ...]
    back: Tensor


@dataclass(frozen=True)
class FleetModel:
    """Client k has architecture k mod n of ``models``; tensors of cohort c are ``c.W1`` and so on, ``[K_c, ...]``."""

    models: tuple[Model, ...]
    fanout: int = 0
    test_fanout: int = 0
    linear: bool = False
    depth: int = 0
    heads: int = 1

    @property
    def num_features(self) -> int:
        return self.models[0].num_features

    @property
    def num_classes(self) -> int:
        return self.models[0].num_classes

    @property
    def kinds(self) -> int:
        """Number of architectures."""
        return len(self.models)

    def holders(self, name: str, clients: int) -> np.ndarray:
        """Return the clients that have this tensor, ascending."""
        return np.arange(int(name.partition(".")[0]), clients, len(self.models))

    def init(self, rng: Generator) -> Params:
        """Draw initial weights of every architecture, no client axis."""
        return {f"{c}.{name}": value for c, model in enumerate(self.models) for name, value in model.init(rng).items()}

    def own(self, params: Params, cohort: int) -> Params:
        """Return the tensors of a cohort by the names that its architecture knows."""
        start = f"{cohort}."
        return {name.removeprefix(start): value for name, value in params.items() if name.startswith(start)}

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> FleetView:
        """Build what every cohort needs to predict its part of ``rows``."""
        if graph.num_clients < len(self.models):
            raise UserError(
                f"model=fleet has {len(self.models)} architectures: give partitioner.clients as many or more."
            )
        parts, members = [], []
        for c, model in enumerate(self.models):
            who = self.holders(f"{c}.", graph.num_clients)
            cohort, nodes = views.once(graph, f"cohort {c} of {len(self.models)}", partial(graph.of_clients, who))
            parts.append(model.view(views, cohort, np.flatnonzero(np.isin(nodes, rows))))
            members.append(who)
        back = torch.from_numpy(np.argsort(np.concatenate(members))).to(views.device)
        rest: dict[str, Any] = dict(Padded.of(rows, graph).tensors(graph, views.device))
        unused: Any = None
        return FleetView(dense=None, sparse=None, inner=None, outer=unused, parts=tuple(parts), back=back, **rest)

    def first(self, params: Params, view: Any) -> Tensor:
        raise NotImplementedError("the architectures of a fleet have no first layer in common")

    def embed(self, params: Params, view: Any, rng: Generator | None = None, first: Tensor | None = None) -> Tensor:
        return self(params, view, rng)

    def __call__(
        self, params: Params, view: FleetView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Compute logits of the view's rows, ``[K, r, C]``; dropout when ``rng`` is given."""
        width, found = view.mask.shape[1], []
        for c, (model, part) in enumerate(zip(self.models, view.parts, strict=True)):
            logits = model(self.own(params, c), part, rng)
            found.append(F.pad(logits, (0, 0, 0, width - logits.shape[1])))
        return torch.cat(found).index_select(0, view.back)
