"""The stacked GCN against PyG and dense autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GCNConv

from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import UnionGraph
from fgl_repro.nn import view as view_module
from fgl_repro.nn.adjacency import gcn_norm
from fgl_repro.nn.models.gcn import GCN
from fgl_repro.nn.ops import stack
from fgl_repro.nn.view import Views

CPU = torch.device("cpu")


@pytest.mark.parametrize("sparse_below", [0.0, 1.1], ids=["dense", "sparse"])
def test_forward_equals_pyg_layer_by_layer(
    toy_graph: Graph, sparse_below: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "SPARSE_BELOW", sparse_below)
    rng = np.random.default_rng(1)
    nodes = [np.sort(rng.choice(120, size, replace=False)) for size in (50, 31, 40)]
    graph = UnionGraph.induced(toy_graph, nodes)
    rows = np.sort(rng.choice(graph.num_nodes, 37, replace=False))
    model = GCN(toy_graph.num_features, toy_graph.num_classes, 8, 0.5)
    params = {name: torch.randn(3, *value.shape) for name, value in model.init(torch_rng("init", 0)).items()}
    view = Views(CPU).of(graph, rows)
    logits = model(params, view).flatten(0, 1)[view.slots]
    embedding = model.embed(params, view).flatten(0, 1)[view.slots]
    x = torch.from_numpy(toy_graph.features.toarray())
    for k in range(3):
        start, stop = graph.ptr[k], graph.ptr[k + 1]
        block = graph.adjacency[start:stop, start:stop].tocoo()
        edges = torch.from_numpy(np.stack([block.row, block.col])).long()
        conv1, conv2 = GCNConv(16, 8), GCNConv(8, 8)
        conv1.lin.weight.data, conv1.bias.data = params["W1"][k].T, params["b1"][k]
        conv2.lin.weight.data, conv2.bias.data = params["W2"][k].T, params["b2"][k]
        second = conv2(conv1(x[graph.node[start:stop]], edges).relu(), edges)
        out = second.relu() @ params["W3"][k] + params["b3"][k]
        mine = (rows >= start) & (rows < stop)
        torch.testing.assert_close(embedding[mine], second[rows[mine] - start], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(logits[mine], out[rows[mine] - start], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sparse_below", [0.0, 1.1], ids=["dense", "sparse"])
def test_gradients_equal_dense_autograd(toy_graph: Graph, sparse_below: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hand-written backward passes against autograd on plain dense matrices."""
    monkeypatch.setattr(view_module, "SPARSE_BELOW", sparse_below)
    graph = UnionGraph.induced(toy_graph, [np.arange(60), np.arange(40, 90)])
    rows = np.arange(0, graph.num_nodes, 3)
    model = GCN(toy_graph.num_features, toy_graph.num_classes, 8, 0.5)
    single = model.init(torch_rng("init", 3))
    params = {name: value.requires_grad_() for name, value in stack(single, 2).items()}
    view = Views(CPU).of(graph, rows)
    logits = model(params, view).flatten(0, 1)[view.slots]
    labels = torch.from_numpy(graph.labels[rows])
    ours = torch.autograd.grad(F.cross_entropy(logits, labels), list(params.values()))
    a = torch.from_numpy(gcn_norm(graph.adjacency).toarray())
    x = torch.from_numpy(toy_graph.features.toarray())[graph.node]
    owner = torch.from_numpy(graph.owner)

    def affine(h: torch.Tensor, name: str) -> torch.Tensor:
        return torch.einsum("ni,nio->no", h, params[f"W{name}"][owner])

    h = torch.relu(a @ affine(x, "1") + params["b1"][owner])
    h = torch.relu(a @ affine(h, "2") + params["b2"][owner])
    plain = (affine(h, "3") + params["b3"][owner])[rows]
    theirs = torch.autograd.grad(F.cross_entropy(plain, labels), list(params.values()))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=1e-4)
