"""O-pFGL piece by piece, against plain rewrites and PyG, and its bytes against the published ones."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCNConv, LabelPropagation
from torch_geometric.utils import dense_to_sparse, from_scipy_sparse_matrix

from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl import secure
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.metrics import hits
from fgl_repro.fl.rounds import prepare, run_phases
from fgl_repro.methods.opfgl import labels, predictor, stages, surrogate
from fgl_repro.methods.opfgl.statistics import Pooled, Statistics
from fgl_repro.nn.ops import normalised
from fgl_repro.nn.view import gcn_norm
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients, tampered
from support.runs import make_config

needs_package = pytest.mark.skipif(secure.find_spec("cryptography") is None, reason="no package cryptography")
NAMES, NORMS = (("weight", "W"), ("bias", "b")), (("weight", "gain"), ("bias", "shift"))


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def test_labels_spread_as_in_pyg(world: World) -> None:
    edges, _ = from_scipy_sparse_matrix(world.graph.adjacency)
    mask = torch.zeros(world.graph.num_nodes, dtype=torch.bool)
    mask[world.train] = True
    theirs = LabelPropagation(3, 0.6)(torch.from_numpy(world.graph.labels), edges, mask)
    missing = theirs.sum(1) == 0
    theirs[missing] = 1 / theirs.shape[1]
    np.testing.assert_allclose(labels.propagated(world, 3, 0.6), theirs.numpy(), atol=1e-6)


def test_class_weights_follow_the_homophily_of_training_nodes(world: World) -> None:
    graph, trains = world.graph, set(world.train.tolist())
    expected = np.zeros((graph.num_clients, graph.base.num_classes))
    for u in world.train:
        near = [v for v in graph.adjacency[[u]].indices if v in trains]
        if near:
            expected[graph.owner[u], graph.labels[u]] += np.mean(graph.labels[near] == graph.labels[u])
    np.testing.assert_allclose(labels.class_weights(world), 1 / (1 + np.log1p(expected)))


def test_reliable_nodes_are_sure_connected_and_of_major_classes(world: World) -> None:
    soft, weights = labels.propagated(world, 2, 0.9), labels.class_weights(world)
    nodes, said = labels.Reliable(1, 0.8, 2).nodes(world, soft, weights)
    assert len(nodes)
    assert not np.isin(nodes, world.train).any()
    shares = soft[nodes] / soft[nodes].sum(1, keepdims=True)
    assert (shares.max(1) >= 0.8 - 1e-6).all()
    assert (shares.argmax(1) == said).all()
    assert (np.diff(world.graph.adjacency.indptr)[nodes] >= 2).all()
    assert (said == weights.argmin(1)[world.graph.owner[nodes]]).all()
    assert len(labels.Reliable(0, 0.8, 2).nodes(world, soft, weights)[0]) == 0


def test_statistics_are_those_of_each_class_and_pool_to_those_of_all(world: World) -> None:
    graph, rows = world.graph, world.train
    found = Statistics.of(graph, rows, graph.labels[rows], hops=1)
    x = graph.base.features[graph.node].toarray().astype(float)
    z = np.concatenate([x, gcn_norm(graph.adjacency) @ x], axis=1)
    for k in range(3):
        for c in range(graph.base.num_classes):
            own = z[rows[(graph.owner[rows] == k) & (graph.labels[rows] == c)]]
            if len(own) < 2:
                assert found.count[k, c] == 0
                assert not found.mean[k, c].any()
                continue
            np.testing.assert_allclose(found.mean[k, c], own.mean(0), atol=1e-6)
            np.testing.assert_allclose(found.variance[k, c], own.var(0, ddof=1), atol=1e-6)
    sent = found.count[graph.owner[rows], graph.labels[rows]] > 0
    for by_client in (True, False):
        pooled = found.pooled(by_client)
        for c in range(graph.base.num_classes):
            own = z[rows[sent & (graph.labels[rows] == c)]]
            ddof = (found.count[:, c] > 0).sum() if by_client else 1
            if len(own) > ddof:
                np.testing.assert_allclose(pooled.mean[c], own.mean(0), atol=1e-6)
                np.testing.assert_allclose(pooled.std[c], own.std(0, ddof=ddof), atol=1e-5)
    assert pooled.share.sum() == pytest.approx(1)


@pytest.mark.parametrize("kept", [0, predictor.KEPT])
@pytest.mark.parametrize("piece", [1, 15, 4096])
def test_links_are_those_of_a_network_on_all_pairs(piece: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor, "PIECE", piece)
    monkeypatch.setattr(predictor, "KEPT", kept)
    rng = torch_rng("links", 0)
    net, x = predictor.predictor(5, 8, rng), torch.randn(7, 5, generator=rng)
    for name in ("gain1", "shift1", "gain2", "shift2"):
        net[name] = torch.randn(8, generator=rng)
    leaves = {name: value.requires_grad_() for name, value in {**net, "x": x}.items()}
    plain = nn.Sequential(
        nn.Linear(10, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)
    )
    own = {f"{place}.{kind}": (f"{ours}{layer}") for layer, place in ((1, 0), (2, 3), (3, 6)) for kind, ours in NAMES}
    own |= {f"{place}.{kind}": f"{ours}{layer}" for layer, place in ((1, 1), (2, 4)) for kind, ours in NORMS}
    weights = {theirs: net[ours].T if ours[0] == "W" else net[ours] for theirs, ours in own.items()}
    pairs = torch.cat([x.repeat_interleave(7, 0), x.repeat(7, 1)], dim=1)
    logits = torch.func.functional_call(plain, weights, (pairs,)).view(7, 7)
    expected = torch.sigmoid((logits + logits.T) / 2) * (1 - torch.eye(7))
    expected = torch.where(expected < 0.01, 0, expected)
    found, weigh = surrogate.linked(net, x), torch.randn(7, 7, generator=rng)
    torch.testing.assert_close(found, expected)
    ours, theirs = (
        torch.autograd.grad((links * weigh).sum(), list(leaves.values()), materialize_grads=True)
        for links in (found, expected)
    )
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("hops", [0, 1, 2])
@pytest.mark.parametrize("labels", [[0, 1, 2], [0, 0, 0, 2, 2, 3]])
def test_a_condensations_loss_and_its_gradients_are_those_of_a_plain_rewrite(hops: int, labels: list[int]) -> None:
    rng, draws, truth = torch_rng("loss", 0), np.random.default_rng(0), torch.tensor(labels)
    shape = 4, 5 * (hops + 1)
    pooled = Pooled(np.array([0.2, 0.3, 0.4, 0.1]), draws.normal(size=shape), draws.random(shape))
    work = surrogate.Condensation(pooled, truth, hops, "matrix", 4, (0.1, 0.1), (10.0, 0.1), rng)
    x = work.features["X"].detach().double().requires_grad_()
    links = work.linked(work.net, x.float()).detach().double().requires_grad_()
    around, parts = normalised(links), [x]
    for _ in range(hops):
        parts.append(around @ parts[-1])
    alike = torch.exp(-((x.unsqueeze(1) - x) ** 2) / 2).mean(2)
    expected = 0.1 * (links * alike).sum() / links.sum()
    mean, std = torch.from_numpy(pooled.mean), torch.from_numpy(pooled.std)
    for c in set(labels):
        own = torch.cat(parts, dim=1)[truth == c]
        expected = expected + 10 * pooled.share[c] * ((own.mean(0) - mean[c]) ** 2).mean()
        if len(own) > 1:
            expected = expected + 10 * pooled.share[c] * ((own.std(0) - std[c]) ** 2).mean()
    loss, d_x, d_links = work.loss(x.detach().float(), links.detach().float())
    torch.testing.assert_close(loss, expected.detach().float())
    by_x, by_links = torch.autograd.grad(expected, [x, links])
    torch.testing.assert_close(d_x, by_x.float(), atol=1e-5, rtol=1e-4)
    both = d_links + d_links.T, (by_links + by_links.T).float()  # links are symmetric: only the sum says something
    torch.testing.assert_close(*both, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("linking", ["predictor", "matrix", "dot"])
def test_condensation_comes_near_the_statistics_it_is_given(linking: str) -> None:
    rng = np.random.default_rng(0)
    pooled = Pooled(np.array([0.5, 0.3, 0.2]), rng.normal(size=(3, 12)), np.abs(rng.normal(size=(3, 12))))
    for each in (1, 4):
        work = surrogate.Condensation(
            pooled,
            torch.arange(3).repeat_interleave(each),
            1,
            linking,
            16,
            (0.02, 0.01),
            (10.0, 0.1),
            torch_rng("s", 0),
        )
        first = float(work.iterate(0))
        work.turn(1, 300)
        assert float(work.iterate(300)) < 0.5 * first
        links = work.result().links
        torch.testing.assert_close(links, links.T)
        assert not links.diagonal().any()
        assert links.min() >= 0


@pytest.mark.parametrize(("name", "all_classes"), [("cora", 160_524), ("citeseer", 355_512), ("pubmed", 24_012)])
def test_bytes_are_the_published_ones(real_graph: Callable[..., Graph], name: str, all_classes: int) -> None:
    """A client with every class sends this much, by the paper; one without some of them, less by their share."""
    world = worlds.build("plain", real_graph(name, "raw", "whole"), "opfgl_metis", 10, seed=42, source="opfgl")
    overrides = {"method.iterations": 1, "method.epochs": 1, "method.links": 4, "protocol.check_every": 1}
    config = make_config("opfgl", "paper", **overrides)
    state = config.method.state(make_clients(world, config))
    present = (state.statistics.count > 0).sum(1)
    training, _, _ = federate(config, world, torch.device("cpu"))
    sent = sum(training.ledger.clients["statistics", "up", field] for field in ("count", "mean", "std"))
    assert (sent * world.graph.base.num_classes == all_classes * present).all()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"method.distill": "fixed", "method.scale": 0.4},
        {"method.distill": "none"},
        {"method.distill": "none", "method.focus": 2.0},
        {"method.scale": 5.0, "method.floor": 0.3, "method.ceiling": 0.6},
    ],
)
def test_the_second_stages_loss_is_that_of_the_paper(
    change: dict[str, object], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CE on training nodes plus the mean over all nodes of gamma KL(teacher || student), by client and node."""
    config = make_config("opfgl", "release", **change)
    method, clients, graph = config.method, make_clients(world, config), world.graph
    draws = np.random.default_rng(0)
    soft = draws.random((graph.num_nodes, graph.base.num_classes)).astype(np.float32)
    weights = draws.random((graph.num_clients, graph.base.num_classes))
    found = []
    monkeypatch.setattr(stages, "fine_tuning", lambda clients, objective, lr: found.append(objective(clients)) or ())
    view = clients.inputs.judged(np.arange(graph.num_nodes))
    taught = torch.softmax(clients.model(clients.trained, view), -1).detach()
    list(stages.personalisation(method, clients, SimpleNamespace(soft=soft, weights=weights)))
    with torch.no_grad():
        for name, value in clients.trained.items():
            value.add_(torch.randn(value.shape, generator=torch_rng(name, 0)))
        student = torch.softmax(clients.model(clients.trained, view), -1)
        losses = found[0](None)
    trains = set(world.train.tolist())
    for k in range(graph.num_clients):
        nodes, own, apart = range(graph.ptr[k], graph.ptr[k + 1]), [], []
        for row, node in enumerate(nodes):
            right = float(student[k, row, graph.labels[node]])
            if node in trains:
                own.append(-np.log(right) * (1 - right) ** method.focus)
            gamma = method.scale * float(soft[node] @ weights[k]) if method.distill == "node" else method.scale
            gamma = 0.0 if method.distill == "none" else min(max(gamma, method.floor), method.ceiling)
            apart.append(gamma * float((taught[k, row] * (taught[k, row] / student[k, row]).log()).sum()))
        assert float(losses[k]) == pytest.approx(np.mean(own) + np.mean(apart), rel=1e-4)


