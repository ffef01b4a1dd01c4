"""FedLoG's network: a GraphSAGE encoder, learnable class nodes, and two branches that compare nodes with them.

Kim et al., "Subgraph Federated Learning for Local Generalization", ICLR 2025, section 4.1 and appendices A.4, A.14.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Generator, Tensor
from torch.utils.checkpoint import checkpoint

from fgl_repro.methods.fedlog.method import BRANCHES
from fgl_repro.nn.models.sage import SAGE, RingView, SageView
from fgl_repro.nn.ops import dropout, fan_in, glorot, linear

if TYPE_CHECKING:
    import numpy as np

    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.fl.clients import Clients
    from fgl_repro.nn.models.model import Params
    from fgl_repro.nn.view import View, Views

LAYERS = 2
PAIRS = 2_000_000
"""Numbers a chunk of node-prototype pairs may hold in one hidden layer: 8 MB, about what stays in cache."""


@dataclass(frozen=True)
class PrototypeNet(SAGE):
    """An encoder for which classes are means of s learnable nodes each, logits negative squared distances to them.

    Its linear layer is the warm-up's classifier, drawn with bound 1 / sqrt(C). Further parameters, each with a leading
    client axis and E the width of the embedding: ``X_head, X_tail [K, C * s, d]`` the learnable nodes, rows c * s ...
    of class c; per branch b an affine layer norm ``b.gain, b.shift [K, E]`` of the queries and two modules of message
    and translation nets ``b.0.*``, ``b.1.*``.

    Attributes:
        slots: Learnable nodes s per class and branch.
        threshold: Degree lambda up to which a node counts as tail.
        degrees: Mix the branches by degree; otherwise half and half.
        passing: Messages from prototypes move a query (equations 6 to 10); otherwise they are zero, as in the released
            code, whose message and translation nets (and a third net) exist but are never felt.
        loops: A learnable node is its own neighbour (released code); otherwise it has none.
    """

    slots: int = 20
    threshold: float = 3.0
    degrees: bool = True
    passing: bool = False
    loops: bool = True

    # --- weights ------------------------------------------------------------------------------------------------------

    def init(self, rng: Generator) -> Params:
        """Draw one network's weights, no client axis and without the learnable nodes."""
        classes, width = self.num_classes, self.output
        out = super().init(rng)
        out |= {"W3": fan_in((width, classes), classes, rng), "b3": fan_in((classes,), classes, rng)}
        for branch in BRANCHES:
            out |= {f"{branch}.gain": torch.ones(width), f"{branch}.shift": torch.zeros(width)}
            for layer in range(LAYERS):
                out |= {f"{branch}.{layer}.{name}": value for name, value in self._module(width, rng).items()}
        return out

    def _module(self, width: int, rng: Generator) -> Params:
        heard = 2 * width + 1 if self.passing else width + 1
        nets = {"message": (heard, width, width), "translation": (width, width, width, 1)}
        if not self.passing:
            nets["unused"] = (2 * width, width, width)
        out = {}
        for net, widths in nets.items():
            for number, (fan, to) in enumerate(pairwise(widths), 1):
                out[f"{net}.W{number}"] = fan_in((fan, to), fan, rng)
                out[f"{net}.b{number}"] = fan_in((to,), fan, rng)
        if not self.passing:
            out["translation.W3"] = 0.001 * glorot((width, 1), rng)
            del out["translation.b3"]
        return out

    def nodes(self, rng: Generator) -> Params:
        """Draw the learnable nodes, no client axis: Xavier-uniform on the whole matrix."""
        return {f"X_{b}": glorot((self.num_classes * self.slots, self.num_features), rng) for b in BRANCHES}

    def felt(self, params: Params) -> list[str]:
        """Name the weights that a prediction depends on: all but the warm-up classifier and unfelt nets."""
        unfelt = () if self.passing else ("message", "translation", "unused")
        return [name for name in params if name not in ("W3", "b3") and not any(net in name for net in unfelt)]

    # --- embeddings ---------------------------------------------------------------------------------------------------

    def view(self, views: Views, graph: UnionGraph, rows: np.ndarray) -> SageView:
        """View ``rows`` of ``graph``, with their neighbours' embeddings where messages need them."""
        return self.ring(views, graph, rows) if self.passing else super().view(views, graph, rows)

    def around(
        self, params: Params, view: SageView, rng: Generator | None = None, first: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return embeddings of the view's rows and means of their neighbours' ``[K, r, E]`` (None without messages)."""
        found = self.embed(params, view, rng, first)
        if not isinstance(view, RingView):
            return found, None
        flat, shape = found.flatten(0, 1), (view.num_clients, -1, self.output)
        return flat.index_select(0, view.pick).view(shape), view.around(flat).view(shape)

    def isolated(self, params: Params, x: Tensor, rng: Generator | None = None) -> Tensor:
        """Embed nodes without other nodes, ``[K, n, d] -> [K, n, E]``."""
        own = []
        for name in ("W1", "W2"):
            neighbour, root = params[name].chunk(2, dim=1)
            own.append(neighbour + root if self.loops else root)
        hidden = torch.relu(linear(x, own[0], params["b1"]))
        if rng is not None:
            hidden = dropout(hidden, self.dropout, rng)
        return linear(hidden, own[1], params["b2"])

    def pair(self, params: Params, x: Tensor, prompt: Tensor, rng: Generator | None = None) -> tuple[Tensor, Tensor]:
        """Embed nodes ``x`` and their prompts, ``[K, n, E]`` each; each pair is a graph of one edge."""
        neighbour, root = params["W1"].chunk(2, dim=1)
        both = torch.cat([x, prompt], dim=1)
        heard = torch.bmm(both, neighbour).roll(x.shape[1], dims=1)
        hidden = torch.relu(heard + linear(both, root, params["b1"]))
        if rng is not None:
            hidden = dropout(hidden, self.dropout, rng)
        out = self.second(params, hidden.roll(x.shape[1], dims=1), hidden)
        node, neighbour = out.chunk(2, dim=1)
        return node, neighbour

    # --- predictions --------------------------------------------------------------------------------------------------

    def branches(
        self, params: Params, query: Tensor, neighbours: Tensor | None, nodes: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Compute log-probabilities ``[K, n, C]`` of the head and the tail branch (equation 2).

        Args:
            query: Embeddings ``[K, n, E]``.
            neighbours: Means of their neighbours' embeddings; None without messages.
            nodes: Embeddings ``[K, C * s, E]`` of each branch's learnable nodes.
        """
        out = []
        for branch in BRANCHES:
            h = F.layer_norm(query, query.shape[-1:])
            h = h * params[f"{branch}.gain"].unsqueeze(1) + params[f"{branch}.shift"].unsqueeze(1)
            if self.passing:
                assert neighbours is not None
                for layer in range(LAYERS):
                    h = self._moved(params, f"{branch}.{layer}.", h, neighbours, nodes[branch])
            means = nodes[branch].view(len(h), self.num_classes, self.slots, -1).mean(2)
            out.append(torch.log_softmax(-squared_distances(h, means), dim=-1))
        return out[0], out[1]

    def _moved(self, params: Params, prefix: str, h: Tensor, neighbours: Tensor, nodes: Tensor) -> Tensor:
        """Compute h + t of equation 10, chunk after chunk of the queries; the backward pass does a chunk once more."""
        own = {name.removeprefix(prefix): value for name, value in params.items() if name.startswith(prefix)}
        size = max(1, PAIRS // (nodes.shape[0] * nodes.shape[1] * nodes.shape[2]))
        pieces = list(zip(torch.split(h, size, dim=1), torch.split(neighbours, size, dim=1), strict=True))
        if len(pieces) == 1 or not torch.is_grad_enabled():
            return torch.cat([moved(own, q, n, nodes) for q, n in pieces], dim=1)
        out = [checkpoint(moved, own, q, n, nodes, use_reentrant=False, preserve_rng_state=False) for q, n in pieces]
        return torch.cat(out, dim=1)

    def mixture(self, head: Tensor, tail: Tensor, degree: Tensor) -> Tensor:
        """Mix both branches: log(alpha p_head + (1 - alpha) p_tail) ``[K, n, C]`` (equation 3).

        Here, alpha = sigmoid(degree - (lambda + 1)).
        """
        x = self.preference(degree)
        return torch.logaddexp(F.logsigmoid(x) + head, F.logsigmoid(-x) + tail)

    def preference(self, degree: Tensor) -> Tensor:
        """Return the logit of alpha for degrees ``[K, n]``, as ``[K, n, 1]``."""
        return (degree - (self.threshold + 1) if self.degrees else torch.zeros_like(degree)).unsqueeze(-1)

    def __call__(
        self, params: Params, view: SageView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        """Compute log-probabilities of the view's rows, ``[K, r, C]``; ``params`` hold the learnable nodes, too."""
        query, neighbours = self.around(params, view, rng, first)
        nodes = {branch: self.isolated(params, params[f"X_{branch}"], rng) for branch in BRANCHES}
        return self.mixture(*self.branches(params, query, neighbours, nodes), view.degree)


def net_of(clients: Clients) -> PrototypeNet:
    """Return the clients' network, as what it is."""
    assert isinstance(clients.model, PrototypeNet)
    return clients.model


def sage_view(view: View) -> SageView:
    """Return a view that a PrototypeNet cut, as what it is."""
    assert isinstance(view, SageView)
    return view


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Compute ``|a_i - b_j|^2`` of rows ``[K, n, E]`` and ``[K, m, E]``: ``[K, n, m]``.

    ``cdist`` would take a root first.
    """
    cross = torch.baddbmm(b.square().sum(-1).unsqueeze(1), a, b.transpose(1, 2), alpha=-2)
    return (cross + a.square().sum(-1, keepdim=True)).clamp_min(0)


def moved(own: Params, h: Tensor, neighbours: Tensor, nodes: Tensor) -> Tensor:
    """Move a query by the messages of all P prototypes (equations 6 to 10), ``[K, n, E]``.

    A prototype's neighbourhood mean is its own embedding. No message of a pair depends on the pair but through its
    distance, so what a query brings to the first message layer is computed once; the last two maps of the translation
    net have nothing between them and are one vector; and the mean of (h_k - h_j) w_kj over j is
    (h_k sum_j w_kj - sum_j w_kj h_j) / P.

    Args:
        own: Weights of one module.
        h: Queries ``[K, n, E]``.
        neighbours: Their neighbourhood means ``[K, n, E]``.
        nodes: Prototypes' embeddings ``[K, P, E]``.
    """
    width = h.shape[-1]
    distance = squared_distances(h, nodes) + squared_distances(neighbours, nodes)
    known = linear(torch.cat([h, neighbours], dim=-1), own["message.W1"][:, : 2 * width], own["message.b1"])
    heard = own["message.W1"][:, 2 * width].view(-1, 1, 1, width)
    message = F.silu(torch.addcmul(known.unsqueeze(2), distance.unsqueeze(-1), heard)).flatten(1, 2)
    message = F.silu(linear(message, own["message.W2"], own["message.b2"]))
    hidden = F.silu(linear(message, own["translation.W1"], own["translation.b1"]))
    last = torch.bmm(own["translation.W2"], own["translation.W3"])
    bias = torch.bmm(own["translation.b2"].unsqueeze(1), own["translation.W3"]).squeeze(1) + own["translation.b3"]
    weight = linear(hidden, last, bias).view(distance.shape)
    return h + (h * weight.sum(-1, keepdim=True) - torch.bmm(weight, nodes)) / nodes.shape[1]
