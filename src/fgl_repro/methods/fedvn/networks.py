"""FedVN's networks: a GIN with virtual nodes, and the GIN that says how strongly each node is joined to them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Generator, Tensor

from fgl_repro.nn.graphs import GraphsView
from fgl_repro.nn.models.gin import GIN, affine, norm
from fgl_repro.nn.models.model import Params
from fgl_repro.nn.norm import batch_norm
from fgl_repro.nn.ops import dropout
from fgl_repro.nn.ragged import grouped

GENERATOR = "generator_"
"""What the names of the generator's tensors begin with."""


@dataclass(frozen=True)
class VirtualGIN(GIN):
    """A GIN whose graphs all have the same M virtual nodes q_m, joined to each node v with weights s_vm in [0, 1].

    Layer l, from the states h of the nodes and q of a graph's virtual nodes before it (paper, equations 5, 6):

        h_v <- GIN_l(h)_v + sum_m s_vm q_m      (or GIN_l of h_v + sum_m s_vm q_m, where ``inside``)
        q_m <- MLP_l(q_m + sum_v s_vm h_v),     MLP_l = Linear, BatchNorm, ReLU, Linear, BatchNorm, ReLU, dropout

    with batch norms over graphs, of 2 H M and H M numbers each; the last layer leaves the virtual nodes alone. Beside
    the GIN's tensors there are ``Q1 [K, M, H]`` and ``virtual_...`` of layers 2 to L; the generator's belong to each
    client. It is a GIN, too, with a perceptron for every node and a sigmoid.

    Attributes:
        virtual: M.
        inside: Whether the message of virtual nodes passes through the layer.
        raw: Whether virtual nodes have the features' width and are mapped as features are, ``Q1 [K, M, d]``.
        generated: Whether there is a generator; without one all weights are 1 / M.
    """

    virtual: int = 20
    inside: bool = True
    raw: bool = False
    generated: bool = True

    @property
    def generator(self) -> GIN:
        """The network of the weights; its outputs are M a node."""
        sizes = {f.name: getattr(self, f.name) for f in fields(GIN)}
        return GIN(**sizes | {"num_classes": self.virtual})

    def init(self, rng: Generator) -> Params:
        """Draw initial weights of the network without its generator; virtual nodes begin at 0 (Algorithm 1)."""
        out = super().init(rng) | {"Q1": torch.zeros(self.virtual, self.num_features if self.raw else self.hidden)}
        wide = 2 * self.hidden
        for layer in range(2, self.layers + 1):
            out |= affine("virtual_inner_", layer, self.hidden, wide, rng)
            out |= norm("virtual_inner_", layer, wide * self.virtual)
            out |= affine("virtual_", layer, wide, self.hidden, rng)
            out |= norm("virtual_", layer, self.hidden * self.virtual)
        return out

    def init_generator(self, rng: Generator) -> Params:
        """Draw initial weights of a generator; none where there is none."""
        return {GENERATOR + name: value for name, value in self.generator.init(rng).items()} if self.generated else {}

    def scores(self, params: Params, view: GraphsView, rng: Generator | None = None) -> Tensor:
        """Compute the weights s of the nodes' links to the virtual nodes, ``[n, M]``; dropout when ``rng`` is given."""
        if not self.generated:
            return view.features.new_full((len(view.features), self.virtual), 1 / self.virtual)
        network, start = self.generator, len(GENERATOR)
        own = {name[start:]: value for name, value in params.items() if name.startswith(GENERATOR)}
        values, last = network.nodes(own, view, rng), network.depth
        values = torch.relu(grouped(values, own[f"W{last - 1}"], own[f"b{last - 1}"], view.ptr))
        values = values if rng is None else dropout(values, self.dropout, rng)
        return torch.sigmoid(grouped(values, own[f"W{last}"], own[f"b{last}"], view.ptr))

    def embed(
        self, params: Params, view: GraphsView, rng: Generator | None = None, first: Tensor | None = None
    ) -> Tensor:
        return self.joined(params, view, self.scores(params, view), rng, first)

    def predict(self, params: Params, view: GraphsView, scores: Tensor, rng: Generator | None = None) -> Tensor:
        """Compute outputs ``[K, r, C]`` where nodes are joined to virtual ones with weights ``scores`` ``[n, M]``."""
        return self.head(params, self.joined(params, view, scores, rng), rng)

    def joined(
        self,
        params: Params,
        view: GraphsView,
        scores: Tensor,
        rng: Generator | None = None,
        first: Tensor | None = None,
    ) -> Tensor:
        """Embed the graphs ``[K, r, H]``, of whose readout the virtual nodes are no part."""
        values = self.first(params, view) if first is None else first
        padding, shared = view.padding, self.mapped_virtual(params)
        weights = padding.spread(scores)
        states = shared[view.batches.client[view.batches.member]]
        for layer in range(2, self.layers + 2):
            # before the first layer all graphs of a client have the same virtual nodes: one product serves them all
            message = (
                grouped(scores, shared, None, view.ptr) if layer == 2 else padding.gather(torch.bmm(weights, states))
            )
            if layer <= self.layers:
                heard = torch.baddbmm(states, weights.transpose(1, 2), padding.spread(values))
                states = self.virtual_layer(params, layer, heard, view, rng)
            if self.inside:
                values = self.layer(params, layer, values + message, view, rng)
            else:
                values = self.layer(params, layer, values, view, rng) + message
        return view.pooled(values)

    def mapped_virtual(self, params: Params) -> Tensor:
        """Return the shared virtual nodes as the first layer finds them, ``[K, M, H]``."""
        if not self.raw:
            return params["Q1"]
        mapped = torch.bmm(params["Q1"], params["W1"])
        return mapped + params["b1"].unsqueeze(1) if "b1" in params else mapped

    def virtual_layer(
        self, params: Params, layer: int, values: Tensor, view: GraphsView, rng: Generator | None
    ) -> Tensor:
        """Apply the perceptron of the virtual nodes of every graph, ``[R, M, H]``."""
        graphs, ptr = len(values), [end * self.virtual for end in view.row_ptr]
        values = values.flatten(0, 1)
        for kind in ("virtual_inner_", "virtual_"):
            values = grouped(values, params[f"{kind}W{layer}"], params[f"{kind}b{layer}"], ptr)
            width, gain, shift = values.shape[1], params[f"{kind}gain{layer}"], params[f"{kind}shift{layer}"]
            values = batch_norm(values.view(graphs, self.virtual * width), gain, shift, view.batches, True)
            values = values.view(graphs * self.virtual, width)
        values = values if rng is None else dropout(values, self.dropout, rng)
        return values.view(graphs, self.virtual, self.hidden)