def test_stage_one_is_that_of_separate_clients_which_keep_other_checkpoints(world: World) -> None:
    """One training for all, and K of PyG's networks that each stop and keep their best by themselves."""
    rules = {"protocol.check_every": 2, "protocol.patience": 3, "method.epochs": 80, "method.lr": 0.03}
    config = make_config("opfgl", "release", **rules)
    clients = make_clients(world, config)
    draws, classes, width = torch_rng("small", 1), world.graph.base.num_classes, world.graph.base.num_features
    links = torch.rand(classes, classes, generator=draws)
    inputs, truth = torch.randn(classes, width, generator=draws), torch.arange(classes)
    small = surrogate.Surrogate(inputs, (links + links.T) / 2 * (1 - torch.eye(classes)), truth)
    start = {name: value[0].clone() for name, value in clients.trained.items()}
    phases = stages.generalisation(config.method, clients, SimpleNamespace(surrogate=small))
    run_phases(phases, 3, Ledger(), None)
    (ends, weights), kept = dense_to_sparse(small.links), []
    view = clients.validation
    for k in range(3):
        conv1, conv2 = GCNConv(width, 8), GCNConv(8, classes)
        with torch.no_grad():
            for conv, layer in ((conv1, 1), (conv2, 2)):
                conv.lin.weight.copy_(start[f"W{layer}"].T)
                conv.bias.copy_(start[f"b{layer}"])
        adam = torch.optim.Adam([*conv1.parameters(), *conv2.parameters()], lr=0.03)
        score, best, waited = -1.0, {}, 0
        for epoch in range(80):
            adam.zero_grad()
            cross_entropy(conv2(conv1(inputs, ends, weights).relu(), ends, weights), truth).backward()
            adam.step()
            if epoch and epoch % 2 == 0:
                parts = (conv1.lin.weight.T, conv1.bias, conv2.lin.weight.T, conv2.bias)
                now = {
                    name: value.detach().clone() for name, value in zip(("W1", "b1", "W2", "b2"), parts, strict=True)
                }
                with torch.no_grad():
                    logits = clients.model({name: value.expand(3, *value.shape) for name, value in now.items()}, view)
                found = float((hits(logits, view) / view.counts)[k])
                score, best, waited = (found, now, 0) if found > score else (score, best, waited + 1)
                if waited == 3:
                    break
        for name, value in best.items():
            torch.testing.assert_close(clients.trained[name][k].detach(), value, atol=1e-4, rtol=1e-3)
        kept.append(best["W2"])
    assert not torch.equal(kept[0], kept[1]) or not torch.equal(kept[1], kept[2]), "all kept the same checkpoint"


