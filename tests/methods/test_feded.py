"""FedED: the losses of both variants by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.methods.feded import FedED, divergence_with_rest, restricted_divergence
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


def test_feded_distils_vacant_classes_only(world: World) -> None:
    config = make_config("feded", "fedlog", **{"method.lam": 0.5})
    clients = make_clients(world, config)
    method = config.method
    assert isinstance(method, FedED)
    step = next(clients.steps(1))
    student, teacher = torch.randn(2, *step.view.labels.shape, 4)
    loss = method.distilled(clients, step, student, teacher)
    for k in range(3):
        rows = step.view.mask[k].bool()
        vacant = [c for c in range(4) if clients.class_counts[k, c] == 0]
        assert vacant, "every client of this world misses a class"
        ce = F.cross_entropy(student[k][rows], step.view.labels[k][rows])
        gap = ((student - teacher)[k][rows][:, vacant] ** 2).mean()
        assert loss[k].item() == pytest.approx((ce + 0.5 * gap).item(), abs=1e-5)


def test_feded_as_its_authors_wrote_it(toy_graph: Graph) -> None:
    """Clients have several classes here, or nothing would be suppressed."""
    world = worlds.build("plain", toy_graph, "random", 3)
    config = make_config("feded", "fedvls", **{"method.lam": 0.7, "method.suppression": 0.3})
    clients = make_clients(world, config)
    step = next(clients.steps(1))
    student, teacher = torch.randn(2, *step.view.labels.shape, 4)
    assert isinstance(config.method, FedED)
    loss = config.method.distilled(clients, step, student, teacher)
    for k in range(3):
        rows = step.view.mask[k].bool()
        f, g, y = student[k][rows], teacher[k][rows], step.view.labels[k][rows]
        p = clients.prior[k]
        vacant = [c for c in range(4) if p[c] == 0]
        calibrated = F.cross_entropy(f + (p + 1e-9).log(), y)
        distilled = torch.tensor(0.0)
        if vacant:
            log_f, log_g = (torch.log_softmax(z[:, vacant], 1) for z in (f, g))
            distilled = (log_g.exp() * (log_g - log_f)).sum(1).mean()
        u = (f - (p + 1e-9).log() + np.log(1 / 4 + 1e-9)) * (F.one_hot(y, 4) == 0)
        suppressed = (p * (torch.logsumexp(u, 0) - np.log(len(y)))).sum()
        assert abs(suppressed) > 0.01
        expected = calibrated + 0.7 * distilled + 0.3 * suppressed
        assert loss[k].item() == pytest.approx(expected.item(), abs=1e-4)


@pytest.mark.parametrize("variant", ["vacant", "rest"])
def test_feded_of_cross_entropy_and_a_divergence(world: World, variant: str) -> None:
    config = make_config("feded", variant, **{"method.lam": 0.7})
    clients = make_clients(world, config)
    step = next(clients.steps(1))
    student, teacher = torch.randn(2, *step.view.labels.shape, 4)
    assert isinstance(config.method, FedED)
    loss = config.method.distilled(clients, step, student, teacher)
    for k in range(3):
        rows = step.view.mask[k].bool()
        vacant = clients.class_counts[k] == 0
        p, q = (torch.softmax(logits[k][rows], 1) for logits in (teacher, student))
        if variant == "rest":
            p, q = (torch.cat([own[:, vacant], own[:, ~vacant].sum(1, keepdim=True)], 1) for own in (p, q))
        else:
            p, q = (own[:, vacant] / own[:, vacant].sum(1, keepdim=True) for own in (p, q))
        expected = (
            F.cross_entropy(student[k][rows], step.view.labels[k][rows]) + 0.7 * (p * (p / q).log()).sum(1).mean()
        )
        assert loss[k].item() == pytest.approx(expected.item(), abs=1e-4)
        assert variant == "vacant" or expected > F.cross_entropy(student[k][rows], step.view.labels[k][rows])


def test_divergence_with_rest_is_zero_without_a_vacant_class() -> None:
    student, teacher = torch.randn(2, 2, 5, 4)
    assert torch.allclose(
        divergence_with_rest(student, teacher, torch.zeros(2, 1, 4).bool()), torch.zeros(2, 5), atol=1e-6
    )


def test_restricted_divergence_is_zero_for_one_or_no_vacant_class() -> None:
    student, teacher = torch.randn(2, 2, 5, 4)
    vacant = torch.tensor([[[False, True, False, False]], [[False, False, False, False]]])
    assert torch.allclose(restricted_divergence(student, teacher, vacant), torch.zeros(2, 5))
