"""The link predictor: a network that says of every two nodes how strongly they are linked.

It is linear, batch norm, ReLU twice, linear, over pairs ``[x_i | x_j]``. Its two batch norms take their statistics
from all M^2 pairs. So many rows do not fit into a cache, and most operations would wait for memory; here they are
computed a few nodes at a time, forward and backward, and only the second layer is ever written whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Generator, Tensor

from fgl_repro.nn.models.model import Params
from fgl_repro.nn.ops import fan_in

EPSILON = 1e-5
"""Added to variances, as torch's batch norm does."""
PIECE = 2048
"""Pairs that are computed at a time on a CPU."""


def predictor(width: int, hidden: int, rng: Generator) -> Params:
    """Weights of the link predictor, the first map in two halves."""
    sizes, out = (2 * width, hidden, hidden, 1), {}
    for layer, (a, b) in enumerate(pairwise(sizes), 1):
        out[f"W{layer}"], out[f"b{layer}"] = fan_in((a, b), a, rng), fan_in((b,), a, rng)
        if layer < len(sizes) - 1:
            out[f"gain{layer}"], out[f"shift{layer}"] = torch.ones(b), torch.zeros(b)
    return out


def predicted(net: Params, features: Tensor) -> Tensor:
    """What the predictor says of every two nodes ``[M, M]``, of nodes and themselves, too, from features ``[M, d]``.

    The first map of a pair is that of x_i plus that of x_j, so that means and variances over pairs are sums of those
    over nodes. Biases before a batch norm cancel: ``b1`` and ``b2`` are sent along and have no gradient.
    """
    both = torch.bmm(features.expand(2, -1, -1), net["W1"].view(2, features.shape[1], -1))
    apart = both - both.mean(1, keepdim=True)
    scale = net["gain1"] * (apart.square().mean(1).sum(0) + EPSILON).rsqrt()
    left, right = (apart * scale).unbind()
    left = left + net["shift1"]
    logits: Tensor = _Pairs.apply(left, right, net["W2"], net["gain2"], net["shift2"], net["W3"])  # type: ignore[no-untyped-call]
    return torch.sigmoid((logits + logits.T) / 2 + net["b3"])


class _Pairs(torch.autograd.Function):
    """``norm(relu(left_i + right_j) @ weight)``, ReLU and ``@ last``, of every two nodes ``[M, M]``.

    Shapes: ``left`` and ``right`` ``[M, H]``, ``weight`` ``[H, H]``, ``gain`` and ``shift`` of the batch norm ``[H]``,
    ``last`` ``[H, 1]``.
    """

    @staticmethod
    def forward(
        ctx: Any, left: Tensor, right: Tensor, weight: Tensor, gain: Tensor, shift: Tensor, last: Tensor
    ) -> Tensor:
        nodes = len(left)
        some = max(PIECE // nodes, 1) if left.device.type == "cpu" else nodes
        values = left.new_empty(nodes * nodes, weight.shape[1])
        pieces = torch.split(values, some * nodes)
        for own, out in zip(torch.split(left, some), pieces, strict=True):
            torch.mm((own.unsqueeze(1) + right).relu_().flatten(0, 1), weight, out=out)
        near = pieces[0].mean(0)  # so that the variance is no difference of large numbers
        sums = [(apart.sum(0), apart.square_().sum(0)) for apart in (out - near for out in pieces)]
        mean, square = (added(parts) / len(values) for parts in zip(*sums, strict=True))
        inverse = (square - mean**2 + EPSILON).rsqrt()
        offset = -(near + mean) * inverse
        found = [
            torch.addcmul(shift, torch.addcmul(offset, out, inverse, out=out), gain).relu_() @ last for out in pieces
        ]
        ctx.save_for_backward(left, right, weight, gain, shift, last, values, inverse)
        ctx.some = some
        return torch.cat(found).view(nodes, nodes)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        left, right, weight, gain, shift, last, values, inverse = ctx.saved_tensors
        nodes, row, factor = len(left), last.squeeze(1), gain * inverse
        pieces = list(
            zip(*(torch.split(part, ctx.some * nodes) for part in (values, grad.reshape(-1, 1))), strict=True)
        )

        def passed(normal: Tensor, own: Tensor) -> Tensor:
            """The gradient where the second ReLU lets it through, not yet times ``last``."""
            return through(own.expand_as(normal), torch.addcmul(shift, normal, gain))

        sums = [(some.sum(0), some.mul_(normal).sum(0)) for normal, own in pieces for some in [passed(normal, own)]]
        total, product = (added(parts) for parts in zip(*sums, strict=True))
        per_pair = -factor * row / len(values)
        d_left, d_right, d_weight = [], [], []
        for own_left, (normal, own) in zip(torch.split(left, ctx.some), pieces, strict=True):
            slope = passed(normal, own).mul_(factor * row).addcmul_(normal, per_pair * product).add_(per_pair * total)
            hidden = (own_left.unsqueeze(1) + right).flatten(0, 1)
            back = through(slope @ weight.T, hidden).view(-1, nodes, hidden.shape[1])
            d_left.append(back.sum(1))
            d_right.append(back.sum(0))
            if ctx.needs_input_grad[2]:
                d_weight.append(hidden.relu_().T @ slope)
        d_last = (gain * product + shift * total).unsqueeze(1)
        weights = added(d_weight) if d_weight else None
        return torch.cat(d_left), added(d_right), weights, row * product, row * total, d_last


def added(parts: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape."""
    return parts[0] if len(parts) == 1 else torch.stack(list(parts)).sum(0)


def through(grad: Tensor, values: Tensor) -> Tensor:
    """A gradient where ``values`` are above 0, 0 elsewhere: what ReLU's own backward does, faster than a mask."""
    out: Tensor = torch.ops.aten.threshold_backward(grad, values, 0)
    return out
