"""FedED: FedAvg whose clients keep the received model's opinion on the classes they have never seen.

Paper: Guo et al., "Federated Learning with Empty-class Distillation" (arXiv 2401.02329; later FedVLS, AAAI 2025).
With training-class shares p_c = n_k^c / n_k, vacant classes O = {c : p_c = 0}, student logits f, received model's g:

Variants:
    fedlog   all that FedLoG says of its own implementation: the logits of missing classes stay near the global
             model's, L = CE(f) + lam * mean_i mean_{o in O} (f_o - g_o)^2, the second term 0 where O is empty.
    fedvls   as the authors' code, L = L_cal + lam * L_dis + suppression * L_logit:
             L_cal    cross-entropy of f_c + log(p_c + 1e-9)
             L_dis    mean_i KL(softmax_O(g) || softmax_O(f)): identically zero when a client misses one class (all
                      clients of CiteSeer and PubMed with K = 3)
             L_logit  sum_c p_c L^c, L^c = logsumexp_i u_ic - log N, with
                      u_ic = 1(y_i != c) (f_ic - log(p_c + 1e-9) + log(1/C + 1e-9)): the indicator multiplies the
                      logit, so a true-class row adds e^0 = 1 (the paper's appendix: 1(y_i != c) e^f, no prior, and
                      ``suppression`` 1 where the code has 0.005; it is not built).
    vacant   CE(f) + lam * L_dis: the distillation of fedvls without its calibration.
    rest     CE(f) + lam * mean_i KL(g || f) over O and one class more, all that are not vacant taken together, so that
             it is not zero where one class is missing.

Known differences from the authors' code: the protocol's optimiser, whose moments outlive rounds, in place of SGD begun
anew in each; the protocol's batches; a teacher in evaluation mode, computed once a round. Weights are averaged by
training nodes. Their lam is 1 by default and 0.1 in the command of their readme, which is ours but where validation
chose 1 (protocol fedlog_tuned). Which form and weight FedLoG ran is unknown; what ``vacant`` and ``rest`` do to its
cells: results/fedlog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.lazy import functional as F
from fgl_repro.core.lazy import lazy, torch
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl.clients import Clients
    from fgl_repro.fl.steps import LocalStep, Loss
    from fgl_repro.nn import ops
    from fgl_repro.nn.view import View
else:
    ops = lazy("fgl_repro.nn.ops")


@dataclass
class FedED(FedAvg[None]):
    """Attributes:
    lam: Weight of the distillation on vacant classes.
    suppression: Weight of L_logit; of ``fedvls`` alone.
    """

    name: ClassVar[str] = "feded"
    display: ClassVar[str] = "FedED"
    units: ClassVar[tuple[str, ...]] = ("node",)
    variants: ClassVar[tuple[str, ...]] = ("fedlog", "fedvls", "vacant", "rest")
    least: ClassVar[dict[str, float]] = {"lam": 0, "suppression": 0}

    variant: str = "fedlog"
    lam: float = 0.1
    suppression: float = 0.005

    def objective(self, clients: Clients, state: None, round: int) -> Loss:
        teacher = clients.teacher()
        return lambda step: self.distilled(clients, step, clients.logits(step, teacher), teacher.of(step))

    def distilled(self, clients: Clients, step: LocalStep, logits: Tensor, teacher: Tensor) -> Tensor:
        """Compute the variant's loss ``[K]`` from both models' logits ``[K, r, C]`` of a step."""
        vacant = (clients.class_counts == 0).unsqueeze(1)
        if self.variant == "fedlog":
            gap = ((logits - teacher) ** 2 * vacant).sum(-1) / vacant.sum(-1).clamp_min(1)
            return step.task_loss(logits) + self.lam * step.mean(gap)
        divergence = divergence_with_rest if self.variant == "rest" else restricted_divergence
        distilled = self.lam * step.mean(divergence(logits, teacher, vacant))
        if self.variant != "fedvls":
            return step.task_loss(logits) + distilled
        log_prior = (clients.prior + 1e-9).log().unsqueeze(1)
        calibrated = step.task_loss(logits + log_prior)
        suppression = suppressed(logits, clients.prior, log_prior, step.view)
        return calibrated + distilled + self.suppression * suppression


def restricted_divergence(student: Tensor, teacher: Tensor, vacant: Tensor) -> Tensor:
    """Compute KL(teacher || student) of the softmaxes over the vacant classes, per row ``[K, r]``; 0 without any."""
    # A finite floor, not -inf: a client without vacant classes would otherwise turn into NaN.
    log_f = torch.log_softmax(student.masked_fill(~vacant, -1e9), -1)
    log_g = torch.log_softmax(teacher.masked_fill(~vacant, -1e9), -1)
    return (log_g.exp() * (log_g - log_f) * vacant).sum(-1)


def divergence_with_rest(student: Tensor, teacher: Tensor, vacant: Tensor) -> Tensor:
    """Compute KL(teacher || student) per row ``[K, r]`` over vacant classes and all others as one; 0 without any."""

    def grouped(logits: Tensor) -> Tensor:
        log_p = torch.log_softmax(logits, -1)
        rest = torch.logsumexp(log_p.masked_fill(vacant, -1e9), -1, keepdim=True)
        return torch.cat([log_p.masked_fill(~vacant, -1e9), rest], -1)

    log_f, log_g = grouped(student), grouped(teacher)
    return ops.kl_divergence(log_g, log_f)


def suppressed(logits: Tensor, prior: Tensor, log_prior: Tensor, view: View) -> Tensor:
    """Return L_logit of the authors' code ``[K]`` from logits ``[K, r, C]``, class shares ``[K, C]`` and their logs."""
    classes = logits.shape[-1]
    other = ~F.one_hot(view.labels, classes).bool()
    real = view.mask.unsqueeze(-1).bool()
    uniform = torch.log(torch.tensor(1 / classes + 1e-9, device=logits.device))
    level = ((logits - log_prior + uniform) * other).masked_fill(~real, -torch.inf)
    mean = torch.logsumexp(level, 1) - view.counts.log().unsqueeze(1)
    return (prior * mean).sum(-1)
