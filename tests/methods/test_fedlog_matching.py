"""FedLoG's gradient matching in closed form against gradients of single nodes by torch.func."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.func import grad

from fgl_repro.data.graph import Graph
from fgl_repro.methods.fedlog.prompts import (
    DotProducts,
    Pretraining,
    Surroundings,
    feature_loss,
    generate,
    generators,
    gradient_loss,
    link_dots,
    prompts,
)
from fgl_repro.nn.models.sage import SAGE
from fgl_repro.nn.view import Views
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

CPU = torch.device("cpu")
TENSORS = ("W1n", "W1r", "b1", "W2n", "W2r", "b2")


def split(net: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    near, root = net["W1"].chunk(2)
    near2, root2 = net["W2"].chunk(2)
    return {"W1n": near, "W1r": root, "b1": net["b1"], "W2n": near2, "W2r": root2, "b2": net["b2"]}


def node_loss(
    encoder: dict[str, torch.Tensor],
    net: dict[str, torch.Tensor],
    mean: torch.Tensor,
    x: torch.Tensor,
    at: int,
    label: torch.Tensor,
) -> torch.Tensor:
    """Cross-entropy of one node of a graph with dense features and row-normalised adjacency."""
    hidden = torch.relu(mean @ x @ encoder["W1n"] + x @ encoder["W1r"] + encoder["b1"])
    h = mean[at] @ hidden @ encoder["W2n"] + hidden[at] @ encoder["W2r"] + encoder["b2"]
    return F.cross_entropy((h @ net["W3"] + net["b3"]).unsqueeze(0), label.view(1))


@pytest.mark.parametrize("sparse_below", [0, 2])
def test_gradient_loss_equals_gradients_of_single_nodes(
    toy_graph: Graph, sparse_below: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Value, up to the norm of the graph's own first-layer gradient, and slope with respect to the prompts."""
    monkeypatch.setattr("fgl_repro.nn.view.SPARSE_BELOW", sparse_below)
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    graph, rows = world.graph, world.train[::3]
    model = SAGE(toy_graph.num_features, toy_graph.num_classes, hidden=8)
    rng = torch.Generator().manual_seed(3)
    net = model.init(rng)
    here = Surroundings(model, Views(CPU), graph, rows)
    prompts = torch.randn(here.x.shape, generator=rng).requires_grad_()
    ours = gradient_loss(here, net, prompts, DotProducts.of(here, prompts))
    (slope,) = torch.autograd.grad(ours.sum(), prompts)

    adjacency = torch.from_numpy(graph.adjacency.toarray())
    mean = adjacency / adjacency.sum(1, keepdim=True).clamp_min(1)
    features = torch.from_numpy(toy_graph.features[graph.node].toarray())
    other = prompts.detach().clone().requires_grad_()
    pair_mean = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    expected, constant = [], []
    for i, row in enumerate(rows):
        label = here.labels[i]
        real = grad(node_loss)(split(net), net, mean, features, int(row), label)
        pair = grad(node_loss)(split(net), net, pair_mean, torch.stack([features[row], other[i]]), 0, label)
        expected.append(sum((real[name] - pair[name]).square().mean() for name in TENSORS))
        constant.append(sum(real[name].square().mean() for name in ("W1n", "W1r")))
    theirs = torch.stack(expected)
    torch.testing.assert_close(ours, theirs - torch.stack(constant), atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(slope, torch.autograd.grad(theirs.sum(), other)[0], atol=1e-6, rtol=1e-4)


def test_isolated_nodes_match_nothing(toy_graph: Graph) -> None:
    """The released code turns such a client's whole generator into NaN."""
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    model = SAGE(toy_graph.num_features, toy_graph.num_classes, hidden=8)
    here = Surroundings(model, Views(CPU), world.graph, world.train)
    alone = here.degree == 0
    lonely = feature_loss(here, torch.ones_like(here.x))
    assert torch.equal(lonely == 0, alone)
    close = (here.around - here.x).square().sum(1)
    torch.testing.assert_close(feature_loss(here, here.x)[~alone], close[~alone])


def test_link_dots_and_their_slope(toy_graph: Graph) -> None:
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    model = SAGE(toy_graph.num_features, toy_graph.num_classes, hidden=8)
    here = Surroundings(model, Views(CPU), world.graph, world.train)
    vectors = torch.randn(here.x.shape).requires_grad_()
    expected = (vectors[here.row] * here.own[here.links.col_indices().long()]).sum(1)
    ours = link_dots(here, here.own, vectors)
    torch.testing.assert_close(ours, expected)
    weights = torch.from_numpy(np.random.default_rng(0).standard_normal(len(ours)).astype(np.float32))
    slopes = [torch.autograd.grad((weights * found).sum(), vectors)[0] for found in (ours, expected)]
    torch.testing.assert_close(*slopes)


def test_prompts_go_through_their_class() -> None:
    params, x = generators(5, 3, torch.Generator().manual_seed(0)), torch.randn(2, 3 * 2, 5)
    ours = prompts(params, x)
    for k in range(2):
        for c in range(3):
            rows = slice(c * 2, (c + 1) * 2)
            own = {name: value[c : c + 1] for name, value in params.items()}
            torch.testing.assert_close(ours[k, rows], generate(own, x[k : k + 1, rows])[0])


def test_nodes_of_a_client_weigh_alike_whatever_others_have(toy_graph: Graph) -> None:
    world = worlds.build("closed_set", toy_graph, "random", 3, hops=2)
    sizes = np.bincount(world.graph.owner[world.train])
    assert len(set(sizes.tolist())) == 3
    weight = Pretraining(make_clients(world, make_config("fedlog", "paper")), 0.01, 1).weight
    assert weight.tolist() == pytest.approx(np.repeat(1 / sizes, sizes).tolist())
