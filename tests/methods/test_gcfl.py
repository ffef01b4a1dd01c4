"""GCFL: when clusters are split, where, and what they average."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.messages import Ledger, Weights
from fgl_repro.fl.rounds import prepare
from fgl_repro.fl.steps import Loss, Watch
from fgl_repro.methods.gcfl import GCFL, GCFLPlus, State, Upload, halves, warped
from support import worlds
from support.isolation import make_clients
from support.runs import config_of_graphs, make_config


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def test_minimum_cut_separates_two_groups() -> None:
    near = torch.full((5, 5), 0.1)
    near[:2, :2] = near[2:, 2:] = 2.0
    assert sorted(map(sorted, halves(near))) == [[0, 1], [2, 3, 4]]


def test_a_cut_weighs_cosines_from_0_to_2() -> None:
    unit = torch.tensor([[1.0, 0.0], [0.95, 0.3], [0.0, 1.0], [-0.3, 0.95]])
    near = GCFL().likeness([0, 1, 2, 3], unit, State([[0, 1, 2, 3]], torch.zeros(4, 2)))
    torch.testing.assert_close(near, torch.cosine_similarity(unit[:, None], unit[None], dim=2) + 1)


@pytest.mark.parametrize(("ratio", "clusters"), [(0.4, 1), (0.5, 2)])
def test_a_ratio_of_norms_decides_whether_a_cluster_is_split(ratio: float, clusters: int) -> None:
    """The mean of five updates of length 1 at right angles has length 0.447."""
    state = State([list(range(5))], torch.zeros(5, 5))
    assert len(GCFL(ratio=ratio).divided(list(range(5)), torch.eye(5), state)) == clusters


@pytest.mark.parametrize("variant", ["release", "paper"])
def test_gcfl_splits_clients_that_pull_apart_and_averages_inside_clusters(variant: str, world: World) -> None:
    """Inside a cluster all weigh alike, or by their training nodes (paper)."""
    config = make_config("gcfl", variant, **{"method.warmup": 0})
    clients, method = make_clients(world, config), config.method
    assert isinstance(method, GCFL)
    state = method.state(clients)
    with torch.no_grad():  # weights that are alike say nothing of updates that are not
        for value in clients.params.values():
            value += 100.0
    method.receive(clients, state, Weights(clients.params))
    with torch.no_grad():
        for value in clients.params.values():
            value += torch.tensor([1.0, -1.0, 1.1]).view(3, *[1] * (value.dim() - 1))
    down = method.aggregate(clients, state, Weights(clients.params)).tensors()
    assert sorted(state.clusters) == [[0, 2], [1]]
    torch.testing.assert_close(down["W1"][1], clients.params["W1"][1])
    one, other = (clients.samples[[0, 2]] if variant == "paper" else torch.ones(2)).tolist()
    assert (one == other) == (variant == "release")
    expected = (one * clients.params["W1"][0] + other * clients.params["W1"][2]) / (one + other)
    torch.testing.assert_close(down["W1"][0], expected)
    torch.testing.assert_close(down["W1"][0], down["W1"][2])


def test_gcfl_leaves_a_cluster_that_agrees() -> None:
    updates = torch.randn(4, 6).abs() + 1
    state = State([[0, 1, 2, 3]], torch.zeros(4, 6))
    assert GCFL().divided([0, 1, 2, 3], updates, state) == [[0, 1, 2, 3]]
    assert GCFL().divided([0, 1], torch.tensor([[1.0], [-1.0]]), state) == [[0, 1]]


def test_the_largest_update_decides_whether_gcfl_splits() -> None:
    """||mean|| is 0.37: less than half of the largest norm, 3, but more than half of the norm of who hardly moves."""
    state = State([[0, 1, 2]], torch.zeros(3, 1))
    assert sorted(GCFL().divided([0, 1, 2], torch.tensor([[3.0], [-2.0], [0.1]]), state)) == [[0, 2], [1]]


@pytest.mark.parametrize(
    ("updates", "split"),
    [
        ([[0.12], [-0.04], [0.0]], True),
        ([[0.09], [-0.04], [0.0]], False),
        ([[0.3], [-0.04], [0.0]], False),
        ([[0.3], [-0.3], [0.3], [-0.3]], True),
    ],
    ids=["small mean, large update", "all small", "large mean", "all large"],
)
def test_by_norms_a_split_needs_a_small_mean_and_a_large_update(updates: list[list[float]], split: bool) -> None:
    cluster = list(range(len(updates)))
    found = GCFL(split="norms").divided(cluster, torch.tensor(updates), State([cluster], torch.zeros(len(cluster), 1)))
    assert (len(found) == 2) == split


def test_by_ratio_five_updates_that_have_nothing_in_common_are_split() -> None:
    """Their mean is 1 / sqrt(5) of their norm."""
    state = State([list(range(5))], torch.zeros(5, 5))
    assert len(GCFL().divided(list(range(5)), torch.eye(5), state)) == 2
    assert len(GCFL(split="norms").divided(list(range(5)), torch.eye(5), state)) == 1


def test_warping_is_that_of_its_definition() -> None:
    """By recursion over the ends of two series, without a table."""

    def squared(one: list[float], other: list[float]) -> float:
        if not one or not other:
            return 0.0 if one == other else math.inf
        before = (squared(one[:-1], other[:-1]), squared(one[:-1], other), squared(one, other[:-1]))
        return (one[-1] - other[-1]) ** 2 + min(before)

    series = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    found, rows = warped(series), series.tolist()
    for i in range(4):
        for j in range(4):
            assert found[i, j].item() == pytest.approx(math.sqrt(squared(rows[i], rows[j])), abs=1e-5)
    late = torch.tensor([[1.0, 1.0, 5.0, 1.0], [1.0, 5.0, 1.0, 1.0]])
    assert warped(late)[0, 1] == 0, "the same course at another pace"


@pytest.mark.parametrize("standardise", [False, True])
def test_gcfl_plus_cuts_by_the_course_of_the_norms(standardise: bool) -> None:
    """Updates alone would part client 3 from the others; norms rise at clients 0 and 3 and fall at 1 and 2."""
    method = GCFLPlus(length=3, standardise=standardise)
    updates = torch.tensor([[1.0, 0.2], [1.0, -0.2], [1.0, 0.0], [-4.0, 0.1]])
    state = State([[0, 1, 2, 3]], torch.zeros(4, 2))
    rising, falling = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 2.0, 1.0])
    course = torch.stack([rising, falling, falling * 1.1, rising * 1.1], dim=1)
    state.norms = list(course[1:])
    assert method.divided([0, 1, 2, 3], updates, state) == [[0, 1, 2, 3]], "two rounds are too few"
    state.norms = [torch.tensor([9.0, 0.0, 0.0, 0.0]), *course]
    assert sorted(method.divided([0, 1, 2, 3], updates, state)) == [[0, 3], [1, 2]]
    assert state.norms == [], "all begin anew"
    assert sorted(GCFL().divided([0, 1, 2, 3], updates, state)) == [[0, 1, 2], [3]]
    state.norms = list(course)
    assert method.divided([0, 1, 2, 3], updates.abs() + 1, state) == [[0, 1, 2, 3]]
    assert len(state.norms) == 3, "nothing was split"


@pytest.mark.parametrize(("standardise", "clusters"), [(False, [[0, 2], [1]]), (True, [[0, 1], [2]])])
def test_standardised_norms_are_compared_by_their_course_alone(standardise: bool, clusters: list[list[int]]) -> None:
    """Client 1's norms are ten times client 0's, client 2's are client 0's backwards."""
    method = GCFLPlus(length=3, standardise=standardise)
    state = State([[0, 1, 2]], torch.zeros(3, 1))
    state.norms = list(torch.tensor([[1.0, 10.0, 3.0], [2.0, 20.0, 2.0], [3.0, 30.0, 1.0]]))
    assert sorted(method.divided([0, 1, 2], torch.tensor([[1.0], [-1.0], [0.1]]), state)) == clusters


def test_gcfl_plus_tells_the_gradient_of_the_last_batch() -> None:
    """Clients with 4, 10 and 10 graphs in batches of 4: the first takes one step, the others three."""
    config = config_of_graphs("gcflplus", "release", **{"model.dropout": 0.0, "protocol.lr": 1e-9})
    world = worlds.of_graphs(worlds.graph_set())
    owner = world.graph.owner[world.train]
    few = replace(world, train=np.concatenate([world.train[owner == 0][:4], world.train[owner > 0]]))
    clients, method = make_clients(few, config), config.method
    state, _ = prepare(method, clients, Ledger())
    steps = list(make_clients(few, config).steps(1))  # the same draws
    method.fit(clients, state, 0, 1)
    upload = method.upload(clients, state)
    assert isinstance(upload, Upload)
    for k, last in enumerate((0, 2, 2)):
        loss = steps[last].task_loss(clients.model(clients.params, steps[last].view))[k]
        grads = torch.autograd.grad(loss, list(clients.params.values()), materialize_grads=True)
        expected = torch.cat([grad[k].flatten() for grad in grads]).norm()
        assert upload.norm[k].item() == pytest.approx(expected.item(), rel=1e-3)
    method.aggregate(clients, state, upload)
    assert torch.equal(state.norms[0], upload.norm)


def test_between_shares_neither_first_map_nor_classifier_and_looks_at_nothing_else() -> None:
    """As GCFL's own model: of the GIN the isomorphism layers."""
    world = worlds.of_graphs(worlds.graph_set())
    config = config_of_graphs("gcflplus", "release", **{"method.shared": "between", "method.warmup": 0})
    clients, method = make_clients(world, config), config.method
    assert isinstance(method, GCFLPlus)
    state, _ = prepare(method, clients, Ledger())
    home = {"W1", "b1", "W5", "b5", "W6", "b6"}
    assert home < set(clients.params)
    grads: list[dict[str, torch.Tensor]] = []
    usual = clients.train

    def train(loss: Loss, epochs: int, watch: Watch) -> torch.Tensor:
        def also(every: Sequence[torch.Tensor], active: np.ndarray | None) -> None:
            grads.append(dict(zip(clients.params, (grad.clone() for grad in every), strict=True)))
            watch(every, active)

        return usual(loss, epochs, watch=also)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "train", train)
        method.fit(clients, state, 0, 1)
    up = method.upload(clients, state)
    assert set(up.weights) == set(clients.params) - home
    last = torch.cat([grads[-1][name].flatten(1) for name in up.weights], dim=1)
    torch.testing.assert_close(up.norm, last.norm(dim=1))
    assert set(method.aggregate(clients, state, up).tensors()) == set(up.weights)


def test_between_shares_a_layer_whose_number_ends_like_the_first() -> None:
    config = config_of_graphs("gcflplus", "release", **{"method.shared": "between", "model.layers": 11})
    clients = make_clients(worlds.of_graphs(worlds.graph_set()), config)
    shared = set(config.method.sent(clients))
    assert {"W11", "bond11", "inner_W11"} <= shared
    assert shared.isdisjoint({"W1", "b1", "W13", "W14"})


def test_between_is_refused_where_nothing_lies_between(world: World) -> None:
    config = make_config("gcfl", "release", **{"method.shared": "between"})
    config.model = registry.option("model", "gcn2")(hidden=8, dropout=0.0)
    with pytest.raises(UserError, match="nothing to share of two layers"):
        config.method.state(make_clients(world, config))
