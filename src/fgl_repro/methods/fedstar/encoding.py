"""Where in its graph a node is, in 32 numbers, from links alone."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fgl_repro.nn.graphs import Inside, spans

STEPS = DEGREES = 16
CELLS = 1 << 18
"""Entries of the dense matrices that are multiplied at a time."""

WIDTHS = {"both": STEPS + DEGREES, "walks": STEPS, "degrees": DEGREES}
"""Numbers of a node, by what they tell."""


def encoding(inside: Inside, half: str = "both") -> Tensor:
    """Encode each inner node: :func:`return_probabilities`, and a one at its degree, clipped to 1..16.

    Returns:
        Both, ``[M, 32]``, or the one that is ``half`` (``walks``, ``degrees``), ``[M, 16]``.
    """
    parts: list[Tensor] = [] if half == "degrees" else [return_probabilities(inside)]
    if half != "walks":
        ones = torch.from_numpy(np.clip(np.diff(inside.start), 1, DEGREES) - 1)
        parts.append(torch.nn.functional.one_hot(ones, DEGREES).float())
    return torch.cat(parts, dim=1)


def return_probabilities(inside: Inside) -> Tensor:
    """Compute the probabilities that a random walk from each inner node is back there after 1 to 16 steps, ``[M, 16]``.

    They stand on the diagonal of (A D^-1)^t, which is that of S^t with S = D^-1/2 A D^-1/2. As S is symmetric, the
    diagonal of S^(a + b) has the scalar products of the rows of S^a and S^b, so that half the powers do. Graphs are
    dense matrices of the size of the largest among some of like size.
    """
    sizes, degree = np.diff(inside.ptr), np.diff(inside.start)
    scale = np.maximum(degree, 1).astype(np.float32) ** -0.5
    found = torch.zeros(len(degree), STEPS)
    order, done = np.argsort(-sizes, kind="stable"), 0
    while done < len(order) and (width := int(sizes[order[done]])):
        some = order[done : done + max(CELLS // width**2, 1)]
        done += len(some)
        nodes, row = spans(inside.ptr[some], sizes[some]), spans(np.arange(len(some)) * width, sizes[some])
        links, each = spans(inside.start[nodes], degree[nodes]), degree[nodes]
        to = inside.to[links]
        there = to + np.repeat(np.repeat(inside.ptr[some], sizes[some]), each)
        step = torch.zeros(len(some) * width, width)
        step[np.repeat(row, each), to] = torch.from_numpy(np.repeat(scale[nodes], each) * scale[there])
        step = step.view(-1, width, width)
        before, power = torch.eye(width).expand_as(step), step
        kept = torch.from_numpy(row)
        for half in range(0, STEPS, 2):
            for number, other in ((half, before), (half + 1, power)):
                found[nodes, number] = (power * other).sum(2).flatten()[kept]
            before, power = power, torch.bmm(power, step)
    return found
