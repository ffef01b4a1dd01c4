"""FedTAD piece by piece, against plain rewrites: reliabilities, generated graphs, losses, rounds, bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GCNConv

from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.messages import Ledger, Weights
from fgl_repro.fl.mixing import average, class_shares
from fgl_repro.fl.rounds import prepare
from fgl_repro.methods.fedtad import reliability
from fgl_repro.methods.fedtad.server import FedTADServer, alikeness
from fgl_repro.methods.generated import graphs
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


@pytest.fixture
def rates(world: World) -> torch.Tensor:
    """Random reliabilities ``[K, C]``."""
    return torch.rand(3, world.graph.base.num_classes, generator=torch_rng("rates", 0))


@pytest.fixture
def server(world: World, rates: torch.Tensor) -> FedTADServer:
    """One whose teachers differ and whose reliabilities are random."""
    config = make_config("fedtad", "paper")
    clients = make_clients(world, config)
    made = FedTADServer(config.method, clients, class_shares(rates))
    rng = torch_rng("teachers", 0)
    made.teachers = {name: torch.randn(value.shape, generator=rng) for name, value in clients.params.items()}
    return made


def test_return_probabilities_are_diagonals_of_powers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = world.graph.adjacency.toarray().astype(float)
    step = dense / np.maximum(dense.sum(0), 1)
    expected = np.stack([np.diag(np.linalg.matrix_power(step, m)) for m in range(1, 6)], axis=1)
    for block in (7, 10_000):
        monkeypatch.setattr(reliability, "BLOCK", block)
        np.testing.assert_allclose(reliability.return_probabilities(world.graph), expected, atol=1e-12)


def test_released_walks_begin_at_home_and_hardly_know_edges(world: World) -> None:
    graph = world.graph
    found = reliability.visited(graph, seed=0)
    assert found.shape == (graph.num_nodes, 15)
    sizes, own = np.diff(graph.ptr), np.arange(graph.num_nodes) - graph.ptr[:-1][graph.owner]
    for column in (0, 1, 3, 6, 10):
        assert (found[:, column] == own).all()
    assert (found >= 0).all()
    assert (found < sizes[graph.owner][:, None]).all()
    moved = found[:, 2] != own
    odds = np.exp(1 / (np.diff(graph.adjacency.indptr) + 1))
    expected = 1 - (odds / (odds + sizes[graph.owner] - 1)).mean()
    assert abs(moved.mean() - expected) < 0.05


def test_reliability_is_the_likeness_of_neighbours(world: World) -> None:
    graph = world.graph
    topology = reliability.return_probabilities(graph)
    e = np.concatenate([graph.base.features[graph.node].toarray(), topology], axis=1)
    expected = np.zeros((3, graph.base.num_classes))
    for i in world.train:
        near = graph.adjacency[[i]].indices
        cosines = [e[i] @ e[j] / (np.linalg.norm(e[i]) * np.linalg.norm(e[j])) for j in near]
        expected[graph.owner[i], graph.labels[i]] += (1 + sum(cosines)) / (len(near) + 1)
    np.testing.assert_allclose(reliability.reliability(world, topology), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "expected"), [((7, 1433), 412_234), ((6, 3703), 995_547), ((3, 500), 172_157), ((40, 128), 80_512)]
)
def test_generators_have_the_published_sizes(sizes: tuple[int, int], expected: int) -> None:
    net = graphs.network(32, *sizes, torch_rng("g", 0), CPU)
    assert sum(value.numel() for value in net.values()) == expected


def test_labels_come_in_blocks_and_the_last_class_has_the_rest() -> None:
    assert graphs.balanced(100, 7, CPU).bincount().tolist() == [14] * 6 + [16]
    assert graphs.balanced(6, 3, CPU).tolist() == [0, 0, 1, 1, 2, 2]


def test_nodes_are_linked_with_their_nearest() -> None:
    x = torch.randn(12, 5, generator=torch_rng("x", 0), requires_grad=True)
    graph = graphs.PseudoGraph.of(x, neighbours=4)
    links = np.eye(12)
    for a in range(12):
        cosines = [float(F.cosine_similarity(x[a], x[b], dim=0).detach()) for b in range(12)]
        for b in np.argsort(cosines)[-4:]:
            links[a, b] = links[b, a] = 1
    scale = 1 / np.sqrt(links.sum(1))
    np.testing.assert_allclose(graph.around.numpy(), scale[:, None] * links * scale, atol=1e-6)
    assert not graph.around.requires_grad


def test_stacked_networks_read_a_graph_as_pyg_does(server: FedTADServer) -> None:
    graph = server.graph(server.noise()).detached()
    edges = (graph.around.clone().fill_diagonal_(0) > 0).nonzero().T
    logits = server.teacher_logits(graph)
    for k in range(3):
        own = {name: value[k] for name, value in server.teachers.items()}
        layers = []
        for layer in ("1", "2"):
            layers.append(GCNConv(*own[f"W{layer}"].shape))
            layers[-1].lin.weight.data, layers[-1].bias.data = own[f"W{layer}"].T, own[f"b{layer}"]
        expected = layers[1](layers[0](graph.features, edges).relu(), edges)
        torch.testing.assert_close(logits[k], expected, rtol=1e-4, atol=1e-4)


def test_losses_are_the_sums_over_clients_and_classes(server: FedTADServer, rates: torch.Tensor) -> None:
    noise, classes = server.noise(), server.model.num_classes
    graph = server.graph(noise)
    logits, own = server.teacher_logits(graph), server.student_logits_fixed(graph)[0]
    shares = rates / rates.sum(0)
    known, apart = torch.zeros(()), torch.zeros(())
    for k in range(3):
        for c in range(classes):
            nodes = server.labels == c
            known = known + shares[k, c] * F.cross_entropy(logits[k][nodes], server.labels[nodes])
            apart = apart + shares[k, c] * (own[nodes] - logits[k][nodes]).abs().mean()
    pairs = [
        ((noise[a] - noise[b]) ** 2).mean() * (graph.features[a] - graph.features[b]).abs().mean()
        for a in range(len(noise))
        for b in range(len(noise))
    ]
    alike = torch.exp(-torch.stack(pairs).mean())
    torch.testing.assert_close(alikeness(noise, graph.features), alike)
    torch.testing.assert_close(server.generator_loss(noise)[0], known + 3 * alike - apart)


def test_reliabilities_are_shared_among_clients_and_models_weigh_by_all_nodes(world: World) -> None:
    config = make_config("fedtad", "paper")
    clients = make_clients(world, config)
    state, _ = prepare(config.method, clients, Ledger())
    sent, labels = state.sent.reliability, state.server.labels
    assert (sent.sum(0) - 1).abs().min() > 0.1
    for c in range(sent.shape[1]):
        torch.testing.assert_close(state.server.weight[:, labels == c].sum(1), sent[:, c] / sent[:, c].sum())
    np.testing.assert_array_equal(config.method.share(clients), np.diff(world.graph.ptr))


def test_generator_and_student_step_at_rates_of_their_own_and_both_decay(world: World) -> None:
    """Under a decay that outweighs all gradients, Adam's first step takes its rate off every weight."""
    rates = {"method.lr_generator": 0.002, "method.lr_student": 0.005, "method.weight_decay": 1e9}
    once = {"method.epochs": 1, "method.generator_steps": 1, "method.student_steps": 1}
    config = make_config("fedtad", "paper", **{**rates, **once})
    clients = make_clients(world, config)
    state, _ = prepare(config.method, clients, Ledger())
    rng = torch_rng("teachers", 0)
    teachers = {name: torch.randn(value.shape, generator=rng) for name, value in clients.params.items()}
    start = {name: value[:1] for name, value in teachers.items()}
    before = {name: value.detach().clone() for name, value in state.server.generator.items()}
    after = state.server.distil(teachers, start)
    for name, value in start.items():
        torch.testing.assert_close(after[name], value - 0.005 * value.sign())
    for name, value in before.items():
        torch.testing.assert_close(state.server.generator[name].detach(), value - 0.002 * value.sign())


