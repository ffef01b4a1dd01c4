"""FedBN, FedRep and Ditto: what stays at home, and what is trained when."""

from __future__ import annotations

import pytest
import torch

from fgl_repro.data.graph import Graph
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.rounds import prepare
from support import worlds
from support.isolation import make_clients
from support.runs import config_of_graphs, make_config

Params = dict[str, torch.Tensor]


def after_a_round(name: str, epochs: int = 1, **overrides: object) -> tuple[Params, Params, Params]:
    """What clients held before, what they hold after their epochs, and what they upload."""
    config = config_of_graphs(name, "release", **{"model.dropout": 0.0, **overrides})
    clients = make_clients(worlds.of_graphs(worlds.graph_set()), config)
    state, _ = prepare(config.method, clients, Ledger())
    before = {key: value.detach().clone() for key, value in clients.trained.items()}
    config.method.fit(clients, state, 0, epochs)
    upload = config.method.upload(clients, state)
    assert upload is not None
    return before, {key: value.detach() for key, value in clients.trained.items()}, upload.tensors()


def test_fedbn_sends_all_but_batch_norms() -> None:
    before, after, sent = after_a_round("fedbn")
    kept = set(before) - set(sent)
    assert kept == {
        f"{kind}{part}{layer}" for kind in ("", "inner_") for part in ("gain", "shift") for layer in (2, 3, 4)
    }
    assert all(not torch.equal(before[name][0], after[name][0]) for name in kept), "kept, but trained"


def test_fedrep_trains_the_classifier_first() -> None:
    """With one batch an epoch: the classifier's step is that of joint training, the base's is another one."""
    whole = {"protocol.batch": 10, "model.together": 0}
    start, after, sent = after_a_round("fedrep", **whole)
    _, joint, _ = after_a_round("fedper", **whole)
    head = {"W5", "b5", "W6", "b6"}
    assert set(start) - set(sent) == head
    for name in head:
        torch.testing.assert_close(after[name], joint[name])
    # biases before a batch norm move by rounding alone, and by the same on some processors
    moved = [name for name in sent if (start[name] - joint[name]).abs().max() > 1e-6]
    assert {"W1", "inner_W2", "W2"} <= set(moved)
    assert all(not torch.equal(after[name], joint[name]) for name in moved)


def test_dittos_global_model_is_fedavgs_and_its_own_is_drawn_to_it() -> None:
    """With one batch an epoch, so that the order of draws says nothing."""
    whole = {"protocol.batch": 10, "model.together": 0}
    start, ditto, sent = after_a_round("ditto", **whole, **{"method.mu": 3.0})
    _, average, plain = after_a_round("fedavg", **whole)
    for name, value in plain.items():
        torch.testing.assert_close(sent[f"global_{name}"], value)
    # at the received weights the pull is still 0: the own model's first step is that of training alone
    for name, value in average.items():
        torch.testing.assert_close(ditto[name], value)
    one, two = (after_a_round("ditto", **{"method.mu": mu, "protocol.batch": 2})[1] for mu in (0.0, 3.0))
    far, near = (sum(float((v[n] - start[n]).square().sum()) for n in plain) for v in (one, two))
    assert near < far


def test_dittos_pull_is_mu_times_how_far_the_own_model_has_gone() -> None:
    """SGD: step 1 of the own model is FedAvg's, step 2 goes back by rate * mu of what that went.

    The copy of the global model takes both of FedAvg's.
    """
    whole = {"protocol.batch": 10, "model.together": 0, "protocol.lr": 0.05}
    start, once, _ = after_a_round("fedavg", 1, **whole)
    _, twice, _ = after_a_round("fedavg", 2, **whole)
    _, own, sent = after_a_round("ditto", 2, **whole, **{"method.mu": 20.0})
    for name, value in twice.items():
        expected = value - 0.05 * 20.0 * (once[name] - start[name])
        torch.testing.assert_close(own[name], expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(sent[f"global_{name}"], value, rtol=1e-4, atol=1e-5)
    assert (own["W5"] - twice["W5"]).abs().max() > 1e-3


def rounds_of(name: str, graph: Graph, **overrides: object) -> Clients:
    """Clients of nodes after three rounds of two steps of an Adam that outlives rounds, and what came down then."""
    config = make_config(name, "release" if name != "local" else "paper", **{"model.dropout": 0.0, **overrides})
    assert (config.protocol.optimiser, config.protocol.moments) == ("adam", "kept")
    clients, method = make_clients(worlds.build("plain", graph, "metis", 3), config), config.method
    state, _ = prepare(method, clients, Ledger())
    for number in range(3):
        method.fit(clients, state, number, 2)
        with torch.no_grad():
            if (upload := method.upload(clients, state)) is not None:
                method.receive(clients, state, method.aggregate(clients, state, upload))
    return clients


def test_each_of_dittos_models_has_an_adam_of_its_own_in_all_rounds(toy_graph: Graph) -> None:
    """Without a pull the own model is that of a client alone, and the other FedAvg's: so are their moments."""
    clients = rounds_of("ditto", toy_graph, **{"method.mu": 0.0})
    alone, average = rounds_of("local", toy_graph), rounds_of("fedavg", toy_graph)
    for name in average.params:
        torch.testing.assert_close(clients.params[name], alone.params[name])
        torch.testing.assert_close(clients.personal[f"global_{name}"], average.params[name])


def test_fedrep_by_torchs_adam(toy_graph: Graph) -> None:
    """Classifier, then base, all epochs of each, with an Adam for each in all rounds; the mean of the bases."""
    clients = rounds_of("fedrep", toy_graph)
    config = make_config("local", "paper", **{"model.dropout": 0.0})
    plain, rules = make_clients(clients.world, config), config.protocol
    parts = [("W3", "b3"), ("W1", "b1", "W2", "b2")]
    adams = [
        torch.optim.Adam([plain.params[n] for n in names], rules.lr, weight_decay=rules.weight_decay) for names in parts
    ]
    step = next(plain.steps(1))
    for _ in range(3):
        for adam in adams:
            for _ in range(2):
                for value in plain.params.values():
                    value.grad = None
                step.task_loss(plain.logits(step)).sum().backward()
                adam.step()
        with torch.no_grad():
            for name in parts[1]:
                plain.params[name].copy_(plain.params[name].mean(0, keepdim=True).expand_as(plain.params[name]))
    for name, value in plain.params.items():
        torch.testing.assert_close(clients.params[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["fedbn", "fedrep", "ditto"])
def test_what_is_not_sent_is_not_overwritten(name: str) -> None:
    config = config_of_graphs(name, "release")
    clients = make_clients(worlds.of_graphs(worlds.graph_set()), config)
    state, _ = prepare(config.method, clients, Ledger())
    config.method.fit(clients, state, 0, 1)
    held = {key: value.detach().clone() for key, value in clients.trained.items()}
    with torch.no_grad():
        upload = config.method.upload(clients, state)
        assert upload is not None
        config.method.receive(clients, state, config.method.aggregate(clients, state, upload))
    for key, value in clients.trained.items():
        equal = all(torch.equal(value[0], other) for other in value)
        assert equal if key in upload.tensors() else torch.equal(value, held[key])
