"""Each client keeps its own best check, stops by itself, and nobody is moved by another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_repro.core.errors import DivergenceError, UserError
from fgl_repro.data.graph import Graph
from fgl_repro.fl import rounds
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.metrics import hits
from fgl_repro.fl.phase import Curves
from fgl_repro.fl.rounds import run_phases, train
from fgl_repro.fl.stage import FineTuning, fine_tuning
from fgl_repro.fl.steps import Loss
from fgl_repro.nn.models.model import Params
from support import worlds
from support.isolation import make_clients, tampered
from support.runs import config_of_graphs, make_config

TUNED = {
    "model.dropout": 0.0,
    "protocol.fine_tuning": 40,
    "protocol.check_every": 2,
    "protocol.patience": 3,
    "protocol.fine_tuning_lr": 0.05,
}


def tuned(graph: Graph, change: bool = False, lr: float = 0.05) -> tuple[Clients, Curves]:
    """Clients after fine-tuning, and its curves; if wanted, where client 0 has other data."""
    world = worlds.build("plain", graph, "metis", 3)
    clients = make_clients(tampered(world, 0) if change else world, make_config("local", "paper", **TUNED))
    phases = fine_tuning(clients, objective, lr)
    return clients, run_phases(phases, 3, Ledger(), None)["fine_tuning"]


def objective(some: Clients) -> Loss:
    return lambda step: step.task_loss(some.logits(step))


def test_the_best_check_is_what_a_client_has_at_the_end(toy_graph: Graph) -> None:
    clients, curves = tuned(toy_graph)
    with torch.no_grad():
        view = clients.validation
        own = hits(clients.model(clients.trained, view), view) / view.counts
    assert float(own.mean()) == pytest.approx(curves["validation"][-1], abs=1e-6)
    assert curves["validation"] == sorted(curves["validation"])
    assert 3 < len(curves["validation"]) <= 20


def test_a_client_ends_as_it_would_among_others(toy_graph: Graph) -> None:
    plain, strange = (tuned(toy_graph, change)[0].trained for change in (False, True))
    for name, value in plain.items():
        assert torch.equal(value[1:], strange[name][1:])
        assert not torch.equal(value[0], strange[name][0])


def test_those_who_are_done_leave_and_nobody_notices(toy_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    only = Clients.only
    monkeypatch.setattr(Clients, "only", lambda self, which: sizes.append(len(which)) or only(self, which))
    clients, curves = tuned(toy_graph, lr=0.01)
    assert sizes == [2, 1]
    monkeypatch.setattr(Clients, "separable", False)
    together, same = tuned(toy_graph, lr=0.01)
    assert curves["validation"] == same["validation"]
    for name, value in clients.trained.items():
        torch.testing.assert_close(value, together.trained[name], rtol=0, atol=1e-6)


def test_some_clients_are_a_federation_of_their_own(toy_graph: Graph) -> None:
    """The same loss, from the same rows, and the rows' values where the others' were cut out."""
    clients = make_clients(worlds.build("plain", toy_graph, "metis", 4), make_config("local", "paper"))
    some = clients.only(np.array([1, 3])).only(np.array([1]))
    assert list(some.index) == [3]
    with torch.no_grad():
        mine = some.model(some.trained, some.inputs.train)
        all_of_them = clients.model(clients.trained, clients.inputs.train)
    torch.testing.assert_close(mine, some.among(all_of_them, some.inputs.train), rtol=0, atol=1e-6)
    assert torch.equal(some.class_counts[0], clients.class_counts[3])
    assert some.validation.counts.tolist() == [clients.validation.counts[3].item()]


def test_what_shares_draws_or_graphs_stays_together(toy_graph: Graph) -> None:
    in_batches = make_config("local", "paper", **{"model.dropout": 0.0, "protocol.batch": 4})
    assert not make_clients(worlds.build("plain", toy_graph, "metis", 3), in_batches).separable
    world = worlds.build("plain", toy_graph, "metis", 3)
    assert make_clients(world, make_config("local", "paper", **{"model.dropout": 0.0})).separable
    assert not make_clients(world, make_config("local", "paper", **{"model.dropout": 0.5})).separable
    assert not make_clients(world, make_config("fedpub", "paper")).separable


def test_fine_tuning_begins_with_what_the_server_made(toy_graph: Graph) -> None:
    """The mean of the last round comes down and is counted; without gain nobody leaves it."""
    world = worlds.build("plain", toy_graph, "metis", 3)
    config = make_config("fedavg", "paper", **TUNED | {"protocol.rounds": 1, "protocol.fine_tuning_lr": 0.0})
    clients = make_clients(world, config)
    found = train(config.method, clients)
    assert all(torch.equal(value[0], value[2]) for value in found.last.values())
    sent = found.ledger.as_dict()["rounds"]
    assert sent["down"]["weights"] == 2 * sent["up"]["weights"]
    assert len(found.phases["fine_tuning"]["loss"]) == 4, "one best check and three without gain"


@pytest.mark.parametrize(("name", "judged"), [("local", "own"), ("fedavg", "own"), ("fedavg", "server")])
def test_fine_tuning_begins_with_the_last_round_whichever_was_the_best(
    name: str, judged: str, toy_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without gain clients end with what they have received after the last round, or trained where nothing comes."""
    world, found = worlds.build("plain", toy_graph, "metis", 3), []
    for epochs in (0, 4):
        scores = iter([0.9, 0.1, 0.1])
        monkeypatch.setattr(rounds, "accuracy", lambda *_, left=scores: torch.tensor(next(left)))
        rules = {"protocol.rounds": 3, "protocol.judged": judged, "protocol.fine_tuning": epochs}
        config = make_config(name, "paper", **TUNED | rules | {"protocol.fine_tuning_lr": 0.0})
        clients = make_clients(world, config)
        found.append((train(config.method, clients), clients.samples))
    (plain, samples), (tuned_on, _) = found
    assert plain.best_round == tuned_on.best_round == 0
    for key, value in plain.last.items():
        assert not torch.equal(plain.best[key], value)
        share = (samples / samples.sum()).view(-1, *[1] * (value.dim() - 1))
        expected = (share * value).sum(0).expand_as(value) if (name, judged) == ("fedavg", "own") else value
        torch.testing.assert_close(tuned_on.last[key], expected)


