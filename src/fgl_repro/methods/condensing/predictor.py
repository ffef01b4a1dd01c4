"""The link predictor: a network that says of every two nodes how strongly they are linked.

It is linear, batch norm, ReLU twice, linear, over pairs ``[x_i | x_j]``. Its two batch norms take their statistics
from all M^2 pairs. So many rows do not fit into a cache, and most operations would wait for memory; here they are
computed a few nodes at a time, forward and backward, and only the second layer is ever written whole: not even that
where it has more than ``KEPT`` values, which would fill a machine's memory. It is then computed again for every pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise, zip_longest
from typing import Any

import torch
from torch import Generator, Tensor

from fgl_repro.nn.models.model import Params
from fgl_repro.nn.ops import fan_in

EPSILON = 1e-5
"""Added to variances, as torch's batch norm does."""
PIECE = 2048
"""Pairs that are computed at a time on a CPU."""
KEPT = 2**29
"""Values, 2 GiB of them, up to which the second layer, or what a sum is of, is kept; and the size of a GPU's piece."""


def predictor(width: int, hidden: int, rng: Generator) -> Params:
    """Draw the weights of the link predictor, the first map in two halves."""
    sizes, out = (2 * width, hidden, hidden, 1), {}
    for layer, (a, b) in enumerate(pairwise(sizes), 1):
        out[f"W{layer}"], out[f"b{layer}"] = fan_in((a, b), a, rng), fan_in((b,), a, rng)
        if layer < len(sizes) - 1:
            out[f"gain{layer}"], out[f"shift{layer}"] = torch.ones(b), torch.zeros(b)
    return out


def predicted(net: Params, features: Tensor) -> Tensor:
    """Tell what the predictor says of every two nodes ``[M, M]``, 0 of a node and itself, from features ``[M, d]``."""
    names = "W1", "gain1", "shift1", "W2", "gain2", "shift2", "W3", "b3"
    found: Tensor = _Predicted.apply(features, *(net[name] for name in names))  # type: ignore[no-untyped-call]
    return found


