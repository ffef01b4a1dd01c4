"""Backbones that more than one method trains, against PyG's, client by client: logits and gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric import transforms
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, SGConv, SSGConv, models
from torch_geometric.utils import add_remaining_self_loops

from fgl_repro import config as configs
from fgl_repro.core.registry import option
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import UnionGraph
from fgl_repro.nn import view as view_module
from fgl_repro.nn.models.model import Params
from fgl_repro.nn.ops import normalised
from fgl_repro.nn.view import Views

LINEAR = {"W": "weight", "b": "bias"}
Names = Mapping[str, tuple[nn.Parameter, ...]]
"""PyG's parameters of each stacked tensor, those of maps one above the other where there are two."""


def gcn(layers: int) -> Callable[[int, int], tuple[nn.Module, Names]]:
    def build(d: int, c: int) -> tuple[nn.Module, Names]:
        net = models.GCN(d, 8, layers, c)
        return net, named({"W": "lin.weight", "b": "bias"}, net.convs)

    return build


def gat(d: int, c: int) -> tuple[nn.Module, Names]:
    net = models.GAT(d, 8, 2, c)
    return net, named({"W": "lin.weight", "s": "att_src", "t": "att_dst", "b": "bias"}, net.convs)


def sage(d: int, c: int) -> tuple[nn.Module, Names]:
    net = models.GraphSAGE(d, 8, 2, c)
    return net, named({"W": "lin_l.weight|lin_r.weight", "b": "lin_l.bias"}, net.convs)


def sgc(steps: int) -> Callable[[int, int], tuple[nn.Module, Names]]:
    def build(d: int, c: int) -> tuple[nn.Module, Names]:
        net = SGConv(d, c, K=steps)
        return net, named(LINEAR, [net.lin])

    return build


def ssgc(d: int, c: int) -> tuple[nn.Module, Names]:
    net = SSGConv(d, c, alpha=0.2, K=3)
    return net, named(LINEAR, [net.lin])


def appnp(d: int, c: int) -> tuple[nn.Module, Names]:
    class Net(nn.Sequential):
        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            found: Tensor = APPNP(2, 0.1)(super().forward(x), edges)
            return found

    net = Net(nn.Linear(d, 8), nn.ReLU(), nn.Linear(8, c))
    return net, named(LINEAR, net[::2])


def sign(d: int, c: int) -> tuple[nn.Module, Names]:
    class Net(nn.Sequential):
        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            looped = add_remaining_self_loops(edges, num_nodes=len(x))[0]
            data = transforms.SIGN(2)(Data(x=x, edge_index=looped))
            return super().forward(torch.cat([data.x, data.x1, data.x2], 1))

    net = Net(nn.Linear(3 * d, 8), nn.ReLU(), nn.Linear(8, c))
    return net, named(LINEAR, net[::2])


def named(own: Mapping[str, str], layers: Any) -> Names:
    return {
        f"{name}{number}": tuple(layer.get_parameter(path) for path in paths.split("|"))
        for number, layer in enumerate(layers, 1)
        for name, paths in own.items()
    }


BACKBONES: dict[str, tuple[str, dict[str, Any], Callable[[int, int], tuple[nn.Module, Names]]]] = {
    "gcn2": ("gcn2", {}, gcn(2)),
    "gcn3": ("gcn2", {"layers": 3}, gcn(3)),
    "gcn4": ("gcn2", {"layers": 4}, gcn(4)),
    "gat": ("gat", {}, gat),
    "graphsage": ("graphsage", {}, sage),
    "sgc2": ("sgc", {"steps": 2}, sgc(2)),
    "sgc4": ("sgc", {"steps": 4}, sgc(4)),
    "ssgc": ("ssgc", {"steps": 3, "teleport": 0.2}, ssgc),
    "appnp": ("appnp", {}, appnp),
    "sign": ("sign", {}, sign),
}


def copied(single: Params, names: Names) -> None:
    """Give PyG's network one client's weights."""
    for name, targets in names.items():
        parts = single[name].detach().chunk(len(targets))
        for target, part in zip(targets, parts, strict=True):
            target.data = (part.T if name[0] == "W" else part).reshape(target.shape).contiguous()


def gradients(names: Names) -> Params:
    """PyG's, in the shapes of one client's tensors."""
    out = {}
    for name, targets in names.items():
        parts = [target.grad for target in targets]
        out[name] = torch.cat([part.T if name[0] == "W" else part.flatten() for part in parts])  # type: ignore[union-attr]
    return out


