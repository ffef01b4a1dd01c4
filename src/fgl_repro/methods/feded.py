"""FedED: FedAvg with a class-prior calibrated loss and distillation of the classes a client has never seen.

Paper: Guo et al., "Federated Learning with Empty-class Distillation" (arXiv 2401.02329; later FedVLS, AAAI 2025).
With training-class shares p_c = n_k^c / n_k, vacant classes O = {c : p_c = 0}, student logits f, received model's g:

    L = L_cal + lam * L_dis + suppression * L_logit
    L_cal    cross-entropy of f_c + log(p_c + 1e-9)
    L_dis    see the variants; 0 where O is empty
    L_logit  sum_c p_c L^c

Variants:
    fedlog   as FedLoG words it: the logits of missing classes stay near the global model's,
             L_dis = mean_i mean_{o in O} (f_o - g_o)^2; L^c = log mean_i 1(y_i != c) exp(f_ic) (FedED's appendix).
    fedvls   as the authors' code: L_dis = mean_i KL(softmax_O(g) || softmax_O(f)), identically zero when a client
             misses one class (all clients of CiteSeer and PubMed with K = 3); in L^c the prior is taken off, the
             indicator multiplies the logit (a true-class row adds e^0 = 1), u_ic = 1(y_i != c)
             (f_ic - log(p_c + 1e-9) + log(1/C + 1e-9)), L^c = logsumexp_i u_ic - log N.

Known differences from the authors' code: the protocol's Adam in place of SGD, one full batch, teacher in evaluation
mode and cached for the round. Which form FedLoG ran is unknown. Weights are averaged by training nodes.
Tables: FedLoG 1, 2, 5, 6, 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.lazy import functional as F
from fgl_repro.lazy import torch
from fgl_repro.methods.fedavg import FedAvg

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl.clients import Clients


@dataclass
class FedED(FedAvg):
    name: ClassVar[str] = "feded"
    display: ClassVar[str] = "FedED"
    variants: ClassVar[tuple[str, ...]] = ("fedlog", "fedvls")

    variant: str = "fedlog"
    lam: float = 0.1
    suppression: float = 0.005

    def remember(self, clients: Clients, round: int) -> Tensor:
        return clients.frozen_logits()

    def loss(self, clients: Clients, logits: Tensor, memory: Tensor, round: int) -> Tensor:
        log_prior = (clients.prior + 1e-9).log().unsqueeze(1)
        calibrated = clients.cross_entropy(logits + log_prior)
        distilled = clients.mean(self.vacant_gap(logits, memory, clients))
        return calibrated + self.lam * distilled + self.suppression * self.suppressed(logits, log_prior, clients)

    def vacant_gap(self, student: Tensor, teacher: Tensor, clients: Clients) -> Tensor:
        """Distance of student and teacher on the vacant classes, per row ``[K, r]``."""
        vacant = (clients.class_counts == 0).unsqueeze(1)
        if self.variant == "fedlog":
            gap = ((student - teacher) ** 2 * vacant).sum(-1)
            return gap / vacant.sum(-1).clamp_min(1)
        # A finite floor, not -inf: a client without vacant classes would otherwise turn into NaN.
        log_f = torch.log_softmax(student.masked_fill(~vacant, -1e9), -1)
        log_g = torch.log_softmax(teacher.masked_fill(~vacant, -1e9), -1)
        return (log_g.exp() * (log_g - log_f) * vacant).sum(-1)

    def suppressed(self, logits: Tensor, log_prior: Tensor, clients: Clients) -> Tensor:
        """L_logit, ``[K]``: the share-weighted log-mean-exp of each class's logits on rows of other classes."""
        classes = logits.shape[-1]
        other = ~F.one_hot(clients.train.labels, classes).bool()
        real = clients.train.mask.unsqueeze(-1).bool()
        if self.variant == "fedlog":
            level = logits.masked_fill(~(other & real), -torch.inf)
        else:
            uniform = torch.log(torch.tensor(1 / classes + 1e-9, device=logits.device))
            level = ((logits - log_prior + uniform) * other).masked_fill(~real, -torch.inf)
        mean = torch.logsumexp(level, 1) - clients.train.counts.log().unsqueeze(1)
        # A class that every row has leaves no "other" row: log 0, and nothing to suppress.
        return torch.where(torch.isfinite(mean), clients.prior * mean, 0.0).sum(-1)
