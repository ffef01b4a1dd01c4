"""Secure aggregation: sums are right, dropped clients are recovered, an upload alone says nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fgl_repro.core.errors import DivergenceError, UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl import secure
from fgl_repro.methods.opfgl.statistics import Pooled, Statistics
from fgl_repro.runs.execute import federate
from support import worlds
from support.runs import make_config

CPU = torch.device("cpu")
EXCHANGE = {"keys": 64, "shares": 2 * (66 + 16)}
"""Bytes of one of three clients."""

needs_package = pytest.mark.skipif(secure.find_spec("cryptography") is None, reason="no package cryptography")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


@pytest.fixture
def vectors() -> torch.Tensor:
    return torch.randn(5, 2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 100


@needs_package
def test_masks_cancel_in_the_sum_and_in_that_of_the_next_vectors(vectors: torch.Tensor) -> None:
    session = secure.Session(5)
    for values in (vectors, -3 * vectors):
        np.testing.assert_allclose(session.total(session.upload(values)), values.sum(0), atol=1e-6)


@needs_package
@pytest.mark.parametrize("dropped", [{0}, {4}, {1, 3}])
def test_dropped_clients_are_recovered_from_the_shares_of_the_others(dropped: set[int], vectors: torch.Tensor) -> None:
    """They send nothing, and a majority hands over a share for each."""
    session = secure.Session(5)
    sent = session.upload(vectors, frozenset(dropped))
    here = [k for k in range(5) if k not in dropped]
    np.testing.assert_allclose(session.total(sent), vectors[here].sum(0), atol=1e-6)
    counted = sent.bytes_by_field()
    assert counted["masked"].tolist() == [8 * 2000 * (k in here) for k in range(5)]
    assert counted["shares"].tolist() == [secure.SHARE * len(dropped) * (k in here[:3]) for k in range(5)]


@needs_package
def test_who_dropped_out_once_is_out_for_good(vectors: torch.Tensor) -> None:
    """Its key is known by then: nothing of it is asked for, no mask has it as partner, no share travels again."""
    session = secure.Session(5)
    session.total(session.upload(vectors, frozenset({1})))
    assert session.out == {1}
    again = session.upload(-2 * vectors)
    np.testing.assert_allclose(session.total(again), -2 * vectors[[0, 2, 3, 4]].sum(0), atol=1e-6)
    assert not again.masked[1].any()
    assert "shares" not in again.bytes_by_field()
    with pytest.raises(UserError, match="client 4 has sent a vector before"):
        session.upload(vectors, frozenset({1, 4}))


@needs_package
def test_two_that_are_left_would_know_each_other() -> None:
    session = secure.Session(4)
    vectors = torch.ones(4, 3, dtype=torch.float64)
    assert session.total(session.upload(vectors, frozenset({2}))).tolist() == [3, 3, 3]
    with pytest.raises(UserError, match="3 must stay"):
        secure.Session(3).upload(vectors[:3], frozenset({2}))
    with pytest.raises(UserError, match="a majority must stay"):
        secure.Session(4).upload(vectors, frozenset({0, 2}))


@needs_package
def test_who_drops_out_has_sent_nothing_that_its_key_would_open(vectors: torch.Tensor) -> None:
    """The masks of all vectors come of one key: what the server has of earlier ones it could read."""
    session = secure.Session(5)
    session.total(session.upload(vectors))
    with pytest.raises(UserError, match="client 2 has sent a vector before"):
        session.upload(vectors, frozenset({2}))


@needs_package
def test_keys_come_from_shares_that_only_their_owners_can_read(vectors: torch.Tensor) -> None:
    from cryptography.exceptions import InvalidTag

    session = secure.Session(5)
    sender, owner, other = session.parties[:3]
    sent = sender.shares()
    owner.keep({0: sent[1]})
    assert owner._held[0].to_bytes(secure.SHARE, "big") not in sent[1]
    with pytest.raises(InvalidTag):
        other.keep({0: sent[1]})
    with pytest.raises(InvalidTag):
        sender.keep({1: sent[1]})  # its own words, sent back to it as another's
    for value in secure.split(2**255 + 12345, 5):
        assert value.bit_length() > 400
    again = secure.Session(5)
    masked = again.upload(vectors, frozenset({4}))
    again.parties[1]._held[4] += 1
    assert np.abs(again.total(masked) - vectors[:4].sum(0).numpy()).max() > 1e3, "a wrong share, and no key"


@needs_package
def test_a_key_that_was_put_together_opens_no_share() -> None:
    """Masks and locks have keys of their own: the server gets that of a mask, and reads no share by it."""
    session = secure.Session(5)
    shares = dict(session.parties[k].share_of(4) for k in range(3))
    key = secure.private(secure.joined(shares).to_bytes(secure.KEY, "big"))
    for k in range(4):
        masks, locks = session.publics[k][: secure.KEY], session.publics[k][secure.KEY :]
        assert secure.agreed(key, masks, b"mask") == session.parties[k]._seeds[4], "the key is right"
        assert session.parties[k]._doors[4] not in [secure.agreed(key, half, b"lock") for half in (masks, locks)]


def test_numbers_are_rounded_and_leave_room_for_a_sum() -> None:
    unit = 2.0**-secure.FRACTION
    assert secure.fixed(np.array([0.75, -0.75, 3.0]) * unit, 3).view(np.int64).tolist() == [1, -1, 3]
    secure.fixed(np.array([4e8]), 5)
    with pytest.raises(DivergenceError, match="larger or no number"):
        secure.fixed(np.array([5e8]), 5)


@needs_package
def test_a_minority_is_refused_and_its_shares_are_of_no_use(vectors: torch.Tensor) -> None:
    session = secure.Session(5)
    with pytest.raises(UserError, match="a majority must stay"):
        session.upload(vectors, frozenset({0, 1, 2}))
    secret = 2**255 + 12345
    shares = dict(enumerate(secure.split(secret, 5), 1))
    some = {x: shares[x] for x in (1, 2, 4)}
    assert secure.joined(some) == secure.joined({x: shares[x] for x in (5, 3, 2)}) == secret
    assert secure.joined({x: shares[x] for x in (1, 2)}) != secret
    assert pow(3, secure.PRIME - 1, secure.PRIME) == 1
    assert secure.PRIME < 256**secure.SHARE


@needs_package
def test_a_single_upload_looks_like_noise_whatever_it_hides(vectors: torch.Tensor) -> None:
    """Every bit is set in half of the numbers, bytes are uniform, and nothing of it goes with what is hidden."""
    vectors[1] = 0
    sent = secure.Session(5).upload(vectors).masked.numpy()
    for row, hidden in zip(sent[:2], vectors.numpy(), strict=False):
        bits = np.unpackbits(row.view(np.uint8)).reshape(-1, 64)
        assert (np.abs(bits.mean(0) - 0.5) < 6 * 0.5 / np.sqrt(len(row))).all()
        counts = np.bincount(row.view(np.uint8), minlength=256)
        chi2 = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
        assert abs(chi2 - 255) < 6 * np.sqrt(2 * 255)
        if hidden.any():
            share = row.astype(float)
            assert abs(np.corrcoef(share, hidden)[0, 1]) < 6 / np.sqrt(len(row))
    again = secure.Session(5).upload(vectors).masked.numpy()
    assert not (sent == again).any()


@needs_package
def test_the_next_vector_has_another_mask_and_a_peer_cannot_unmask_a_third_one(vectors: torch.Tensor) -> None:
    session = secure.Session(5)
    first, second = (session.upload(vectors).masked.numpy().view(np.uint64) for _ in range(2))
    assert not (first == second).any()
    own = secure.fixed(vectors[0].numpy(), 5)
    known = secure.added(own, 0, {1: session.parties[1]._seeds[0]}, 2)
    assert not (known == second[0]).any()


@needs_package
def test_what_cannot_be_masked_is_refused(vectors: torch.Tensor) -> None:
    for wrong in (float("nan"), float("inf"), 2.0**31):
        vectors[2, 7] = wrong
        with pytest.raises(DivergenceError, match="larger or no number"):
            secure.Session(5).upload(vectors)
    with pytest.raises(UserError, match=r"raise partitioner\.clients"):
        secure.Session(2)


def test_the_missing_package_is_one_sentence(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure, "find_spec", lambda name: None)
    for name in ("fedavg", "opfgl"):
        with pytest.raises(UserError, match=r"needs cryptography, which is not installed: pip install"):
            federate(make_config(name, "paper", **{"method.secure": True}), world, CPU)


@needs_package
@pytest.mark.parametrize(("name", "variant"), [("fedavg", "paper"), ("fedavg", "release"), ("fedprox", "release")])
def test_fedavg_is_the_same_and_its_bytes_are_counted(name: str, variant: str, world: World) -> None:
    plain, _, _ = federate(make_config(name, variant), world, CPU)
    masked, _, _ = federate(make_config(name, variant, **{"method.secure": True}), world, CPU)
    for part, value in plain.last.items():
        torch.testing.assert_close(masked.last[part], value, atol=1e-6, rtol=0)
    size = sum(value[0].numel() for value in plain.last.values())
    assert masked.ledger.as_dict() == {
        "key_exchange": {"up": EXCHANGE, "down": EXCHANGE | {"keys": 2 * 64}},
        "rounds": {"up": {"masked": 2 * 8 * (size + 1)}, "down": {"weights": 2 * 4 * size}},
    }


def test_methods_that_take_no_mean_of_whole_models_refuse() -> None:
    for name in ("fedper", "fedpub", "gcfl", "fedgcn"):
        with pytest.raises(UserError, match=r"method\.secure"):
            make_config(name, "paper" if name == "fedper" else "release", **{"method.secure": True})


def test_pooled_sums_are_the_pooled_statistics(world: World) -> None:
    graph, rows = world.graph, world.train
    found = Statistics.of(graph, rows, graph.labels[rows], hops=1)
    for by_client in (True, False):
        expected = found.pooled(by_client)
        pooled, labelled = Pooled.of(found.sums(world.class_counts).sum(0), graph.base.num_classes, by_client)
        for part in ("share", "mean", "std"):
            np.testing.assert_allclose(getattr(pooled, part), getattr(expected, part), atol=1e-6)
        assert (labelled == world.class_counts.sum(0)).all()


@needs_package
def test_opfgl_with_masked_statistics(world: World) -> None:
    """Nearly the same surrogate graph, and C (2 D + 3) numbers up, whatever classes a client has."""
    runs = []
    for is_secure in (False, True):
        config = make_config("opfgl", "release", **{"method.secure": is_secure, "model.hidden": 4})
        training, metrics, _ = federate(config, world, CPU)
        runs.append((training, metrics["seen_graph"]["last"].accuracy))
    (plain, accuracy), (masked, same) = runs
    assert same == pytest.approx(accuracy, abs=0.05)
    for part, value in plain.last.items():
        torch.testing.assert_close(masked.last[part], value, atol=1e-4, rtol=0)
    base = world.graph.base
    numbers = base.num_classes * (2 * 2 * base.num_features + 3)
    sent = masked.ledger.as_dict()
    assert sent["statistics"] == {"up": {"masked": 8 * numbers}}
    assert sent["key_exchange"]["up"] == EXCHANGE
    assert sent["download"] == plain.ledger.as_dict()["download"]


@pytest.mark.parametrize(("per_class", "counts"), [(1, 1), (0, 2)])
def test_opfgl_whose_clients_condense_is_the_same_for_other_bytes(world: World, per_class: int, counts: int) -> None:
    """How many surrogate nodes a class has, clients learn from its training nodes, if it is no fixed number."""
    sizes = {"method.per_class": per_class, "method.rate": 0.2}
    plain, there = (
        federate(make_config("opfgl", "release", **sizes, **{"method.condense": who}), world, CPU)[0]
        for who in ("server", "client")
    )
    for part, value in plain.last.items():
        assert torch.equal(there.last[part], value)
    base = world.graph.base
    assert there.ledger.as_dict()["download"] == {
        "down": {"pooled": base.num_classes * 4 * (4 * base.num_features + counts)}
    }