@pytest.mark.parametrize("sparse_below", [0.0, 1.1], ids=["dense", "sparse"])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_logits_and_gradients_are_those_of_pyg(
    backbone: str, toy_graph: Graph, sparse_below: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "SPARSE_BELOW", sparse_below)
    rng = np.random.default_rng(1)
    nodes = [np.sort(rng.choice(120, size, replace=False)) for size in (50, 31, 40)]
    graph = UnionGraph.induced(toy_graph, nodes)
    rows = np.sort(rng.choice(graph.num_nodes, 37, replace=False))
    name, fields, make = BACKBONES[backbone]
    d, c = toy_graph.num_features, toy_graph.num_classes
    model = option("model", name)(**{"hidden": 8, "dropout": 0.0, **fields}).build(d, c)
    single = model.init(torch_rng("init", 0))
    rng = torch_rng("weights", 0)
    params = {
        name: (0.5 * torch.randn(3, *value.shape, generator=rng)).requires_grad_() for name, value in single.items()
    }
    view = model.view(Views(torch.device("cpu")), graph, rows)
    logits = model(params, view)
    assert logits.shape[:2] == view.mask.shape
    torch.testing.assert_close(model(params, view, first=model.first(params, view)), logits)
    target = torch.randn(len(rows), c, generator=rng)
    flat = logits.flatten(0, 1)[view.slots]
    (flat * target).sum().backward()
    x = torch.from_numpy(toy_graph.features.toarray())
    for k in range(3):
        start, stop = graph.ptr[k], graph.ptr[k + 1]
        block = graph.adjacency[start:stop, start:stop].tocoo()
        edges = torch.from_numpy(np.stack([block.row, block.col])).long()
        net, names = make(d, c)
        assert {n: sum(p.numel() for p in found) for n, found in names.items()} == {
            n: value.numel() for n, value in single.items()
        }
        copied({n: value[k] for n, value in params.items()}, names)
        mine = (rows >= start) & (rows < stop)
        out = net(x[graph.node[start:stop]], edges)[rows[mine] - start]
        torch.testing.assert_close(flat[mine], out, atol=1e-5, rtol=1e-5)
        (out * target[mine]).sum().backward()
        for n, expected in gradients(names).items():
            torch.testing.assert_close(own_gradient(params[n], k), expected, atol=1e-5, rtol=1e-4)


def own_gradient(stacked: Tensor, client: int) -> Tensor:
    assert stacked.grad is not None
    return stacked.grad[client]


def test_layers_of_a_gcn_begin_as_in_pyg() -> None:
    """A GCN of 64 hidden units on Cora is 368,924 bytes (O-pFGL, section on communication)."""
    single = option("model", "gcn2")(hidden=64).build(1433, 7).init(torch_rng("init", 0))
    assert sum(4 * value.numel() for value in single.values()) == 368_924
    deep = option("model", "gcn2")(hidden=16, layers=3).build(20, 5).init(torch_rng("init", 0))
    assert [deep[f"W{n}"].shape for n in (1, 2, 3)] == list(pairwise([20, 16, 16, 5]))


def test_layers_of_a_gcn_are_no_news_to_older_records() -> None:
    assert configs.science(configs.build(dataset="cora", model="gcn2"))["model"] == {
        "name": "gcn2",
        "hidden": 64,
        "dropout": 0.0,
    }


def test_attention_leaves_weak_links_out(toy_graph: Graph) -> None:
    links = sp.triu(toy_graph.adjacency[:12, :12]).tocsr()
    links.data = np.linspace(0.3, 0.9, links.nnz, dtype=np.float32)
    both = sp.csr_matrix(links + links.T)
    kept = sp.csr_matrix((both >= 0.5).astype(np.float32))
    model = option("model", "gat")(hidden=8).build(toy_graph.num_features, toy_graph.num_classes)
    params = {name: value.unsqueeze(0) for name, value in model.init(torch.Generator().manual_seed(0)).items()}
    found = []
    for adjacency in (both, kept, sp.csr_matrix((both > 0).astype(np.float32))):
        view = model.view(Views(torch.device("cpu")), small_graph(toy_graph, adjacency), np.arange(12))
        found.append(model(params, view))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("sparse_below", [0.0, 1.1], ids=["dense", "sparse"])
def test_graphsage_propagates_over_weighted_links_as_a_gcn(
    toy_graph: Graph, sparse_below: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "SPARSE_BELOW", sparse_below)
    links = sp.csr_matrix(toy_graph.adjacency[:12, :12] * np.float32(0.3))
    graph = small_graph(toy_graph, links)
    model = option("model", "graphsage")(hidden=8).build(toy_graph.num_features, toy_graph.num_classes)
    params = {name: value.unsqueeze(0) for name, value in model.init(torch.Generator().manual_seed(0)).items()}
    step, x = normalised(torch.from_numpy(links.toarray())), torch.from_numpy(graph.base.features.toarray())
    hidden = torch.relu(torch.cat([step @ x, x], 1) @ params["W1"][0] + params["b1"][0])
    expected = torch.cat([step @ hidden, hidden], 1) @ params["W2"][0] + params["b2"][0]
    view = model.view(Views(torch.device("cpu")), graph, np.arange(12))
    torch.testing.assert_close(model(params, view)[0], expected, atol=1e-5, rtol=1e-5)


def small_graph(base: Graph, links: sp.csr_matrix) -> UnionGraph:
    """The first 12 nodes with links of one's own, as the graph of one client."""
    part = replace(base.subgraph(np.arange(12)), adjacency=links)
    return UnionGraph(part, np.arange(12), np.array([0, 12]), links)
