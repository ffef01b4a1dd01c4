"""The run of all methods: phases in order, what a phase is, which round is the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl import rounds as rounds_module
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Message, Weights
from fgl_repro.fl.phase import Phase, Turn
from fgl_repro.fl.rounds import train
from fgl_repro.methods.fedavg import FedAvg
from fgl_repro.nn.models.model import Params
from support import worlds
from support.isolation import make_clients
from support.runs import make_config


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


@dataclass
class Eventful(FedAvg[list[str]]):
    """FedAvg that writes down in which order its hooks are called."""

    display: ClassVar[str] = "Eventful"

    def state(self, clients: Clients) -> list[str]:
        return ["state"]

    def receive(self, clients: Clients, state: list[str], message: object) -> None:
        state.append("receive")

    def phases(self, clients: Clients, state: list[str]) -> Iterable[Phase]:
        for name in ("first", "second"):
            yield Phase(name, 1, lambda *_: state.append(f"phase {len(state)}") or Turn())  # type: ignore[func-returns-value]

    def fit(self, clients: Clients, state: list[str], round: int, epochs: int) -> Tensor:
        state.append(f"fit {round}")
        return torch.zeros(clients.count)

    def facts(self, clients: Clients, state: list[str]) -> dict[str, list[str]]:
        return {"calls": state}


def test_the_first_message_comes_before_the_phases(world: World) -> None:
    """It counts as the download of round 0, which brings no other."""
    config = make_config("fedavg", "release")
    method, clients = Eventful(), make_clients(world, config)
    training = train(method, clients)
    assert training.facts["calls"] == ["state", "receive", "phase 2", "phase 3", "fit 0", "receive", "fit 1"]
    sent = training.ledger.as_dict()["rounds"]
    assert sent["up"] == sent["down"]


def test_of_equally_good_rounds_the_later_is_the_best(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.5, 0.75, 0.75, 0.25])
    monkeypatch.setattr(rounds_module, "accuracy", lambda *_: torch.tensor(next(scores)))
    config = make_config("fedavg", "release", **{"protocol.rounds": 4})
    kept: list[Tensor] = []

    def extra(trained: dict[str, Tensor]) -> dict[str, float]:
        kept.append(trained["W1"].detach().clone())
        return {}

    training = train(config.method, make_clients(world, config), extra=extra)
    assert training.best_round == 2
    assert torch.equal(training.best["W1"], kept[2])
    assert torch.equal(training.last["W1"], kept[3])
    assert not torch.equal(kept[1], kept[2])


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda sent: None, "returns NoneType and no Message, such as Weights"),
        (lambda sent: sent, "returns dict and no Message"),
        (lambda sent: Weights({"W1": sent["W1"][0]}), r"returns W1 of shape \[\d+, \d+\]: give \[3, \d+, \d+\]"),
    ],
)
def test_what_an_own_aggregation_gets_wrong_is_told(world: World, made: Callable[[Params], Any], told: str) -> None:
    """Of nothing nothing would come down: clients would train alone without a word."""

    class Own(FedAvg[None]):
        def aggregate(self, clients: Clients, state: None, upload: Message) -> Any:
            return made(upload.tensors())

    config = make_config("fedavg", "release")
    with pytest.raises(UserError, match=rf"aggregate\(\) of the method fedavg {told}"):
        train(Own(), make_clients(world, config))


def test_weights_that_nobody_has_are_told_and_one_row_is_for_all(world: World) -> None:
    clients = make_clients(world, make_config("fedavg", "release"))
    with pytest.raises(UserError, match="clients have no weights called W9: theirs are W1, "):
        clients.load({"W9": clients.params["W1"]})

    class Mean(FedAvg[None]):
        def aggregate(self, clients: Clients, state: None, upload: Message) -> Message:
            return Weights({name: value.mean(0, keepdim=True) for name, value in upload.tensors().items()})

    ours, plain = (
        train(method, make_clients(world, make_config("fedavg", "release"))) for method in (Mean(), FedAvg())
    )
    torch.testing.assert_close(ours.last["W1"], plain.last["W1"])


def test_a_loss_that_is_no_number_ends_the_run(world: World) -> None:
    config = make_config("fedavg", "release", **{"protocol.lr": 1e30, "protocol.rounds": 5})
    with pytest.raises(UserError, match=r"lower protocol\.lr"):
        train(config.method, make_clients(world, config))


def test_what_was_best_stays_as_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best round of four is the third: what is kept is what a run of three rounds ends with."""
    found = []
    for number in (4, 3):
        scores = iter([0.25, 0.5, 0.5, 0.125])
        monkeypatch.setattr(rounds_module, "accuracy", lambda *_, left=scores: torch.tensor(next(left)))
        config = make_config("fedavg", "release", **{"protocol.rounds": number})
        found.append(train(config.method, make_clients(world, config)))
    longer, shorter = found
    assert (longer.best_round, longer.last_round) == (2, 3)
    for name, value in shorter.last.items():
        assert torch.equal(longer.best[name], value)
        assert not torch.equal(longer.best[name], longer.last[name])


