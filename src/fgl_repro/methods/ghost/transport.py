"""Fused Gromov-Wasserstein couplings of K pairs of graphs (GHOST's alignment of structure).

A coupling T ``[n, n]`` has row and column sums 1/n and makes

    (1 - a) sum_ij T_ij M_ij + a sum_ijkl (A_ik - B_jl)^2 T_ij T_kl

small, where M are costs of features and A, B structures. Proximal steps go for all pairs at once and stop before its
least; conditional gradients go on to one, pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

ITERATIONS, SCALINGS = 10, 5
SHARP = 0.3
"""Strength of the pull to the coupling before, as a share of the mean cost: smaller is faster and rougher."""
MOST, LEAST = 100, 1e-6
"""Most conditional gradients, and the length of a step that is the last one."""


@torch.no_grad()
def proximal(cost: Tensor, mask: Tensor, ours: Callable[[Tensor], Tensor], theirs: Tensor | None, a: float) -> Tensor:
    """Find T of each client ``[K, n, n]``, from the product of both uniform distributions.

    Every step is T <- Sinkhorn(T * exp(-gradient / b)), the proximal point method in the Kullback-Leibler geometry,
    whose limit has no entropy in it.

    Args:
        cost: M ``[K, n, n]``.
        mask: 1.0 at rows that are some, ``[K, n]``.
        ours: Product with symmetric A, ``[K, n, m] -> [K, n, m]``, a new tensor; entries of A are 0 or 1.
        theirs: Symmetric B ``[K, n, n]``, the same; None: the identity.
        a: Weight of structure.
    """
    share = mask / mask.sum(1, keepdim=True).clamp_min(1)
    pairs = mask.unsqueeze(2) * mask.unsqueeze(1)
    found = share.unsqueeze(2) * share.unsqueeze(1)
    # With entries 0 or 1, squares are the entries, and sums over a row of T are known: only the product is left.
    row = ours(share.unsqueeze(2))
    column = share if theirs is None else (theirs @ share.unsqueeze(2)).squeeze(2)
    fixed = (1 - a) * cost + 2 * a * (row + column.unsqueeze(1))
    scale = SHARP * ((fixed * found).sum((1, 2)) + 1e-12).view(-1, 1, 1)
    fixed = (fixed / -scale).masked_fill_(pairs == 0, -torch.inf)  # nothing goes to or comes from where nobody is
    for _ in range(ITERATIONS):
        crossed = ours(found) if theirs is None else ours(found) @ theirs
        slope = torch.addcmul(fixed, crossed, 4 * a / scale, out=crossed)
        slope.sub_(slope.amax(2, keepdim=True).nan_to_num_(neginf=0.0)).exp_()
        found.mul_(slope)
        for _ in range(SCALINGS):
            found.mul_((share / found.sum(2).clamp_min_(1e-30)).unsqueeze(2))
            found.mul_((share / found.sum(1).clamp_min_(1e-30)).unsqueeze(1))
    return found


@torch.no_grad()
def conditional(
    cost: Tensor, mask: Tensor, ours: Callable[[Tensor], Tensor], theirs: Tensor | None, a: float
) -> Tensor:
    """Find the same as :func:`proximal`, by conditional gradients (Vayer et al., 2019).

    Every step goes to the permutation that falls most along the gradient, and as far as the sum falls. Rows that are
    some come first.
    """
    out = torch.zeros_like(cost)
    near = ours(torch.eye(cost.shape[1], device=cost.device).expand(cost.shape).contiguous())
    for k, size in enumerate(mask.sum(1).long().tolist()):
        own = (k, slice(size), slice(size))
        far = np.eye(size) if theirs is None else theirs[own].double().cpu().numpy()
        found = _descended(cost[own].double().cpu().numpy(), near[own].double().cpu().numpy(), far, a)
        out[own] = torch.from_numpy(found).to(cost)
    return out


def _descended(cost: np.ndarray, ours: np.ndarray, theirs: np.ndarray, a: float) -> np.ndarray:
    """Find the coupling ``[n, n]`` of one pair of graphs with as many nodes.

    Squares of A and B weigh the same in every coupling, since its sums are given: (1 - a) M . T - 2 a (A T B) . T is
    what falls.
    """
    if not np.isfinite(cost).all():
        return np.full(cost.shape, np.nan)  # training has diverged, which its loss then tells
    size = max(len(cost), 1)
    found = np.full(cost.shape, 1 / size**2)
    for _ in range(MOST):
        gradient = (1 - a) * cost - 4 * a * ours @ found @ theirs
        step = -found
        step[linear_sum_assignment(gradient)] += 1 / size
        slope, bend = (gradient * step).sum(), -2 * a * ((ours @ step @ theirs) * step).sum()
        length = min(-slope / (2 * bend), 1.0) if bend > 0 else float(slope + bend < 0)
        if length < LEAST:
            break
        found += length * step
    return found


def squared_distances(x: Tensor, y: Tensor, times: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Compute squared distances of every two rows: ``[K, n, d]`` and ``[K, m, d]`` to ``[K, n, m]``.

    Args:
        times: Product with ``x`` of the one client that there is, ``[d, m] -> [n, m]``, if its rows are sparse.
    """
    twice = 2 * x @ y.transpose(1, 2) if times is None else 2 * times(y[0].T.contiguous()).unsqueeze(0)
    return (x.square().sum(2).unsqueeze(2) + y.square().sum(2).unsqueeze(1) - twice).clamp_min(0)
