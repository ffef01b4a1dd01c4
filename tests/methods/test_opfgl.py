"""O-pFGL piece by piece, against plain rewrites and PyG, and its bytes against the published ones."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCNConv, LabelPropagation
from torch_geometric.utils import dense_to_sparse, from_scipy_sparse_matrix

from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.split import PUBLISHED
from fgl_repro.federation.world import World
from fgl_repro.fl import secure
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.metrics import hits
from fgl_repro.fl.rounds import prepare, run_phases
from fgl_repro.fl.steps import Loss
from fgl_repro.methods.opfgl import labels, stages, surrogate
from fgl_repro.methods.opfgl.statistics import Statistics
from fgl_repro.nn.adjacency import gcn_norm
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients, tampered
from support.runs import make_config

needs_package = pytest.mark.skipif(secure.find_spec("cryptography") is None, reason="no package cryptography")
OPFGL = {"source": "opfgl", "ratios": PUBLISHED[1]}


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def test_labels_spread_as_in_pyg(world: World) -> None:
    edges, _ = from_scipy_sparse_matrix(world.graph.adjacency)
    mask = torch.zeros(world.graph.num_nodes, dtype=torch.bool)
    mask[world.train] = True
    for rounds in (3, 1):
        theirs = LabelPropagation(rounds, 0.6)(torch.from_numpy(world.graph.labels), edges, mask)
        missing = theirs.sum(1) == 0
        theirs[missing] = 1 / theirs.shape[1]
        np.testing.assert_allclose(labels.propagated(world, rounds, 0.6), theirs.numpy(), atol=1e-6)
    assert missing.any(), "labels reach all: the test says nothing of nodes that none reaches"


def test_a_hub_among_labels_is_no_surer_than_sure() -> None:
    star = np.zeros((10, 10), dtype=np.float32)
    star[0, 1:] = star[1:, 0] = 1
    graph = SimpleNamespace(num_nodes=10, labels=np.zeros(10, int), adjacency=sp.csr_matrix(star))
    graph.base = SimpleNamespace(num_classes=2)
    soft = labels.propagated(SimpleNamespace(graph=graph, train=np.arange(1, 10)), 1, 0.9)
    assert soft[0].tolist() == [1, 0], "nine neighbours would give 2.7"


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
    soft[3] = [0.75, 0.25] + [0] * (soft.shape[1] - 2)  # as sure as it must be, and no surer
    for major, sure, degree in ((1, 0.75, 2), (1, 0.5, 3), (2, 0.75, 0), (0, 0.75, 2)):
        expected = {}
        for u in set(range(world.graph.num_nodes)) - set(world.train.tolist()):
            share, own = soft[u] / soft[u].sum(), weights[world.graph.owner[u]]
            said = int(share.argmax())
            first = [c for c in np.argsort(own, kind="stable")[:major] if c == said]
            if share[said] >= sure - 1e-6 and world.graph.adjacency[[u]].nnz >= degree and first:
                expected[u] = said
        nodes, classes = labels.Reliable(major, sure, degree).nodes(world, soft, weights)
        assert dict(zip(nodes.tolist(), classes.tolist(), strict=True)) == expected
        assert bool(expected) == (major > 0)


@pytest.mark.parametrize(
    ("partitioner", "reliable", "number"),
    [("opfgl_louvain", labels.Reliable(1, 1.0, 20), 3), ("opfgl_metis", labels.Reliable(1, 0.95, 0), 994)],
)
def test_as_many_reliable_nodes_as_the_released_code_adds(
    partitioner: str, reliable: labels.Reliable, number: int, real_graph: Callable[..., Graph]
) -> None:
    """Of a run of the released code on Cora, ten clients."""
    world = worlds.build("plain", real_graph("cora", "raw", "whole"), partitioner, 10, seed=42, **OPFGL)
    nodes, _ = reliable.nodes(world, labels.propagated(world, 2, 0.9), labels.class_weights(world))
    assert len(nodes) == number


def test_all_clients_together_send_as_much_as_those_of_the_released_code(real_graph: Callable[..., Graph]) -> None:
    """1,238,544 bytes on Cora by Louvain: of 54 classes two counts, and mean and std of two blocks of features."""
    world = worlds.build("plain", real_graph("cora", "raw", "whole"), "opfgl_louvain", 10, seed=42, **OPFGL)
    options = {"method.confidence": 1.0, "method.degree": 20, "method.major": 1, "protocol.check_every": 1}
    training, _, _ = federate(make_config("opfgl", "release", **options), world, torch.device("cpu"))
    assert sum(int(training.ledger.clients["statistics", "up", f].sum()) for f in ("count", "mean", "std")) == 1_238_544


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_statistics_are_those_of_each_class_and_pool_to_those_of_all(hops: int, world: World) -> None:
    graph, rows = world.graph, world.train
    found = Statistics.of(graph, rows, graph.labels[rows], hops)
    parts = [graph.base.features[graph.node].toarray().astype(float)]
    for _ in range(hops):
        parts.append(gcn_norm(graph.adjacency) @ parts[-1])
    z = np.concatenate(parts, axis=1)
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


@pytest.mark.parametrize(("variant", "counts"), [("paper", 1), ("release", 2)])
@pytest.mark.parametrize(("name", "all_classes"), [("cora", 160_524), ("citeseer", 355_512), ("pubmed", 24_012)])
def test_bytes_are_the_published_ones(
    name: str, all_classes: int, variant: str, counts: int, real_graph: Callable[..., Graph]
) -> None:
    """A client with every class sends this much, by the paper; one without some of them, less by their share.

    The release sends a second count of each class.
    """
    world = worlds.build("plain", real_graph(name, "raw", "whole"), "opfgl_metis", 10, seed=42, **OPFGL)
    overrides = {"method.iterations": 1, "method.epochs": 1, "method.links": 4, "protocol.check_every": 1}
    config = make_config("opfgl", variant, **overrides)
    state = config.method.state(make_clients(world, config))
    present = (state.statistics.count > 0).sum(1)
    training, _, _ = federate(config, world, torch.device("cpu"))
    sent = sum(training.ledger.clients["statistics", "up", field] for field in ("count", "mean", "std"))
    classes = world.graph.base.num_classes
    assert (sent * classes == (all_classes + 4 * classes * (counts - 1)) * present).all()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"method.distill": "fixed", "method.scale": 0.4},
        {"method.distill": "none"},
        {"method.distill": "none", "method.focus": 2.0},
        {"method.scale": 0.4, "method.floor": 0.3, "method.ceiling": 0.6},  # some are below, some above
    ],
)
def test_the_second_stages_loss_is_that_of_the_paper(
    change: dict[str, object], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CE on training nodes plus the mean over all nodes of gamma KL(teacher || student), by client and node."""
    config = make_config("opfgl", "release", **change, **{"method.lr_tuning": 0.02})
    method, clients, graph = config.method, make_clients(world, config), world.graph
    draws = np.random.default_rng(0)
    soft = draws.random((graph.num_nodes, graph.base.num_classes)).astype(np.float32)
    weights = draws.random((graph.num_clients, graph.base.num_classes))
    found, rates = [], []

    def noted(clients: Clients, objective: Callable[[Clients], Loss], lr: float) -> tuple[()]:
        found.append(objective(clients))
        rates.append(lr)
        return ()

    monkeypatch.setattr(stages, "fine_tuning", noted)
    view = clients.inputs.evaluation_view(np.arange(graph.num_nodes))
    taught = torch.softmax(clients.model(clients.trained, view), -1).detach()
    list(stages.personalisation(method, clients, SimpleNamespace(soft=soft, weights=weights)))
    with torch.no_grad():
        for name, value in clients.trained.items():
            value.add_(torch.randn(value.shape, generator=torch_rng(name, 0)))
        student = torch.softmax(clients.model(clients.trained, view), -1)
        losses = found[0](None)
    slopes = torch.autograd.grad(found[0](None).sum(), list(clients.trained.values()))
    way = [torch.randn(value.shape, generator=torch_rng("way", 0)) for value in slopes]
    ends = []
    for sign in (1, -2):  # a small step there, and one back beyond the start
        with torch.no_grad():
            for value, to in zip(clients.trained.values(), way, strict=True):
                value.add_(to, alpha=sign * 2e-3)
            ends.append(float(found[0](None).sum()))
    along = sum(float((slope * to).sum()) for slope, to in zip(slopes, way, strict=True))
    assert along == pytest.approx((ends[0] - ends[1]) / 4e-3, rel=0.02, abs=1e-3)
    assert rates == [0.02]
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