def test_the_servers_model_is_the_same_for_all(world: World) -> None:
    configs = (make_config("fedavg", "release", **{"protocol.judged": judged}) for judged in ("own", "server"))
    own, servers = (train(config.method, make_clients(world, config)) for config in configs)
    for name, value in servers.best.items():
        assert torch.equal(value, value[:1].expand_as(value))
        assert not torch.equal(own.best[name], own.best[name][:1].expand_as(value))


@pytest.mark.parametrize(
    ("judged", "fine_tuning", "downloads"),
    [("own", 0, 3), ("crosswise", 0, 3), ("server", 0, 4), ("own", 2, 4), ("server", 2, 4)],
)
def test_all_that_comes_down_counts_and_once(world: World, judged: str, fine_tuning: int, downloads: int) -> None:
    """The first weights, and each round's mean unless nobody takes it: the last is judged, or clients go on from it."""
    rules = {"protocol.rounds": 3, "protocol.judged": judged, "protocol.fine_tuning": fine_tuning}
    config = make_config("fedavg", "release", **rules)
    training = train(config.method, make_clients(world, config))
    sent = training.ledger.as_dict()["rounds"]
    assert sent["up"]["weights"] % 3 == 0
    assert sent["down"]["weights"] == downloads * sent["up"]["weights"] // 3


def test_crosswise_one_clients_weights_answer_for_all(world: World) -> None:
    """One client's upload judges everybody, each with learnable nodes of its own; training stays as it is."""
    kept: dict[str, list[Params]] = {"own": [], "crosswise": []}
    runs = {}
    for judged, rounds in kept.items():

        def extra(trained: Params, rounds: list[Params] = rounds) -> dict[str, float]:
            rounds.append({name: value.detach().clone() for name, value in trained.items()})
            return {}

        config = make_config("fedlog", "release", **{"protocol.rounds": 6, "protocol.judged": judged})
        runs[judged] = train(config.method, make_clients(world, config), extra=extra)
    chosen = set()
    for own, cross in zip(kept["own"], kept["crosswise"], strict=True):
        (k,) = {k for k in range(3) if torch.equal(own["W1"][k], cross["W1"][0])}
        chosen.add(k)
        for name, value in cross.items():
            assert torch.equal(value, own[name] if name.startswith("X_") else own[name][[k] * 3]), name
    assert len(chosen) > 1
    own, cross = runs["own"], runs["crosswise"]
    assert own.curves["loss"] == cross.curves["loss"]
    assert own.ledger.as_dict() == cross.ledger.as_dict()
    for name, value in cross.last.items():
        assert torch.equal(value, kept["crosswise"][-1][name])
        assert torch.equal(cross.best[name], kept["crosswise"][cross.best_round][name])


@pytest.mark.parametrize(("judged", "fine_tuning", "means"), [("own", 0, 2), ("own", 1, 3), ("server", 0, 3)])
def test_the_server_mixes_for_those_who_take_it(
    world: World, judged: str, fine_tuning: int, means: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, aggregate = list[int](), FedAvg.aggregate

    def counted(self: FedAvg, *given: Any) -> Message:
        made.append(0)
        return aggregate(self, *given)

    monkeypatch.setattr(FedAvg, "aggregate", counted)
    rules = {"protocol.rounds": 3, "protocol.judged": judged, "protocol.fine_tuning": fine_tuning}
    config = make_config("fedavg", "release", **rules)
    train(config.method, make_clients(world, config))
    assert len(made) == means
