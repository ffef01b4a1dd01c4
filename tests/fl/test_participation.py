"""Rounds in which some clients sit out: who trains, sends, receives and counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl import rounds
from fgl_repro.fl.batches import Batch
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.rounds import prepare, train
from fgl_repro.methods.fedala import ClampedSGD
from fgl_repro.methods.fedavg import FedAvg
from support import worlds
from support.isolation import make_clients
from support.runs import config_of_graphs, make_config, methods_of

Params = dict[str, torch.Tensor]
TWO_OF_THREE = {"protocol.participation": 0.6}
ABLE = sorted(name for name, method in registry.options("method").items() if method.can_sit_out())


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


def drawn(number: int, count: int = 2, clients: int = 3, seed: int = 0) -> list[np.ndarray]:
    """Who takes part in each of the first rounds."""
    rng = numpy_rng("participation", seed)
    return [np.isin(np.arange(clients), rng.choice(clients, count, replace=False)) for _ in range(number)]


def by_round(config: configs.Config, clients: Clients) -> tuple[list[Params], rounds.Trained]:
    """What clients hold before the first round, when all that they draw is drawn, and after each."""
    method, fit, held = config.method, config.method.fit, list[Params]()

    def keep(trained: Params) -> dict[str, float]:
        held.append({name: value.detach().clone() for name, value in trained.items()})
        return {}

    def keep_first(clients: Clients, state: object, number: int, epochs: int) -> torch.Tensor:
        if not number:
            keep(clients.trained)
        return fit(clients, state, number, epochs)

    method.fit = keep_first  # type: ignore[method-assign]
    training = train(method, clients, extra=keep)
    method.fit = fit  # type: ignore[method-assign]
    return held, training


def configured(name: str, **overrides: object) -> tuple[configs.Config, str]:
    """A short run of a method about nodes, or about graphs where it is for those alone."""
    of_nodes = name in methods_of()
    variant = registry.options("method")[name].variants[0]
    make = make_config if of_nodes else config_of_graphs
    return make(name, variant, **overrides), "node" if of_nodes else "graph"


@pytest.mark.parametrize("batch", [0, 4])
@pytest.mark.parametrize("name", ABLE)
def test_who_sits_out_keeps_what_it_has(name: str, batch: int, world: World) -> None:
    """Bit for bit, and whoever takes part moves; so of every method that says its clients may."""
    rules = {"protocol.rounds": 4, "protocol.local_epochs": 2, "protocol.batch": batch, "protocol.judged": "own"}
    config, unit = configured(name, **TWO_OF_THREE, **rules)
    clients = make_clients(world if unit == "node" else worlds.of_graphs(worlds.graph_set()), config)
    held, training = by_round(config, clients)
    assert clients.present is None
    for before, after, present in zip(held[:-1], held[1:], drawn(4), strict=True):
        same = {name: torch.eq(after[name], before[name]).flatten(1).all(1).numpy() for name in before}
        assert np.stack(list(same.values())).all(0).tolist() == (~present).tolist()
    assert np.isfinite(training.curves["loss"]).all()


@pytest.mark.parametrize("variant", ["release", "paper"])
def test_who_sits_out_keeps_what_fedvn_remembers_of_its_links(variant: str) -> None:
    config = config_of_graphs("fedvn", variant)
    clients, method = make_clients(worlds.of_graphs(worlds.graph_set()), config), config.method
    state, _ = prepare(method, clients, Ledger())
    before = state.local.clone()
    with clients.taking_part(np.array([True, False, True])):
        method.fit(clients, state, 0, 1)
    assert (state.local == before).all(1).tolist() == [False, True, False]


def test_who_sits_out_learns_fedalas_weights_to_the_end_when_it_is_there() -> None:
    """Weights and draws of the absent stay, and their first time comes later."""
    config = config_of_graphs("fedala", "release", **{"method.most": 5, "method.spread": 0.0})
    clients, method = make_clients(worlds.of_graphs(worlds.graph_set()), config), config.method
    state, _ = prepare(method, clients, Ledger())
    method.fit(clients, state, 0, 5)
    made = method.aggregate(clients, state, method.upload(clients, state))
    stepped, step = list[list[bool]](), ClampedSGD.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ClampedSGD, "step", lambda self, grads, active: (stepped.append(active.tolist()), step(self, grads, active))
        )
        for there in ([True, False, True], [True, True, True]):
            with clients.taking_part(np.array(there)):
                method.receive(clients, state, made)
    batches = len(stepped) // 10
    assert (
        stepped == [[True, False, True]] * 5 * batches + [[True] * 3] * batches + [[False, True, False]] * 4 * batches
    )


@pytest.mark.parametrize("judged", ["own", "server"])
def test_bytes_are_those_of_who_takes_part(judged: str, world: World) -> None:
    """Of three rounds; the first message and the server's model, where that is judged, reach everybody."""
    rules = {"protocol.judged": judged, "protocol.rounds": 3}
    config = make_config("fedavg", "release", **TWO_OF_THREE, **rules)
    clients = make_clients(world, config)
    model = 4 * sum(value[0].numel() for value in clients.params.values())
    sent = train(config.method, clients).ledger.clients
    present = np.array(drawn(3))
    assert np.array_equal(sent["rounds", "up", "weights"], model * present.sum(0))
    received = np.full(3, 3) if judged == "server" else present[1:].sum(0)
    assert np.array_equal(sent["rounds", "down", "weights"], model * (1 + received))