@pytest.mark.parametrize("is_secure", [False, pytest.param(True, marks=needs_package)])
def test_clients_that_drop_out_are_in_no_statistics_and_get_the_surrogate_graph(
    is_secure: bool, toy_graph: Graph
) -> None:
    """What they have may be anything; what they would have sent costs nothing."""
    world = worlds.build("plain", toy_graph, "metis", 4)
    sizes = {"method.per_class": 0, "method.rate": 0.3}  # as many surrogate nodes as classes have training nodes
    config = make_config("opfgl", "release", **{"method.dropouts": 1, "method.secure": is_secure, **sizes})
    clients = make_clients(world, config)
    (gone,) = config.method.dropped(clients)
    here, pooled = np.arange(4) != gone, []
    for some in (world, tampered(world, int(gone))):
        ledger = Ledger()
        state, _ = prepare(config.method, make_clients(some, config), ledger)
        pooled.append(state.surrogate)
        for field in ("masked",) if is_secure else ("count", "mean", "std"):
            assert ((ledger.clients["statistics", "up", field] > 0) == here).all()
        assert (ledger.clients["download", "down", "surrogate"] > 0).all()
    torch.testing.assert_close(pooled[0].features, pooled[1].features, atol=1e-5, rtol=0)
    torch.testing.assert_close(pooled[0].links, pooled[1].links, atol=1e-5, rtol=0)
    with pytest.raises(UserError, match="give at most 3"):
        federate(make_config("opfgl", "release", **{"method.dropouts": 4}), world, torch.device("cpu"))


