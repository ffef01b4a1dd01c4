"""FedNTD: its loss by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.methods.fedntd import FedNTD
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


def test_not_true_distillation_by_hand(world: World) -> None:
    config = make_config("fedntd", "paper", **{"method.tau": 2.0})
    method, clients = config.method, make_clients(world, config)
    assert isinstance(method, FedNTD)
    labels = clients.inputs.train.labels
    student, teacher = torch.randn(2, *labels.shape, 4)
    ours = method.not_true(student, teacher, labels)
    k, i = 1, 2
    true = int(labels[k, i])
    others = [c for c in range(4) if c != true]
    q_f, q_g = (torch.softmax(logits[k, i, others] / 2, 0) for logits in (student, teacher))
    expected = 4 * (q_g * (q_g / q_f).log()).sum()
    assert ours[k, i].item() == pytest.approx(expected.item(), abs=1e-5)


def test_one_class_leaves_nothing_to_distil(toy_graph: Graph) -> None:
    alone = replace(toy_graph, labels=np.zeros_like(toy_graph.labels), num_classes=1)
    training, _, _ = federate(make_config("fedntd", "paper"), worlds.build("plain", alone, "metis", 3), CPU)
    assert training.curves["loss"] == [0.0, 0.0], "cross-entropy has nothing to learn, either"