@pytest.mark.parametrize(("rate", "each"), [(0.0, 1), (0.3, 0), (0.01, 0)])
def test_the_surrogate_has_as_many_nodes_of_a_class_as_the_rate_says(rate: float, each: int, world: World) -> None:
    """Section 7 of what the release does: rate times the class's training nodes, rounded up; or so many a class."""
    config = make_config("opfgl", "release", **{"method.rate": rate, "method.per_class": each})
    clients = make_clients(world, config)
    state, _ = prepare(config.method, clients, Ledger())
    sent = np.zeros(world.graph.base.num_classes, dtype=int)
    for k in range(3):
        own = np.bincount(world.graph.labels[world.train[world.graph.owner[world.train] == k]], minlength=len(sent))
        sent += np.where(own >= 2, own, 0)
    expected = [each or int(np.ceil(rate * number)) for number in sent]
    assert state.surrogate.labels.bincount(minlength=len(sent)).tolist() == expected


@pytest.mark.parametrize("is_secure", [False, pytest.param(True, marks=needs_package)])
def test_clients_that_drop_out_are_in_no_statistics_and_get_the_surrogate_graph(is_secure: bool, world: World) -> None:
    """What they have may be anything; what they would have sent costs nothing."""
    config = make_config("opfgl", "release", **{"method.dropouts": 1, "method.secure": is_secure})
    clients = make_clients(world, config)
    (gone,) = config.method.dropped(clients)
    here, pooled = np.arange(3) != gone, []
    for some in (world, tampered(world, int(gone))):
        ledger = Ledger()
        state, _ = prepare(config.method, make_clients(some, config), ledger)
        pooled.append(state.surrogate)
        for field in ("masked",) if is_secure else ("count", "mean", "std"):
            assert ((ledger.clients["statistics", "up", field] > 0) == here).all()
        assert (ledger.clients["download", "down", "surrogate"] > 0).all()
    torch.testing.assert_close(pooled[0].features, pooled[1].features, atol=1e-5, rtol=0)
    torch.testing.assert_close(pooled[0].links, pooled[1].links, atol=1e-5, rtol=0)
    with pytest.raises(UserError, match="give at most 2"):
        federate(make_config("opfgl", "release", **{"method.dropouts": 3}), world, torch.device("cpu"))


def test_stage_one_alone_and_the_ablations_run(world: World) -> None:
    for change in (
        {"protocol.fine_tuning": 0},
        {"method.distill": "none"},
        {"method.distill": "fixed"},
        {"method.major": 0},
        {"method.distill": "none", "method.focus": 2.0},
    ):
        tuning = {"protocol.fine_tuning": 4, "protocol.check_every": 2, "protocol.rounds": 1}
        training, metrics, _ = federate(make_config("opfgl", "release", **tuning | change), world, torch.device("cpu"))
        assert ("fine_tuning" in training.phases) == (change != {"protocol.fine_tuning": 0})
        assert metrics["seen_graph"]["last"]["accuracy"] == metrics["seen_graph"]["best"]["accuracy"]