def test_a_surrogate_without_nodes_is_refused(world: World) -> None:
    """No client has two training nodes of one class, whose mean and deviation it would send."""
    config = make_config("opfgl", "release", **{"method.per_class": 0, "method.rate": 0.1})
    clients = make_clients(world, config)
    clients.world.class_counts[:] = np.minimum(clients.world.class_counts, 1)
    with pytest.raises(UserError, match=r"no client has two training nodes of one class.* set method\.per_class=1\."):
        prepare(config.method, clients, Ledger())


def test_stage_one_alone_and_every_ablation_end_elsewhere(world: World) -> None:
    """Each option is felt: no two of them leave the same weights."""
    usual = {"protocol.fine_tuning": 4, "protocol.check_every": 2, "protocol.rounds": 1, "protocol.patience": 9}
    usual |= {"method.lr_tuning": 0.05, "method.scale": 5.0, "method.ceiling": 2.0, "method.degree": 0}
    usual |= {"method.confidence": 0.5, "method.iterations": 60, "method.epochs": 9, "method.lr": 0.05}
    ends = []
    for change in (
        {},
        {"protocol.fine_tuning": 0},
        {"method.distill": "none"},
        {"method.distill": "fixed"},
        {"method.major": 0},
        {"method.distill": "none", "method.focus": 2.0},
    ):
        training, _, _ = federate(make_config("opfgl", "release", **usual | change), world, torch.device("cpu"))
        assert ("fine_tuning" in training.phases) == (change != {"protocol.fine_tuning": 0})
        ends.append(training.last["W1"])
    for number, one in enumerate(ends):
        assert not any(torch.equal(one, other) for other in ends[:number]), number
