"""DENSE and Co-Boosting piece by piece: ensembles, losses, what joins the pool, moved features, weights of teachers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.messages import Ledger, Weights
from fgl_repro.fl.rounds import prepare
from fgl_repro.fl.steps import descend
from fgl_repro.methods.dense.server import DenseServer, softened_divergence
from fgl_repro.methods.generated.graphs import PseudoGraph
from fgl_repro.methods.generated.server import Lesson
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import make_config

CPU = torch.device("cpu")
BOTH = ("dense", "coboost")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def made(world: World, name: str, **overrides: Any) -> Any:
    """A server whose teachers differ."""
    variant = overrides.pop("variant", "paper")
    config = make_config(name, variant, **{f"method.{key}": value for key, value in overrides.items()})
    clients = make_clients(world, config)
    state, _ = prepare(config.method, clients, Ledger())
    rng = torch_rng("teachers", 0)
    state.teachers = {name: torch.randn(value.shape, generator=rng) for name, value in clients.params.items()}
    return state


def descended(optimiser: torch.optim.Optimizer, loss: Callable[[], torch.Tensor], steps: int) -> None:
    """Take steps as torch has them."""
    for _ in range(steps):
        optimiser.zero_grad()
        loss().sum().backward()
        optimiser.step()


def test_divergence_is_that_of_softened_answers() -> None:
    teacher, student = torch.randn(2, 6, 4, generator=torch_rng("l", 0))
    expected = 9 * F.kl_div((student / 3).log_softmax(1), (teacher / 3).softmax(1), reduction="batchmean")
    torch.testing.assert_close(softened_divergence(teacher, student, 3.0).mean(), expected)


def test_the_ensemble_is_a_weighted_mean(world: World) -> None:
    server = made(world, "dense")
    logits = torch.randn(3, 16, 5)
    torch.testing.assert_close(server.ensemble(logits), logits.mean(0))
    server.weights = torch.tensor([1.0, 0.5, 0.0])
    torch.testing.assert_close(server.ensemble(logits), (logits[0] + 0.5 * logits[1]) / 1.5)


def test_losses_of_the_generator(world: World) -> None:
    noise = torch.randn(16, 32, generator=torch_rng("z", 0))
    for name in BOTH:
        server = made(world, name, **({"known": 0.5, "adversarial": 0.25} if name == "dense" else {}))
        graph = server.graph(noise)
        teacher = server.teacher_logits(graph).mean(0)
        student, labels = server.student_logits_fixed(graph)[0], server.labels
        if name == "dense":
            differ = (teacher.argmax(1) != student.argmax(1)).float()
            kl = F.kl_div(student.log_softmax(1), teacher.softmax(1), reduction="none").sum(1)
            assert differ.any()
            expected = 0.5 * F.cross_entropy(teacher, labels) - 0.25 * (differ * kl).mean()
        else:
            each = F.cross_entropy(teacher, labels, reduction="none")
            hard = 1 - teacher.softmax(1)[torch.arange(16), labels].detach()
            kl = 9 * F.kl_div((student / 3).log_softmax(1), (teacher / 3).softmax(1), reduction="batchmean")
            expected = (hard * each).mean() - kl
        server.begin()
        server.lowest, server.kept = torch.tensor(torch.inf), torch.zeros_like(graph.features)
        torch.testing.assert_close(server.generator_loss(noise)[0], expected)


@pytest.mark.parametrize("name", BOTH)
def test_the_graph_of_lowest_loss_joins_the_pool(name: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    server = made(world, name, generator_steps=6, lr_generator=3.0, adversarial=0)
    seen, original = [], type(server).generator_loss

    def listen(self: DenseServer, noise: torch.Tensor) -> torch.Tensor:
        features = self.graph(noise).features.detach()
        loss = original(self, noise)
        seen.append((float(loss.detach()), features))
        return loss

    monkeypatch.setattr(type(server), "generator_loss", listen)
    kept = server.train_generator(0)
    assert len(seen) == 6
    assert seen[-1][0] != min(loss for loss, _ in seen), "the last step is the best: the test proves nothing"
    torch.testing.assert_close(kept.features, min(seen, key=lambda one: one[0])[1])
    assert not kept.features.requires_grad


def test_every_epoch_adds_a_graph_and_goes_through_all(world: World) -> None:
    server = made(world, "dense")
    graphs = [server.train_generator(epoch) for epoch in range(3)]
    for epoch, graph in enumerate(graphs):
        taken = list(server.lessons(epoch, graph))
        assert sorted(id(lesson.graph) for lesson in taken) == sorted(id(graph) for graph in graphs[: epoch + 1])
        for lesson in taken:
            torch.testing.assert_close(lesson.teacher_logits, server.teacher_logits(lesson.graph))


def test_a_generator_begins_anew_or_goes_on(world: World) -> None:
    for renewed in (True, False):
        server = made(world, "dense", renewed=renewed)
        server.train_generator(0)
        before = server.generator["W1"]
        server.train_generator(1)
        assert (server.generator["W1"] is before) != renewed


@pytest.mark.parametrize("name", BOTH)
def test_the_student_comes_near_the_ensemble(name: str, world: World) -> None:
    config = make_config(name, "paper", **{"method.epochs": 15, "method.generator_steps": 5})
    clients = make_clients(world, config)
    state, _ = prepare(config.method, clients, Ledger())
    config.method.fit(clients, state, 0, 20)
    teachers = {name: value.detach() for name, value in clients.params.items()}
    distances = {}
    for epochs in (0, 15):
        config.method.epochs = epochs
        with torch.no_grad():
            down = config.method.aggregate(clients, state, Weights(teachers)).tensors()
        graph = made(world, name).graph(state.noise()).detached()
        student = state.model({n: v[:1] for n, v in down.items()}, graph.view(1))[0]
        distances[epochs] = float(softened_divergence(state.teacher_logits(graph).mean(0), student, 1.0).mean())
    assert distances[15] < 0.7 * distances[0]


def test_every_round_begins_with_an_empty_pool_and_teachers_that_weigh_alike(world: World) -> None:
    for name in BOTH:
        server = made(world, name, epochs=2)
        for _ in range(2):
            server.distil(server.teachers, {part: value[:1] for part, value in server.teachers.items()})
            assert len(server.pool) == 2
            assert float(server.student_descent.counts[0]) == 1 + 2, "the student's optimiser is a new one, too"
        server.begin()
        assert (server.weights == 1).all()


@pytest.mark.parametrize("renewed", [True, False])
def test_a_generator_that_is_new_in_every_epoch_is_new_in_the_first_of_a_later_round(
    renewed: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = made(world, "dense", epochs=1, renewed=renewed)
    begun, train = list[torch.Tensor](), server.train_generator

    def noted(epoch: int) -> PseudoGraph:
        graph = train(epoch)
        begun.append(next(iter(server.generator.values())).detach())
        return graph

    server.method.lr_generator = 0.0
    monkeypatch.setattr(server, "train_generator", noted)
    for _ in range(2):
        server.distil(server.teachers, {part: value[:1] for part, value in server.teachers.items()})
    assert torch.equal(*begun) == (not renewed)


def test_features_are_held_within_bounds_where_wanted(world: World) -> None:
    noise = 5 * torch.randn(16, 32, generator=torch_rng("z", 0))
    held, free = (made(world, "dense", bounded=bounded).features(noise) for bounded in (True, False))
    torch.testing.assert_close(held, torch.tanh(free))
    assert not torch.allclose(held, free, atol=1e-4)


def test_generator_and_noise_learn_by_adam_with_a_beta_of_their_own(world: World) -> None:
    """Against torch's Adam on a second server, alike in all."""
    server, twin = (made(world, "dense", generator_steps=4, beta=0.3, lr_generator=0.01) for _ in range(2))
    server.train_generator(0)
    noise = twin.noise().requires_grad_()
    twin.lowest, twin.kept = torch.tensor(torch.inf), torch.zeros(16, twin.model.num_features)
    adam = torch.optim.Adam([*twin.generator.values(), noise], lr=0.01, betas=(0.3, 0.999))
    descended(adam, lambda: twin.generator_loss(noise), 4)
    for name, value in twin.generator.items():
        torch.testing.assert_close(server.generator[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BOTH)
def test_the_student_learns_softened_answers_on_the_graph_as_it_is_or_was_moved(name: str, world: World) -> None:
    server = made(world, name, **({"move": 0.5} if name == "coboost" else {}))
    server.model, server.weights = replace(server.model, dropout=0.0), torch.tensor([1.0, 0.5, 0.25])
    seen = server.train_generator(0)
    lesson = Lesson(None, seen, server.teacher_logits(seen))
    tau = server.method.temperature
    assert tau == {"dense": 20.0, "coboost": 4.0}[name]
    if name == "coboost":
        before = server.rng.get_state()
        seen = server.moved(seen)
        server.rng.set_state(before)
    teacher = torch.einsum("k,knc->nc", torch.tensor([4.0, 2.0, 1.0]) / 7, server.teacher_logits(seen))
    student = server.student_logits_fixed(seen)[0]
    gap = F.kl_div((student / tau).log_softmax(1), (teacher / tau).softmax(1), reduction="batchmean")
    torch.testing.assert_close(server.student_loss(lesson)[0], tau**2 * gap, rtol=1e-4, atol=1e-5)


def test_a_student_may_start_at_random(world: World) -> None:
    found = {}
    for start in ("mean", "random"):
        tuning = {"method.student": start, "protocol.fine_tuning": 2, "protocol.check_every": 1, "protocol.rounds": 1}
        found[start], _, _ = federate(make_config("dense", "paper", **tuning), world, CPU)
    assert not torch.allclose(found["mean"].last["W1"], found["random"].last["W1"], atol=1e-3)


def test_variants_start_from_the_same_student(world: World) -> None:
    """Released weights of the teachers are no weights of the mean from which the student starts."""
    config = {variant: make_config("coboost", variant) for variant in ("paper", "release")}
    clients = make_clients(world, config["paper"])
    for chosen in config.values():
        assert torch.equal(chosen.method.share(clients), clients.samples)


def test_a_student_that_has_not_learnt_is_what_it_starts_from(world: World) -> None:
    """The mean that it is given, or one random model of the run's seed whatever the mean is."""
    for student in ("mean", "random"):
        server = made(world, "dense", student=student)
        server.method.epochs = 0
        random = {name: value.unsqueeze(0) for name, value in server.model.init(torch_rng("student", 0)).items()}
        for k in range(2):
            mean = {name: value[k : k + 1] for name, value in server.teachers.items()}
            found, expected = server.distil(server.teachers, mean), mean if student == "mean" else random
            for name, value in expected.items():
                assert torch.equal(found[name], value)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_a_student_steps_as_torch_has_it(optimiser: str, world: World) -> None:
    """SGD with momentum 0.9, Adam with the usual betas; both with the decay that is asked for."""
    settings = {"optimiser": optimiser, "lr_student": 0.02, "weight_decay": 0.1}
    server, twin = (made(world, "dense", **settings) for _ in range(2))
    for each in (server, twin):
        each.model = replace(each.model, dropout=0.0)
    graph = server.train_generator(0)
    lesson = Lesson(None, graph, server.teacher_logits(graph))
    descend([lesson] * 3, server.student_loss, [server.student_optimiser(0)])
    weights = list(twin.student.values())
    plain: torch.optim.Optimizer = torch.optim.Adam(weights, lr=0.02, weight_decay=0.1)
    if optimiser == "sgd":
        plain = torch.optim.SGD(weights, lr=0.02, momentum=0.9, weight_decay=0.1)
    descended(plain, lambda: twin.student_loss(lesson), 3)
    for name, value in twin.student.items():
        torch.testing.assert_close(server.student[name], value, rtol=1e-4, atol=1e-5)


def test_how_hard_a_node_is_weighs_its_loss_and_has_no_gradient(world: World) -> None:
    server = made(world, "coboost", hardness=2.0)
    logits = torch.randn(16, server.model.num_classes, generator=torch_rng("said", 0), requires_grad=True)
    each = F.cross_entropy(logits, server.labels, reduction="none")
    hard = (1 - logits.softmax(1)[torch.arange(16), server.labels].detach()) ** 2
    slopes = [torch.autograd.grad(loss, logits)[0] for loss in (server.wrong(logits), (hard * each).mean())]
    torch.testing.assert_close(*slopes)


def test_weights_of_teachers_go_against_the_gradient(world: World) -> None:
    server = made(world, "coboost")
    logits = torch.randn(3, 16, server.model.num_classes, generator=torch_rng("said", 0))
    logits[0] += 4 * F.one_hot(server.labels, logits.shape[2])  # a teacher that knows, and so the one to trust
    weights = torch.tensor([0.9, 0.995, 0.7], requires_grad=True)
    loss = F.cross_entropy(torch.einsum("k,knc->nc", weights / weights.sum(), logits), server.labels)
    (gradient,) = torch.autograd.grad(loss, weights)
    server.weights = weights.detach()
    expected = (server.weights - 0.01 * gradient.sign()).clamp(0, 1)
    torch.testing.assert_close(server.weighed(logits, 0.01), expected)
    assert expected[0] > 0.9
    assert expected.min() < 0.7


def test_weights_of_teachers_stay_between_nothing_and_one(world: World) -> None:
    """Steps as long as the whole way bring each weight to an end of it; a mean has some on either side of it."""
    server = made(world, "coboost")
    logits = torch.randn(3, 16, server.model.num_classes, generator=torch_rng("said", 0))
    server.weights = torch.tensor([0.5, 0.6, 0.7])
    assert set(server.weighed(logits, 1.0).tolist()) == {0.0, 1.0}


def test_teachers_are_weighed_on_earlier_graphs_only(world: World) -> None:
    server = made(world, "coboost")
    list(server.lessons(0, server.train_generator(0)))
    assert (server.weights == 1).all()
    list(server.lessons(1, server.train_generator(1)))
    assert (server.weights < 1).any()
    assert server.weights.min() >= 1 - 0.01


def test_released_weights_of_teachers_begin_with_a_share_each(world: World) -> None:
    server = made(world, "coboost", variant="release")
    torch.testing.assert_close(server.weights, torch.full((3,), 1 / 3))
    server.weights = torch.tensor([1.0, 0.0, 0.2])
    server.begin()
    torch.testing.assert_close(server.weights, torch.full((3,), 1 / 3))


def test_steps_of_the_teachers_weights_fade_by_a_hundredth_an_epoch(world: World) -> None:
    server = made(world, "coboost", weight_step=0.1)
    server.weights = torch.full((3,), 0.5)
    graph = server.train_generator(0)
    server.pool = [Lesson(None, graph, server.teacher_logits(graph))]
    list(server.lessons(7, graph))
    torch.testing.assert_close((server.weights - 0.5).abs(), torch.full((3,), 0.1 * 0.99**7))


def test_features_move_to_where_a_random_mean_of_softened_answers_is_larger(world: World) -> None:
    server = made(world, "coboost", move=0.25)
    graph = server.train_generator(0)
    before = server.rng.get_state()
    moved = server.moved(graph)
    server.rng.set_state(before)
    features = graph.features.clone().requires_grad_()
    answers = torch.softmax(server.teacher_logits(graph.moved(features)).mean(0) / 4, 1)
    random = 2 * torch.rand(answers.shape, generator=server.rng) - 1
    (slope,) = torch.autograd.grad((random * answers).sum(), features)
    clear = slope.abs() > 1e-6
    assert clear.float().mean() > 0.9
    steps = (moved.features - graph.features) / graph.features.std(0)
    torch.testing.assert_close(steps[clear], 0.25 * slope[clear].sign(), atol=1e-4, rtol=0)


def test_features_move_as_told_and_edges_stay(world: World) -> None:
    server = made(world, "coboost", move=0.25)
    graph = server.train_generator(0)
    moved = server.moved(graph)
    steps = (moved.features - graph.features).abs() / graph.features.std(0)
    torch.testing.assert_close(steps, torch.full_like(steps, 0.25), atol=1e-4, rtol=0)
    assert moved.around is graph.around
    assert not moved.features.requires_grad


def test_the_students_steps_fade(world: World) -> None:
    server = made(world, "coboost", epochs=4)
    rates = [server.student_optimiser(epoch).lr for epoch in range(4)]
    assert rates[0] == pytest.approx(0.001)
    assert rates[2] == pytest.approx(0.0005)
    assert rates == sorted(rates, reverse=True)


def test_numbers_that_cannot_be_are_refused() -> None:
    for name, change in (
        ("dense", {"temperature": 0}),
        ("dense", {"optimiser": "lamb"}),
        ("dense", {"beta": 1.5}),
        ("dense", {"student": "best"}),
        ("coboost", {"temperature_adversarial": 0}),
        ("coboost", {"move": -1}),
    ):
        with pytest.raises(UserError, match="method"):
            make_config(name, "paper", **{f"method.{key}": value for key, value in change.items()})
