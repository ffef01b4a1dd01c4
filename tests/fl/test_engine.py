"""The stacked engine against K ordinary models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from benchmarks import textbook
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn import GCNConv

from fgl_repro import config as configs
from fgl_repro.core.device import prepare
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import UnionGraph, World
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.mixing import average, mix, softmax_of_cosine
from fgl_repro.fl.optim import StackedAdam
from fgl_repro.fl.rounds import train
from fgl_repro.nn import GCN, Views
from fgl_repro.nn import view as view_module
from fgl_repro.nn.ops import dropout, stack
from support import worlds

CPU = torch.device("cpu")


def make_clients(world: World, config: configs.Config, drop: float) -> Clients:
    base = world.graph.base
    model = GCN(base.num_features, base.num_classes, config.model.hidden, drop)
    return Clients(world, model, config.method, config.protocol, config.seed, Views(CPU))


def test_denormals_count_as_zero() -> None:
    """Adam's moments without a gradient decay into them, and a CPU computes with them ten times slower."""
    prepare(CPU, threads=1, deterministic=False)
    assert float(torch.full((8,), 1e-30).mul(1e-10).abs().max()) == 0.0


def test_fedavg_follows_separate_models(real_graph: Callable[..., Graph]) -> None:
    """Cora, K = 5, five rounds without dropout: weights, losses and validation as of K PyG models."""
    world = worlds.build("closed_set", real_graph("cora"), "published", 5, hops=2)
    config = configs.build(dataset="cora", method="fedavg", clients=5)
    clients = make_clients(world, config, 0.0)
    initial = config.method.initial(clients.model, torch_rng("init", 0))
    separate = textbook.make_clients(world, initial, 128, 0.0, config.protocol.lr, config.protocol.weight_decay)
    training = train(config.method, clients, 5, 1)
    for number in range(5):
        loss, validation, local = textbook.round_of_fedavg(separate, torch.full((5,), 0.2))
        assert training.curves["loss"][number] == pytest.approx(loss, abs=1e-5)
        assert training.curves["validation"][number] == pytest.approx(validation, abs=1e-6)
    for k, weights in enumerate(local):
        for name, expected in weights.items():
            torch.testing.assert_close(training.last[name][k], expected, atol=1e-5, rtol=0)


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
    a = torch.from_numpy(view_module.gcn_norm(graph.adjacency).toarray())
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


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=8))
@settings(max_examples=25, deadline=None)
def test_adam_is_k_adams_that_may_rest(schedule: list[list[bool]]) -> None:
    """Whatever the pattern of activity, each client's weights are those of its own torch.optim.Adam."""
    rng = torch.Generator().manual_seed(0)
    start = torch.randn(3, 4, 2, generator=rng)
    stacked = {"w": start.clone()}
    adam = StackedAdam(stacked, lr=0.1, weight_decay=0.01)
    singles = [torch.nn.Parameter(start[k].clone()) for k in range(3)]
    optimisers = [torch.optim.Adam([p], lr=0.1, weight_decay=0.01) for p in singles]
    for active in schedule:
        grads = torch.randn(3, 4, 2, generator=rng)
        adam.step([grads], None if all(active) else np.array(active))
        for k in range(3):
            if active[k]:
                singles[k].grad = grads[k].clone()
                optimisers[k].step()
    torch.testing.assert_close(stacked["w"], torch.stack([p.detach() for p in singles]), atol=1e-5, rtol=1e-5)


def test_mixing_matrices() -> None:
    theta = {"w": torch.randn(3, 2, 5)}
    share = torch.tensor([1.0, 2.0, 1.0])
    mean = average(theta, share)["w"]
    expected = (theta["w"][0] + 2 * theta["w"][1] + theta["w"][2]) / 4
    torch.testing.assert_close(mean, expected.expand(3, 2, 5))
    assert torch.equal(mix(theta, torch.eye(3))["w"], theta["w"])
    embedding = torch.randn(3, 4)
    matrix = softmax_of_cosine(embedding, 3.0)
    similarity = F.cosine_similarity(embedding[:, None], embedding[None], dim=-1)
    torch.testing.assert_close(matrix, torch.softmax(3 * similarity, 1))