def test_means_are_over_who_took_part(world: World) -> None:
    """What clients of the second round start from, and the loss of each round, by hand."""
    config = make_config("fedavg", "paper", **TWO_OF_THREE, **{"protocol.rounds": 2})
    clients = make_clients(world, config)
    first, second = drawn(2)
    method = config.method
    seen: list[torch.Tensor] = []
    losses: list[torch.Tensor] = []
    fit = type(method).fit

    def looking(clients: Clients, state: None, number: int, epochs: int) -> torch.Tensor:
        seen.append(clients.params["W1"].detach().clone())
        losses.append(fit(method, clients, state, number, epochs))
        return losses[-1]

    method.fit = looking  # type: ignore[method-assign]
    held, training = by_round(config, clients)
    share = clients.samples * torch.from_numpy(first)
    mean = torch.einsum("k,k...->...", share / share.sum(), held[1]["W1"])
    for k in range(3):
        torch.testing.assert_close(seen[1][k], mean if second[k] else held[1]["W1"][k])
    means = [
        loss[torch.from_numpy(present)].mean().item() for loss, present in zip(losses, (first, second), strict=True)
    ]
    assert training.curves["loss"] == pytest.approx(means)


def test_a_small_share_is_one_client_and_seeds_draw_others(world: World) -> None:
    alone = {"protocol.participation": 0.01, "protocol.rounds": 6}
    for seed in (0, 1):
        config = make_config("fedavg", "release", seed=seed, **alone)
        _, training = by_round(config, clients := make_clients(world, config))
        counts = np.sum(drawn(6, count=1, seed=seed), axis=0)
        size = sum(value[0].numel() for value in clients.params.values()) * 4
        assert np.array_equal(training.ledger.clients["rounds", "up", "weights"], counts * size)
    assert not np.array_equal(drawn(6, count=1, seed=0), drawn(6, count=1, seed=1))


def test_a_method_that_trains_otherwise_must_say_that_clients_may_sit_out() -> None:
    """Steps of its own would move the absent."""

    class Own(FedAvg[None]):
        def fit(self, clients: Clients, state: None, round: int, epochs: int) -> torch.Tensor:
            raise AssertionError

    assert FedAvg.can_sit_out()
    assert not Own.can_sit_out()


def test_everybody_is_the_run_that_names_no_share() -> None:
    plain, all_of_them = (
        make_config("fedavg", "release"),
        make_config("fedavg", "release", **{"protocol.participation": 1}),
    )
    assert configs.key_of(plain) == configs.key_of(all_of_them)


@pytest.mark.parametrize("name", ["fedpub", "gcflplus", "fedlog", "fedsageplus"])
def test_methods_whose_server_needs_everybody_refuse(name: str) -> None:
    with pytest.raises(
        UserError, match=rf"not for method={name}, which needs all clients .* choose method from ditto, "
    ):
        make_config(name, registry.options("method")[name].variants[0], **TWO_OF_THREE)


def test_masked_sums_and_shares_outside_of_0_and_1_are_refused() -> None:
    with pytest.raises(UserError, match="masks cancel in sums over all clients"):
        make_config("fedavg", "release", **TWO_OF_THREE, **{"method.secure": True})
    for share in (0, -0.5, 1.5):
        with pytest.raises(UserError, match=r"protocol.participation=.* is out of range"):
            make_config("fedavg", "release", **{"protocol.participation": share})


def test_rows_of_who_sits_out_are_left_out_of_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They cost nothing, and the others' models are what they are with them."""
    config = make_config("fedavg", "release", **TWO_OF_THREE, **{"protocol.batch": 4, "model.dropout": 0.0})
    owner, rows = world.graph.owner, list[np.ndarray]()
    only = Batch.only

    def looking(batch: Batch, present: np.ndarray, owner: np.ndarray) -> Batch:
        found = only(batch, present, owner)
        rows.append(found.rows)
        return found

    monkeypatch.setattr(Batch, "only", looking)
    without, _ = by_round(config, make_clients(world, config))
    assert max(len(set(owner[some])) for some in rows) == 2
    monkeypatch.setattr(Batch, "only", lambda batch, present, _: replace(batch, active=batch.active & present))
    with_all, _ = by_round(config, make_clients(world, config))
    for name, value in without[-1].items():
        torch.testing.assert_close(value, with_all[-1][name])
