"""The GCN of two convolutions against PyG's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv

from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import UnionGraph
from fgl_repro.nn import view as view_module
from fgl_repro.nn.models.gcn2 import GCN2
from fgl_repro.nn.view import Views


@pytest.mark.parametrize("sparse_below", [0.0, 1.1], ids=["dense", "sparse"])
def test_forward_equals_pyg(toy_graph: Graph, sparse_below: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "SPARSE_BELOW", sparse_below)
    rng = np.random.default_rng(1)
    nodes = [np.sort(rng.choice(120, size, replace=False)) for size in (50, 31, 40)]
    graph = UnionGraph.induced(toy_graph, nodes)
    rows = np.sort(rng.choice(graph.num_nodes, 37, replace=False))
    model = GCN2(toy_graph.num_features, toy_graph.num_classes, 8, 0.0)
    params = {name: torch.randn(3, *value.shape) for name, value in model.init(torch_rng("init", 0)).items()}
    view = Views(torch.device("cpu")).of(graph, rows)
    logits = model(params, view).flatten(0, 1)[view.slots]
    averaged = model.embed(params, view).flatten(0, 1)[view.slots]
    x = torch.from_numpy(toy_graph.features.toarray())
    for k in range(3):
        start, stop = graph.ptr[k], graph.ptr[k + 1]
        block = graph.adjacency[start:stop, start:stop].tocoo()
        edges = torch.from_numpy(np.stack([block.row, block.col])).long()
        conv1, conv2 = GCNConv(16, 8), GCNConv(8, toy_graph.num_classes)
        conv1.lin.weight.data, conv1.bias.data = params["W1"][k].T, params["b1"][k]
        conv2.lin.weight.data, conv2.bias.data = params["W2"][k].T, params["b2"][k]
        out = conv2(conv1(x[graph.node[start:stop]], edges).relu(), edges)
        mine = (rows >= start) & (rows < stop)
        torch.testing.assert_close(logits[mine], out[rows[mine] - start], atol=1e-5, rtol=1e-5)
        again = averaged[mine] @ params["W2"][k] + params["b2"][k]
        torch.testing.assert_close(again, out[rows[mine] - start], atol=1e-5, rtol=1e-5)


def test_sizes_are_those_of_the_paper() -> None:
    """A GCN of 64 hidden units on Cora is 368,924 bytes (O-pFGL, section on communication)."""
    single = GCN2(1433, 7, 64, 0.0).init(torch_rng("init", 0))
    assert sum(4 * value.numel() for value in single.values()) == 368_924
