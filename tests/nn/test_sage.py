"""The stacked GraphSAGE against PyG's, whole graphs and mini-batches, dense and sparse inputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fgl_repro.data.graph import Graph
from fgl_repro.nn import view as view_module
from fgl_repro.nn.models.sage import SAGE
from fgl_repro.nn.ops import stack
from fgl_repro.nn.view import Views
from support import worlds
from support.oracles import separate

CPU = torch.device("cpu")


@pytest.mark.parametrize("sparse_below", [0.0, 1.1], ids=["dense", "sparse"])
def test_embeddings_and_gradients_equal_pyg(
    toy_graph: Graph, sparse_below: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "SPARSE_BELOW", sparse_below)
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    graph, model = world.graph, SAGE(toy_graph.num_features, toy_graph.num_classes, hidden=8)
    params = stack(model.init(torch.Generator().manual_seed(0)), 3)
    params = {name: (value + torch.randn_like(value) * 0.1).requires_grad_() for name, value in params.items()}
    expected = separate(graph, model, params)
    views, rng = Views(CPU), np.random.default_rng(0)
    for rows in (np.arange(graph.num_nodes), np.sort(rng.choice(graph.num_nodes, 9, replace=False))):
        view = model.view(views, graph, rows)
        ours = model.embed(params, view).flatten(0, 1)[view.slots]
        torch.testing.assert_close(ours, torch.cat(expected)[rows], atol=1e-5, rtol=1e-5)
        degree = view.degree.flatten()[view.slots].numpy()
        assert np.array_equal(degree, np.asarray(graph.adjacency.sum(1)).ravel()[rows])
    ours.square().sum().backward()
    single = {name: value[:, :].detach().clone().requires_grad_() for name, value in params.items()}
    dense = torch.from_numpy(graph.adjacency.toarray())
    mean = dense / dense.sum(1, keepdim=True).clamp_min(1)
    x = torch.from_numpy(toy_graph.features[graph.node].toarray())
    owner = torch.from_numpy(graph.owner)
    hidden = torch.relu(
        torch.einsum("nd,ndh->nh", torch.cat([mean @ x, x], 1), single["W1"][owner]) + single["b1"][owner]
    )
    second = (
        torch.einsum("nd,ndh->nh", torch.cat([mean @ hidden, hidden], 1), single["W2"][owner]) + single["b2"][owner]
    )
    second[rows].square().sum().backward()
    for name in ("W1", "b1", "W2", "b2"):
        torch.testing.assert_close(params[name].grad, single[name].grad, atol=1e-4, rtol=1e-4)
