"""O-pFGL's server: it makes a small graph whose class statistics are those of all clients' labelled nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fgl_repro.core.device import one_thread
from fgl_repro.fl.optim import StackedAdam
from fgl_repro.fl.phase import Turn
from fgl_repro.methods.condensing.predictor import predicted, predictor
from fgl_repro.methods.opfgl.statistics import Pooled
from fgl_repro.methods.opfgl.surrogate import ONE_THREAD_BELOW, Surrogate
from fgl_repro.nn.models.model import Params

if TYPE_CHECKING:
    from fgl_repro.methods.opfgl.method import OpFGL

CYCLE, LINKS = 50, 10
"""Of so many iterations in turn, the first so many train the link predictor, the others the features."""
WEAKEST_LINK = 0.01
"""Links of no more than this weight are none."""


class SurrogateTraining:
    """The training of a surrogate graph (equations 10 to 13); a turn of the phase is a cycle of iterations.

    Args:
        labels: Class of each surrogate node, ascending, int64 ``[M]``.
    """

    def __init__(self, method: OpFGL, pooled: Pooled, labels: Tensor, rng: Generator) -> None:
        device = labels.device
        self.labels, self.hops = labels, method.hops
        counts = torch.bincount(labels, minlength=len(pooled.share)).float()
        self.belongs = F.one_hot(labels, len(pooled.share)).float()
        self.mean, self.std, share = (
            torch.from_numpy(part).float().to(device) for part in (pooled.mean, pooled.std, pooled.share)
        )
        width = self.mean.shape[1] // (self.hops + 1)
        self.average, self.deviate = (
            self.belongs.T / least.clamp_min(1).unsqueeze(1) for least in (counts, counts - 1)
        )
        self.means = (method.align * share * (counts > 0) / self.mean.shape[1]).unsqueeze(1)
        self.stds = self.means * (counts > 1).unsqueeze(1) if bool((counts > 1).any()) else None
        self.smooth, self.loops = method.smooth, torch.eye(len(labels), device=device)
        self.features = {"X": torch.randn(len(labels), width, generator=rng).to(device).requires_grad_()}
        self.net = {
            name: value.to(device).requires_grad_()
            for name, value in initial_links(method.linking, len(labels), width, method.links, rng).items()
        }
        self.links_of = LINKINGS[method.linking]
        trained = (self.features, method.lr_features), (self.net, method.lr_links)
        self.optimisers = [StackedAdam(part, rate) for part, rate in trained if part]

    def iterate(self, number: int) -> Tensor:
        """Run one iteration, a step of the link predictor or of the features; return the loss before it."""
        of_links = bool(self.net) and number % CYCLE < LINKS
        optimiser, net, features = self.optimisers[of_links], self.net, self.features["X"]
        if of_links:  # no gradient is worked out that no step takes
            features = features.detach()
        else:
            net = {name: value.detach() for name, value in net.items()}
        links = self.links_of(net, features)
        loss: Tensor = _Loss.apply(self, features, links)  # type: ignore[no-untyped-call]
        optimiser.step(list(torch.autograd.grad(loss, optimiser.params, materialize_grads=True)))
        return loss.detach()

    def loss(self, features: Tensor, links: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the loss and its gradients by features ``[M, d]`` and symmetric links ``[M, M]``."""
        aligned, d_features, d_links = self.alignment(features, links)
        smooth, d_more, d_others = smoothness(features, links)
        weight = self.smooth
        return aligned + weight * smooth, d_features.add_(d_more, alpha=weight), d_links.add_(d_others, alpha=weight)

    def alignment(self, features: Tensor, links: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Average squared distances of class means and stds from pooled ones, weighted by lambda; give gradients."""
        looped = links + self.loops
        scale = looped.sum(1).rsqrt()
        pairs = torch.outer(scale, scale)
        step, parts = looped * pairs, [features]
        for _ in range(self.hops):
            parts.append(step @ parts[-1])
        z = torch.cat(parts, dim=1)
        mean = self.average @ z
        gap = mean - self.mean
        slope = self.means * gap
        loss, d_z = (slope * gap).sum(), self.average.T @ slope
        if self.stds is not None:
            apart = z - self.belongs @ mean
            std = (self.deviate @ apart.square()).clamp_min_(1e-12).sqrt_()
            gap = std - self.std
            slope = self.stds * gap
            loss = loss + (slope * gap).sum()
            d_z += apart * (self.deviate.T @ (slope / std))  # nothing comes by the means: classes' sums of apart are 0
        *early, last = torch.split(2 * d_z, features.shape[1], dim=1)
        d_step = torch.zeros_like(step)
        for inputs, more in zip(parts[-2::-1], reversed(early), strict=True):
            d_step += last @ inputs.T
            last = torch.addmm(more, step, last)
        d_degree = ((d_step + d_step.T) * looped) @ scale * scale**3 / -2
        return loss, last, (d_step * pairs).add_(d_degree.unsqueeze(1))

    def turn(self, first: int, last: int) -> Turn:
        """Run the iterations from ``first`` up to, not including, ``last``."""
        with one_thread(len(self.labels) < ONE_THREAD_BELOW):
            for number in range(first, last):
                loss = self.iterate(number)
        return Turn({"loss": float(loss)})

    def result(self) -> Surrogate:
        """Return the graph as it is now."""
        with torch.no_grad():
            features = self.features["X"].detach()
            return Surrogate(features, self.links_of(self.net, features), self.labels)


def initial_links(linking: str, nodes: int, width: int, hidden: int, rng: Generator) -> Params:
    """Draw what links are learnt with, before it is trained: a predictor, a matrix ``[M, M]``, or nothing."""
    if linking == "matrix":
        return {"links": torch.randn(nodes, nodes, generator=rng)}
    return predictor(width, hidden, rng) if linking == "predictor" else {}


def predictor_links(net: Params, features: Tensor) -> Tensor:
    """Predict link weights of every two nodes ``[M, M]`` from their features ``[M, d]``."""
    return without_weak(predicted(net, features))


def matrix_links(net: Params, features: Tensor) -> Tensor:
    """Return link weights ``[M, M]`` that are learnt themselves, as logits."""
    return without_weak(without_diagonal(torch.sigmoid((net["links"] + net["links"].T) / 2)))


def dot_links(net: Params, features: Tensor) -> Tensor:
    """Return link weights ``[M, M]`` that are dot products of features of length 1; those below 0 are no links."""
    unit = F.normalize(features, dim=1)
    return without_weak(without_diagonal(unit @ unit.T))


def without_diagonal(weight: Tensor) -> Tensor:
    """Return weights ``[M, M]`` without the diagonal."""
    return weight * (1 - torch.eye(len(weight), device=weight.device))


def without_weak(weight: Tensor) -> Tensor:
    """Return weights ``[M, M]`` without those that are too small."""
    return F.threshold(weight, WEAKEST_LINK, 0.0)


LINKINGS: dict[str, Callable[[Params, Tensor], Tensor]] = {
    "predictor": predictor_links,
    "matrix": matrix_links,
    "dot": dot_links,
}


def smoothness(features: Tensor, links: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Average over links, by weight, exp(-(x_i - x_j)^2 / 2), itself a mean over features; give gradients, too."""
    apart = features.unsqueeze(1) - features
    near = (apart * apart).mul_(-0.5).exp_()
    alike, total = near.mean(2), links.sum().clamp_min_(1e-12)
    loss = (links * alike).sum() / total
    slope = links * (-2 / features.shape[1]) / total
    d_features = torch.bmm(slope.unsqueeze(1), apart.mul_(near)).squeeze(1)
    return loss, d_features, (alike - loss) / total


class _Loss(torch.autograd.Function):
    """A condensation's loss, of which it works out the gradients itself."""

    @staticmethod
    def forward(ctx: Any, work: SurrogateTraining, features: Tensor, links: Tensor) -> Tensor:
        loss, *slopes = work.loss(features, links)
        ctx.save_for_backward(*slopes)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, *(grad * slope for slope in ctx.saved_tensors)
