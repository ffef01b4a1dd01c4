"""FedLoG's network: its messages against loops, its branches against PyG."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.methods.fedlog import prototypes as prototypes_module
from fgl_repro.methods.fedlog.method import BRANCHES
from fgl_repro.methods.fedlog.prototypes import PrototypeNet
from fgl_repro.nn.models.sage import SAGE
from fgl_repro.nn.ops import stack
from fgl_repro.nn.view import Views
from support import worlds

CPU = torch.device("cpu")
K, C, S, D = 2, 3, 2, 5


def make_net(
    passing: bool, loops: bool = False, **encoder: int | float
) -> tuple[PrototypeNet, dict[str, torch.Tensor]]:
    """A small network of two clients with weights of their own."""
    net = PrototypeNet(D, C, **{"hidden": 8, **encoder}, slots=S, passing=passing, loops=loops)
    rng = torch.Generator().manual_seed(0)
    params = stack({**net.init(rng), **net.nodes(rng)}, K)
    return net, {name: value + 0.3 * torch.randn(value.shape, generator=rng) for name, value in params.items()}


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


@pytest.mark.parametrize("chunk", [1, 10**9])
def test_messages_against_a_loop_over_pairs(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equations 2 and 6 to 10 for every client, query and prototype, values and gradients."""
    monkeypatch.setattr(prototypes_module, "PAIRS", chunk)
    net, params = make_net(passing=True)
    params = {name: value.requires_grad_() for name, value in params.items()}
    query, around = torch.randn(2, K, 4, 4)
    nodes = {branch: torch.randn(K, C * S, 4) for branch in BRANCHES}
    ours = net.branches(params, query, around, nodes)
    expected = torch.zeros(2, K, 4, C)
    for b, branch in enumerate(BRANCHES):
        for k in range(K):
            own = {name.removeprefix(f"{branch}."): v[k] for name, v in params.items() if name.startswith(f"{branch}.")}
            for i in range(4):
                h = F.layer_norm(query[k, i], (4,)) * own["gain"] + own["shift"]
                for layer in range(2):
                    total = torch.zeros(4)
                    for j in range(C * S):
                        g = nodes[branch][k, j]
                        gap = torch.cat([h, around[k, i]]) - torch.cat([g, g])
                        m = torch.cat([h, around[k, i], gap.square().sum().view(1)])
                        for number in (1, 2):
                            m = F.silu(m @ own[f"{layer}.message.W{number}"] + own[f"{layer}.message.b{number}"])
                        t = F.silu(m @ own[f"{layer}.translation.W1"] + own[f"{layer}.translation.b1"])
                        for number in (2, 3):
                            t = t @ own[f"{layer}.translation.W{number}"] + own[f"{layer}.translation.b{number}"]
                        total = total + (h - g) * t
                    h = h + total / (C * S)
                means = nodes[branch][k].view(C, S, 4).mean(1)
                expected[b, k, i] = torch.log_softmax(-(h - means).square().sum(1), 0)
    torch.testing.assert_close(torch.stack(ours), expected, atol=1e-4, rtol=1e-4)
    names = [name for name in net.felt(params) if "." in name]
    slopes = [
        torch.autograd.grad(out.square().sum(), [params[name] for name in names], allow_unused=True)
        for out in (torch.stack(ours), expected)
    ]
    for name, mine, theirs in zip(names, *slopes, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-3, rtol=1e-3, msg=name)


def pyg(params: dict[str, torch.Tensor], k: int, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Client k's encoder by PyG."""
    for number in (1, 2):
        weight = params[f"W{number}"][k]
        layer = SAGEConv(x.shape[1], weight.shape[1])
        with torch.no_grad():
            layer.lin_l.weight.copy_(weight[: x.shape[1]].T)
            layer.lin_r.weight.copy_(weight[x.shape[1] :].T)
            layer.lin_l.bias.copy_(params[f"b{number}"][k])
        x = layer(x, edges)
        x = torch.relu(x) if number == 1 else x
    return x


def test_pairs_and_lonely_nodes_against_pyg() -> None:
    """A node and its prompt are a graph of two nodes; a learnable node has itself as neighbour, or none."""
    x, prompt = torch.randn(2, K, 4, D)
    both_ways = torch.tensor([[0, 1], [1, 0]])
    for loops, edges in ((True, torch.tensor([[0], [0]])), (False, torch.zeros(2, 0, dtype=torch.long))):
        net, params = make_net(passing=False, loops=loops)
        node, beside = net.pair(params, x, prompt)
        alone = net.isolated(params, x)
        for k in range(K):
            for i in range(4):
                pair = pyg(params, k, torch.stack([x[k, i], prompt[k, i]]), both_ways)
                torch.testing.assert_close(torch.stack([node[k, i], beside[k, i]]), pair, atol=1e-5, rtol=1e-5)
                torch.testing.assert_close(
                    alone[k, i : i + 1], pyg(params, k, x[k, i : i + 1], edges), atol=1e-5, rtol=1e-5
                )


def test_neighbours_embeddings_are_means(world: World) -> None:
    """What messages read beside a node is the mean of its neighbours' embeddings, computed from far enough."""
    graph = world.graph
    net = PrototypeNet(graph.base.num_features, graph.base.num_classes, 8, slots=S, passing=True, loops=False)
    params = stack(net.init(torch.Generator().manual_seed(0)), 3)
    views, rows = Views(CPU), world.train[::2]
    everything = SAGE.view(net, views, graph, np.arange(graph.num_nodes))
    all_nodes = net.embed(params, everything).flatten(0, 1)[everything.slots]
    view = net.view(views, graph, rows)
    query, around = net.around(params, view)
    assert around is not None
    dense = torch.from_numpy(graph.adjacency.toarray())
    mean = dense / dense.sum(1, keepdim=True).clamp_min(1)
    for ours, theirs in ((query, all_nodes), (around, mean @ all_nodes)):
        torch.testing.assert_close(ours.flatten(0, 1)[view.slots], theirs[rows], atol=1e-5, rtol=1e-5)
    assert torch.equal(view.labels.flatten()[view.slots], torch.from_numpy(graph.labels[rows]))


def test_degrees_choose_the_branch() -> None:
    """Equation 3: alpha is one half at degree lambda + 1, and far away nothing overflows."""
    net, _ = make_net(passing=False)
    head, tail = (torch.log_softmax(torch.randn(1, 3, C), -1) for _ in range(2))
    mixed = net.mixture(head, tail, torch.tensor([[4.0, 1000.0, 0.0]]))
    torch.testing.assert_close(mixed[0, 0].exp(), (head[0, 0].exp() + tail[0, 0].exp()) / 2)
    torch.testing.assert_close(mixed[0, 1], head[0, 1])
    share = torch.sigmoid(torch.tensor(-4.0))
    torch.testing.assert_close(mixed[0, 2].exp(), share * head[0, 2].exp() + (1 - share) * tail[0, 2].exp())
    torch.testing.assert_close(mixed.exp().sum(-1), torch.ones(1, 3))