@pytest.mark.parametrize("p", [0.0, 0.25, 0.5, 0.8])
def test_dropout_keeps_the_mean_and_the_rate(p: float) -> None:
    x = torch.ones(400, 501)
    out = dropout(x, p, torch_rng("dropout", 0))
    assert (out == 0).float().mean().item() == pytest.approx(p, abs=0.01)
    assert out.mean().item() == pytest.approx(1.0, abs=0.02)
    again = dropout(x, p, torch_rng("dropout", 0))
    assert torch.equal(out, again)
    if p:
        columns = (out == 0).float().mean(0)
        assert columns.std().item() < 0.05, "a byte of the random words is biased"


@given(st.integers(1, 4), st.integers(0, 2**31 - 1))
@settings(max_examples=25, deadline=None)
def test_padding_is_invertible(clients: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    from tests.conftest import stochastic_block_graph

    base = stochastic_block_graph(sizes=(9, 7), features=4, seed=seed % 7)
    nodes = [np.sort(rng.choice(16, rng.integers(1, 16), replace=False)) for _ in range(clients)]
    graph = UnionGraph.induced(base, nodes)
    rows = np.flatnonzero(rng.random(graph.num_nodes) < 0.5)
    padded = view_module.Padded.of(rows, graph)
    flat = padded.scatter(rows + 1).reshape(-1)
    assert np.array_equal(flat[padded.slot], rows + 1)
    assert (flat > 0).sum() == len(rows)
    assert np.array_equal(padded.slot // padded.width, graph.owner[rows])


def test_batches_of_everything_are_full_batches(toy_graph: Graph) -> None:
    """A batch no client can fill is one step on all its rows, teacher included; without dropout, the same numbers."""
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    for method in ("fedavg", "fedntd", "fedgcn"):
        curves = []
        for size in (0, 10_000):
            config = configs.build(
                {"protocol.batch": size, "model.hidden": 8}, dataset="cora", method=method, clients=3
            )
            curves.append(train(config.method, make_clients(world, config, 0.0), 4, 2).curves["loss"])
        assert curves[0] == pytest.approx(curves[1], abs=1e-5)


def test_batches_cover_once_and_teachers_follow(toy_graph: Graph) -> None:
    """floor(n_k / size) steps a client, no row twice, and each row meets its own teacher."""
    world = worlds.build("closed_set", toy_graph, "metis", 3, hops=2)
    world = replace(world, train=world.train[:-6])
    config = configs.build({"protocol.batch": 4, "model.hidden": 8}, dataset="cora", method="fedntd", clients=3)
    clients = make_clients(world, config, 0.0)
    teacher = clients.frozen_logits()
    flat = teacher.flatten(0, 1)[clients.train.slots]
    seen: list[np.ndarray] = []
    for batch in clients.epoch():
        assert batch is not None
        assert not clients.train.dense.kept, "laid out for many steps, used once"
        ours = clients.recalled(teacher).flatten(0, 1)[clients.train.slots]
        torch.testing.assert_close(ours, flat[np.searchsorted(world.train, batch.rows)])
        assert set(world.graph.owner[batch.rows]) == set(np.flatnonzero(batch.active))
        seen.append(batch.rows)
    rows = np.concatenate(seen)
    assert len(np.unique(rows)) == len(rows)
    sizes = np.bincount(world.graph.owner[world.train], minlength=3)
    assert np.array_equal(np.bincount(world.graph.owner[rows], minlength=3), 4 * (sizes // 4))
    assert clients.train.mask.sum() == len(world.train)
    assert clients.train.dense.kept