class _Predicted(torch.autograd.Function):
    """The predictor with its gradient written out.

    The first map of a pair is that of x_i, ``left``, plus that of x_j, ``right``, so that means and variances over
    pairs are sums of those over nodes. Biases before a batch norm cancel: ``b1`` and ``b2`` have no part in anything.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, *net: Tensor) -> Tensor:
        first, gain1, shift1, second, gain2, shift2, last, bias = net
        nodes, pairs = len(features), len(features) ** 2
        rows = max((PIECE if features.device.type == "cpu" else KEPT // second.shape[1]) // nodes, 1)
        both = torch.bmm(features.expand(2, -1, -1), first.view(2, features.shape[1], -1))
        both -= both.mean(1, keepdim=True)
        inverse1 = ((both * both).sum((0, 1)) / nodes + EPSILON).rsqrt()
        left, right = torch.addcmul(shift1 / 2, both, gain1 * inverse1).unbind()
        values = left.new_empty(pairs if pairs * second.shape[1] <= KEPT else 0, second.shape[1])
        kept = torch.split(values, rows * nodes) if len(values) else ()
        number = -(-nodes // rows)
        mean = summed((out.sum(0) for out in second_layer(left, right, second, rows, kept)), number) / pairs
        pieces = centred(mean, kept or second_layer(left, right, second, rows))
        inverse2 = (summed(((out * out).sum(0) for out in pieces), number) / pairs + EPSILON).rsqrt()
        scale2, half = gain2 * inverse2, last / 2
        found = left.new_empty(pairs, 1)
        again = kept or centred(mean, second_layer(left, right, second, rows))
        for out, own in zip(again, torch.split(found, rows * nodes), strict=True):
            torch.mm(torch.addcmul(shift2, out, scale2).relu_(), half, out=own)
        found = found.view(nodes, nodes)
        found = (found + found.T).add_(bias).sigmoid_().fill_diagonal_(0)
        ctx.save_for_backward(features, *net, both, inverse1, left, right, values, mean, inverse2, found)
        ctx.rows = rows
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features, first, gain1, _, second, gain2, shift2, last, _ = ctx.saved_tensors[:9]
        both, inverse1, left, right, values, mean, inverse2, found = ctx.saved_tensors[9:]
        nodes, scale1, scale2, row = len(features), gain1 * inverse1, gain2 * inverse2, last.squeeze(1) / 2
        grad = torch.ops.aten.sigmoid_backward(grad, found)
        own = (grad + grad.T).view(-1, 1)  # twice what comes in by each: hence ``row`` is half of ``last``
        owns, kept = torch.split(own, ctx.rows * nodes), torch.split(values, ctx.rows * nodes) if len(values) else ()

        def pieces() -> Iterator[tuple[Tensor, Tensor]]:
            """Pair the second layer less its mean with what comes in, a piece at a time."""
            return zip(kept or centred(mean, second_layer(left, right, second, ctx.rows)), owns, strict=True)

        def passed(value: Tensor, grad: Tensor) -> Tensor:
            """Pass the gradient where the second ReLU lets it through, not yet times ``last``."""
            return through(grad.expand_as(value), torch.addcmul(shift2, value, scale2))

        sums = Sum(len(owns)), Sum(len(owns))
        for value, grad in pieces():
            some = passed(value, grad)
            sums[0].add(some.sum(0))
            sums[1].add(some.mul_(value).sum(0))
        total, product = sums[0].result(), sums[1].result() * inverse2
        slope = scale2 * row
        shared = slope / -(nodes**2)
        offset, tilt = shared * total, shared * product * inverse2
        d_left, d_right, d_second = torch.empty_like(left), Sum(len(owns)), Sum(len(owns))
        starts = zip(*(torch.split(part, ctx.rows) for part in (left, d_left)), strict=True)
        for (start, d_start), (value, grad) in zip(starts, pieces(), strict=True):
            back = passed(value, grad).mul_(slope).addcmul_(value, tilt).add_(offset)
            hidden = (start.unsqueeze(1) + right).flatten(0, 1)
            early = through(back @ second.T, hidden).view(-1, nodes, hidden.shape[1])
            torch.sum(early, 1, out=d_start)
            d_right.add(early.sum(0))
            if ctx.needs_input_grad[4]:
                d_second.add(hidden.relu_().T @ back)
        d_both = torch.stack([d_left, d_right.result()])
        d_sum = d_both.sum(1)
        d_scale = (d_both * both).sum((0, 1))
        d_both = torch.add(d_both, d_sum.unsqueeze(1), alpha=-1 / nodes).mul_(scale1)
        d_both.addcmul_(both, d_scale * scale1 * inverse1**2 / -nodes)
        halves = first.view(2, features.shape[1], -1)
        d_features = torch.bmm(d_both, halves.transpose(1, 2)).sum(0) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return d_features, *[None] * 8
        d_first = torch.bmm(features.T.expand(2, -1, -1), d_both).view_as(first)
        d_last = (gain2 * product + shift2 * total).unsqueeze(1) / 2
        ends = row * product, row * total, d_last, own.sum().view(1) / 2
        return d_features, d_first, d_scale * inverse1, d_sum[0], d_second.result(), *ends


def second_layer(
    left: Tensor, right: Tensor, second: Tensor, rows: int, outs: Iterable[Tensor] = ()
) -> Iterator[Tensor]:
    """Yield the second map of all pairs, ``rows`` nodes at a time ``[rows * M, hidden]``, in ``outs`` where given."""
    for own, out in zip_longest(torch.split(left, rows), outs):
        yield torch.mm((own.unsqueeze(1) + right).relu_().flatten(0, 1), second, out=out)


def centred(mean: Tensor, pieces: Iterable[Tensor]) -> Iterator[Tensor]:
    """Subtract ``mean`` ``[hidden]`` from the pieces, in place."""
    return (piece.sub_(mean) for piece in pieces)


class Sum:
    """A sum of ``number`` tensors of one shape, in torch's order unless they are more than ``KEPT`` values.

    They are written into one place: tensors kept in a list lie between those that are freed, whose memory glibc then
    does not use again.
    """

    def __init__(self, number: int) -> None:
        self.number, self.count, self.parts = number, 0, torch.empty(0)

    def add(self, part: Tensor) -> None:
        """Add one more of them."""
        if not self.count:
            self.parts = part.new_empty(min(self.number, max(KEPT // part.numel(), 2)), *part.shape)
        if self.count == len(self.parts):
            self.parts[0], self.count = self.parts.sum(0), 1
        self.parts[self.count] = part
        self.count += 1

    def result(self) -> Tensor:
        """Return the sum of those so far."""
        return self.parts[: self.count].sum(0)


def summed(parts: Iterable[Tensor], number: int) -> Tensor:
    """Sum ``number`` tensors of one shape."""
    total = Sum(number)
    for part in parts:
        total.add(part)
    return total.result()


def through(grad: Tensor, values: Tensor) -> Tensor:
    """Pass a gradient where ``values`` are above 0, 0 elsewhere: what ReLU's own backward does, faster than a mask."""
    out: Tensor = torch.ops.aten.threshold_backward(grad, values, 0)
    return out