def test_what_teachers_say_is_fixed_where_a_generator_looks_for_disagreement(server: FedTADServer) -> None:
    """L_dis moves features by what the student says of them alone."""
    server.method.known = server.method.diverse = 0.0
    noise, net = server.noise(), list(server.generator.values())
    found = torch.autograd.grad(server.generator_loss(noise).sum(), net)
    graph = server.graph(noise)
    teachers = server.teacher_logits(graph).detach()
    student = server.student_logits_fixed(graph)[0]
    apart = sum((server.weight[k] * (student - teachers[k]).abs().mean(1)).sum() for k in range(3))
    for slope, expected in zip(found, torch.autograd.grad(-apart, net), strict=True):
        torch.testing.assert_close(slope, expected, rtol=1e-4, atol=1e-5)


def test_students_learn_on_the_graph_that_the_generator_has_learnt_to_make(server: FedTADServer) -> None:
    """One noise an epoch: the generator's steps and the graph after them have the same."""
    before = server.rng.get_state()
    graph = server.train_generator(0)
    server.rng.set_state(before)
    torch.testing.assert_close(graph.features, server.graph(server.noise()).features.detach())
    assert not graph.features.requires_grad


def test_every_round_has_its_own_teachers_and_its_own_start(server: FedTADServer) -> None:
    server.method.epochs = 0
    for number in range(2):
        rng = torch_rng("round", number)
        teachers = {name: torch.randn(value.shape, generator=rng) for name, value in server.teachers.items()}
        start = {name: value[1:2] for name, value in teachers.items()}
        after = server.distil(teachers, start)
        for name, value in teachers.items():
            assert torch.equal(server.teachers[name], value)
            assert torch.equal(after[name], start[name])


