"""Generated graphs as any stacked model reads them, against the same models on ordinary graphs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from fgl_repro.core import registry
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import UnionGraph
from fgl_repro.methods.generated.graphs import PseudoGraph
from fgl_repro.methods.generated.method import DistilledOnGenerated
from fgl_repro.methods.generated.named import mapped
from fgl_repro.nn.models.model import Model, Params
from fgl_repro.nn.view import Views

NODES, FEATURES, CLASSES, NETWORKS = 30, 6, 4, 3


@pytest.fixture
def features() -> Tensor:
    return torch.randn(NODES, FEATURES, generator=torch_rng("features", 0), requires_grad=True)


def made(name: str) -> tuple[Model, Params]:
    """A model, and the weights of several networks."""
    model = registry.option("model", name)(hidden=8, dropout=0.5).build(FEATURES, CLASSES)
    every = [model.init(torch_rng(name, seed)) for seed in range(NETWORKS)]
    return model, {part: torch.stack([own[part] for own in every]) for part in every[0]}


@pytest.mark.parametrize("name", [name for name in DistilledOnGenerated.models if name != "fleet"])
def test_networks_say_what_they_say_of_an_ordinary_graph(name: str, features: Tensor) -> None:
    model, params = made(name)
    graph = PseudoGraph.of(features, neighbours=4)
    links = sp.csr_matrix((graph.around.numpy() > 0) & ~np.eye(NODES, dtype=bool), dtype=np.float32)
    inputs, ids = sp.csr_matrix(features.detach().numpy()), np.arange(NODES, dtype=np.int32)
    base = Graph("ordinary", inputs, links, np.zeros(NODES, dtype=np.int64), CLASSES, ids)
    view = model.view(Views(torch.device("cpu")), UnionGraph.copies(base, 1), np.arange(NODES))
    logits = graph.logits(model, params, NETWORKS, None)
    assert logits.shape == (NETWORKS, NODES, CLASSES)
    for k in range(NETWORKS):
        expected = model({part: value[k : k + 1] for part, value in params.items()}, view)[0]
        torch.testing.assert_close(logits[k], expected, rtol=1e-5, atol=1e-5)
    (slope,) = torch.autograd.grad(logits.square().sum(), features)
    assert (slope.abs().sum(1) > 0).all(), "every node's features have a gradient"


@pytest.mark.parametrize("name", ["gcn2", "gcn"])
def test_both_ways_to_read_a_graph_have_the_same_gradient(name: str, features: Tensor) -> None:
    model, params = made(name)
    graph = PseudoGraph.of(features, neighbours=4)
    direct = graph.logits(model, params, NETWORKS, None)
    by_name = model({**params, "W1": mapped(features, params["W1"])}, graph.named.view(model, NETWORKS))
    torch.testing.assert_close(by_name, direct, rtol=1e-5, atol=1e-5)
    slopes = [torch.autograd.grad(logits.square().sum(), features)[0] for logits in (direct, by_name)]
    torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-4)


def test_features_move_and_links_stay(features: Tensor) -> None:
    model, params = made("sgc")
    graph = PseudoGraph.of(features, neighbours=4)
    logits = graph.logits(model, params, NETWORKS, None)
    twice = graph.moved(2 * features)
    assert twice.named is graph.named, "what models see of links is made once"
    bias = params["b1"].unsqueeze(1)
    torch.testing.assert_close(
        twice.logits(model, params, NETWORKS, None) - bias, 2 * (logits - bias), rtol=1e-5, atol=1e-5
    )
