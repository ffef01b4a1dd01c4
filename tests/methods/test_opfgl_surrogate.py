"""O-pFGL's server: its link predictor, its condensation and what that is given, against plain rewrites."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl import secure
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.rounds import prepare
from fgl_repro.methods.condensing import predictor
from fgl_repro.methods.opfgl import OpFGL, condensation, labels, surrogate
from fgl_repro.methods.opfgl.statistics import Pooled, Statistics
from fgl_repro.nn.ops import normalised
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

needs_package = pytest.mark.skipif(secure.find_spec("cryptography") is None, reason="no package cryptography")
NAMES, NORMS = (("weight", "W"), ("bias", "b")), (("weight", "gain"), ("bias", "shift"))


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


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
    found, weigh = condensation.predictor_links(net, x), torch.randn(7, 7, generator=rng)
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
    work = condensation.SurrogateTraining(
        OpFGL(hops=hops, linking="matrix", align=10.0, smooth=0.1), pooled, truth, rng
    )
    x = work.features["X"].detach().double().requires_grad_()
    links = work.links_of(work.net, x.float()).detach().double().requires_grad_()
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
    method = OpFGL(linking=linking, links=16, lr_features=0.02, lr_links=0.01)
    for each in (1, 4):
        classes = torch.arange(3).repeat_interleave(each)
        work = condensation.SurrogateTraining(method, pooled, classes, torch_rng("s", 0))
        first = float(work.iterate(0))
        work.turn(1, 300)
        assert float(work.iterate(300)) < 0.5 * first
        links = work.result().links
        torch.testing.assert_close(links, links.T)
        assert not links.diagonal().any()
        assert links.min() >= 0


@pytest.mark.parametrize("linking", ["predictor", "dot"])
def test_a_cycle_begins_with_the_predictor_and_weak_links_are_none(linking: str) -> None:
    """Ten iterations of fifty train the links, the others the features."""
    pooled = Pooled(np.array([0.5, 0.5]), np.ones((2, 6)), np.ones((2, 6)))
    method = OpFGL(linking=linking, links=4, lr_features=0.02, lr_links=0.01)
    work = condensation.SurrogateTraining(method, pooled, torch.arange(2), torch_rng("s", 0))
    learnt = {"net": [], "X": []}
    for number in range(101):
        before = [work.features["X"].detach().clone(), *(value.detach().clone() for value in work.net.values())]
        work.iterate(number)
        now = [work.features["X"], *work.net.values()]
        moved = [not torch.equal(one, other) for one, other in zip(before, now, strict=True)]
        learnt["X"] += [number] * moved[0]
        learnt["net"] += [number] * any(moved[1:])
    links = [*range(10), *range(50, 60), 100] if linking == "predictor" else []
    assert learnt["net"] == links
    assert learnt["X"] == sorted({*range(101)} - {*links})
    assert condensation.without_weak(torch.tensor([0.005, 0.01, 0.02, 0.3])).tolist() == pytest.approx(
        [0, 0, 0.02, 0.3]
    )
    x = torch.tensor([[3.0, 4.0], [8.0, 6.0], [-1.0, 0.0]])
    torch.testing.assert_close(condensation.dot_links({}, x), torch.tensor([[0, 0.96, 0], [0.96, 0, 0], [0, 0, 0]]))


def test_a_surrogate_has_the_bytes_that_the_released_code_counts() -> None:
    """Cora's: 7 nodes of 1,433 features, 42 links of two int64 ends and a float32 weight, 7 int64 labels."""
    links = 1 - torch.eye(7)
    assert surrogate.Surrogate(torch.zeros(7, 1433), links, torch.arange(7)).size == 41_020


@pytest.mark.parametrize("is_secure", [False, pytest.param(True, marks=needs_package)])
@pytest.mark.parametrize("variant", ["release", "paper"])
def test_the_condensation_gets_what_the_options_say(
    variant: str, is_secure: bool, toy_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statistics of labelled and of reliable nodes, pooled as the variant has it, and each number in its place."""
    world = worlds.build("plain", toy_graph, "random", 3)  # all have all classes: the variants differ in every one
    said, numbers, real = {}, [], condensation.SurrogateTraining

    def noted(*given: object) -> condensation.SurrogateTraining:
        said["work"] = work = real(*given)
        said["method"], said["pooled"] = given[:2]
        once = work.iterate
        monkeypatch.setattr(work, "iterate", lambda number: numbers.append(number) or once(number))
        return work

    monkeypatch.setattr(condensation, "SurrogateTraining", noted)
    own = {"hops": 2, "links": 5, "lr_features": 0.3, "lr_links": 0.7, "align": 3.0, "smooth": 0.9, "iterations": 53}
    own |= {"confidence": 0.5, "degree": 0, "secure": is_secure}
    config = make_config("opfgl", variant, **{f"method.{n}": v for n, v in own.items()})
    state, _ = prepare(config.method, make_clients(world, config), Ledger())
    assert len(state.added) > 0
    rows, graph = np.concatenate([world.train, state.added]), world.graph
    spread = labels.propagated(world, config.method.spread, config.method.keep)
    classes = np.concatenate([graph.labels[world.train], spread[state.added].argmax(1)])
    expected, other = (Statistics.of(graph, rows, classes, 2).pooled(variant == name) for name in ("release", "paper"))
    assert np.abs(expected.std - other.std).max() > 1e-2
    for part in ("share", "mean", "std"):
        np.testing.assert_allclose(getattr(said["pooled"], part), getattr(expected, part), atol=1e-4 * is_secure)
    assert said["method"] is config.method
    work = said["work"]
    assert (work.hops, work.links_of, work.net["W2"].shape) == (2, condensation.predictor_links, (5, 5))
    assert [step.lr for step in work.optimisers] == [0.3, 0.7]
    assert [len(step.params) for step in work.optimisers] == [1, len(work.net)]
    assert work.smooth == 0.9
    has = work.labels.bincount(minlength=len(expected.share)) > 0
    aligned = torch.from_numpy(3.0 * expected.share / expected.mean.shape[1]).float() * has
    torch.testing.assert_close(work.means[:, 0], aligned)
    assert numbers == list(range(54))


@pytest.mark.parametrize(("rate", "each"), [(0.0, 1), (0.3, 0), (0.01, 0), (1.0, 0)])
def test_the_surrogate_has_as_many_nodes_of_a_class_as_the_rate_says(rate: float, each: int, world: World) -> None:
    """Section 7 of what the release does: rate times the class's training nodes, rounded up; or so many a class."""
    config = make_config("opfgl", "release", **{"method.rate": rate, "method.per_class": each})
    clients = make_clients(world, config)
    state, _ = prepare(config.method, clients, Ledger())
    sent = np.zeros(world.graph.base.num_classes, dtype=int)
    for k in range(3):
        own = np.bincount(world.graph.labels[world.train[world.graph.owner[world.train] == k]], minlength=len(sent))
        sent += np.where(own >= 2, own, 0)  # of a single node a client sends nothing
    assert (sent < world.class_counts.sum(0)).any()
    expected = [each or int(np.ceil(rate * number)) for number in sent]
    assert state.surrogate.labels.bincount(minlength=len(sent)).tolist() == expected


def test_another_seed_draws_another_surrogate(world: World) -> None:
    """On one world, whose split is drawn by a seed of its own: features begin as what the run's seed draws."""
    drawn = []
    for seed in (0, 1, 1):
        config = make_config("opfgl", "release", seed=seed, **{"method.iterations": 1})
        state, _ = prepare(config.method, make_clients(world, config), Ledger())
        drawn.append(state.surrogate.features)
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[1], drawn[2])