@pytest.mark.parametrize(("asked", "taken"), [(1, [1]), (5, [5]), (6, [7]), (12, [7, 6])])
def test_fewer_epochs_than_lie_between_checks_are_all_there_are(
    toy_graph: Graph, monkeypatch: pytest.MonkeyPatch, asked: int, taken: list[int]
) -> None:
    seen: list[int] = []
    steps = FineTuning._steps
    monkeypatch.setattr(FineTuning, "_steps", lambda self, n, going: seen.append(n) or steps(self, n, going))
    world = worlds.build("plain", toy_graph, "metis", 3)
    rules = TUNED | {"protocol.check_every": 6, "protocol.fine_tuning": asked}
    clients = make_clients(world, make_config("local", "paper", **rules))
    run_phases(fine_tuning(clients, objective, 0.01), 3, Ledger(), None)
    assert seen == taken


def of_numbers(base: float, **changes: object) -> tuple[Clients, Params]:
    """Clients whose graphs have numbers of about ``base``, a training that fine-tunes, and tensors to begin with."""
    some = worlds.graph_set(numbers=True)
    assert some.targets is not None
    world = worlds.of_graphs(replace(some, targets=some.targets + np.float32(base)))
    settings = {"protocol.split": [0.6, 0.2, 0.2], "protocol.selected_by": "validation"}
    settings |= {"protocol.check_every": 2, "protocol.patience": 3}
    clients = make_clients(world, config_of_graphs("local", "paper", **settings, **changes))
    return clients, {name: value.detach().clone() for name, value in clients.trained.items()}


def moved(clients: Clients, before: Params) -> list[bool]:
    """Whether each client has other tensors than before."""
    return [
        any(not torch.equal(value[k], before[name][k]) for name, value in clients.trained.items())
        for k in range(clients.count)
    ]


def test_errors_above_one_are_scores_like_others() -> None:
    """A smaller error is better, however great it is; the curve has errors as they are measured."""
    clients, before = of_numbers(30.0, **{"protocol.fine_tuning": 40})
    curves = run_phases(fine_tuning(clients, objective, 0.05), 3, Ledger(), None)["fine_tuning"]
    errors = curves["validation"]
    assert len(errors) > 4, "whoever gets better goes on"
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 20 > errors[-1] > 0
    view = clients.validation
    with torch.no_grad():
        own = -hits(clients.model(clients.trained, view), view) / view.counts
    assert float(own.mean()) == pytest.approx(errors[-1], rel=1e-5), "the best check is kept"
    assert moved(clients, before) == [True, True, True]


def test_a_client_without_a_finite_score_keeps_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    clients, before = of_numbers(30.0, **{"protocol.fine_tuning": 8})
    scores = torch.tensor([-4.0, torch.nan, -2.0])
    monkeypatch.setattr(FineTuning, "scores", lambda *_: scores)
    curves = run_phases(fine_tuning(clients, objective, 0.05), 3, Ledger(), None)["fine_tuning"]
    assert curves["validation"] == [3.0] * 4, "one better check of two clients, and three without gain"
    assert moved(clients, before) == [True, False, True]
    scores[:] = torch.nan
    with pytest.raises(DivergenceError, match="the validation is nan in round 0 of fine_tuning"):
        run_phases(fine_tuning(clients, objective, 0.05), 3, Ledger(), None)


def test_patience_begins_anew_with_every_better_check(toy_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = iter([0.1, 0.0, 0.2, 0.1, 0.3, 0.1, 0.4, 0.1, 0.4, 0.3, 0.9])
    monkeypatch.setattr(FineTuning, "scores", lambda *_: torch.full((3,), next(checks)))
    _, curves = tuned(toy_graph)
    assert curves["validation"] == pytest.approx([0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4, 0.4, 0.4])


def test_rates_and_counts_out_of_range_are_refused() -> None:
    for name, value in (("patience", 0), ("check_every", 0), ("fine_tuning", -1)):
        with pytest.raises(UserError, match=name):
            make_config("local", "paper", **{f"protocol.{name}": value})


def test_fine_tuning_has_no_weight_decay(toy_graph: Graph) -> None:
    world = worlds.build("plain", toy_graph, "metis", 3)
    clients = make_clients(world, make_config("local", "paper", **{"protocol.weight_decay": 0.1}))
    (optimiser,) = FineTuning(clients, objective, 0.05).optimisers
    assert optimiser.weight_decay == 0
