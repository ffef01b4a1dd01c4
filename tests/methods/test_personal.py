"""FedBN, FedRep and Ditto: what stays at home, and what is trained when."""

from __future__ import annotations

import pytest
import torch

from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.rounds import prepare
from support import worlds
from support.isolation import make_clients
from support.runs import config_of_graphs

Params = dict[str, torch.Tensor]


def after_a_round(name: str, **overrides: object) -> tuple[Params, Params, Params]:
    """What clients held before, what they hold after their epochs, and what they upload."""
    config = config_of_graphs(name, "release", **{"model.dropout": 0.0, **overrides})
    clients = make_clients(worlds.of_graphs(worlds.graph_set()), config)
    state, _ = prepare(config.method, clients, Ledger())
    before = {key: value.detach().clone() for key, value in clients.trained.items()}
    config.method.fit(clients, state, 0, 1)
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