@pytest.mark.parametrize("variant", ["paper", "release"])
def test_models_that_do_not_train_drop_out_in_the_release_alone(variant: str, world: World) -> None:
    config = make_config("fedtad", variant, **{"model.dropout": 0.5})
    clients = make_clients(world, config)
    server = config.method.state(clients).server
    server.teachers = {name: value.detach() for name, value in clients.params.items()}
    graph = server.graph(server.noise()).detached()
    for says in (server.teacher_logits, server.student_logits_fixed):
        assert torch.equal(says(graph), says(graph)) == (variant == "paper")
    assert not torch.equal(server.student_logits(graph), server.student_logits(graph)), "who learns drops out"


def test_the_student_comes_near_its_teachers(world: World) -> None:
    """From the mean of the clients' models: the weighted distance on a graph that it has not learnt from."""
    config = make_config("fedtad", "paper", **{"method.epochs": 40, "method.generator_steps": 1, "protocol.rounds": 1})
    clients = make_clients(world, config)
    state, _ = prepare(config.method, clients, Ledger())
    config.method.fit(clients, state, 0, 20)
    teachers = {name: value.detach() for name, value in clients.params.items()}
    start = average(teachers, config.method.share(clients))
    with torch.no_grad():
        down = config.method.aggregate(clients, state, Weights(teachers)).tensors()
        work = state.server
        graph = work.graph(work.noise())
        logits = work.teacher_logits(graph)
        before, after = (
            float(work.apart(work.model({n: v[:1] for n, v in w.items()}, graph.view(1)), logits))
            for w in (start, down)
        )
    assert after < before


def test_generator_and_optimisers_go_on_from_round_to_round(world: World) -> None:
    config = make_config("fedtad", "paper")
    clients = make_clients(world, config)
    state, _ = prepare(config.method, clients, Ledger())
    for number in (1, 2):
        with torch.no_grad():
            config.method.aggregate(clients, state, Weights(clients.params))
        turns = number * config.method.epochs
        assert float(state.server.optimiser.counts[0]) == turns * config.method.generator_steps
        assert float(state.server.student_descent.counts[0]) == turns * config.method.student_steps


def test_bytes_are_a_model_each_way_and_the_reliabilities_once(real_graph: Callable[..., Graph]) -> None:
    world = worlds.build("plain", real_graph("cora", "raw", "whole"), "opfgl_metis", 10, seed=42, source="opfgl")
    overrides = {"model.hidden": 64, "method.epochs": 1, "protocol.rounds": 3}
    training, _, _ = federate(make_config("fedtad", "paper", **overrides), world, CPU)
    assert training.ledger.as_dict() == {
        "reliability": {"up": {"reliability": 28}},
        "rounds": {"up": {"weights": 3 * 368_924}, "down": {"weights": 3 * 368_924}},
    }


def test_too_few_nodes_are_refused(world: World) -> None:
    config = make_config("fedtad", "paper", **{"method.nodes": 5, "method.neighbours": 2})
    clients = make_clients(world, config)
    clients.model = clients.model.__class__(**{**vars(clients.model), "num_classes": 6})
    with pytest.raises(UserError, match="give at least 6"):
        config.method.state(clients)
    with pytest.raises(UserError, match="out of range"):
        make_config("fedtad", "paper", **{"method.nodes": 4, "method.neighbours": 5})
