"""The global split: sizes, order of the draw, repeatability, messages."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from fgl_repro import config as configs
from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.catalog import facts
from fgl_repro.data.graph import Graph
from fgl_repro.federation.split import COUNTS, ORDER, TEST, TRAIN, VALIDATION, Split, turns_before
from support import worlds
from support.worlds import global_split


def test_train_comes_first_then_test_then_the_rest() -> None:
    roles = global_split(2485, (0.4, 0.3, 0.3), seed=0)
    order = numpy_rng("split", 0).permutation(2485)
    assert roles.dtype == np.int8
    assert (roles[order[:994]] == TRAIN).all()
    assert (roles[order[994:1740]] == TEST).all()
    assert (roles[order[1740:]] == VALIDATION).all()


@given(
    num_nodes=st.integers(1, 300),
    cuts=st.tuples(st.floats(0.01, 1), st.floats(0, 1)),
    seed=st.integers(0, 2**31),
)
def test_every_node_has_one_role_and_shares_are_rounded(num_nodes: int, cuts: tuple[float, float], seed: int) -> None:
    train = cuts[0]
    test = (1 - train) * cuts[1]
    assume(1 - train - test > 0)
    roles = global_split(num_nodes, (train, 1 - train - test, test), seed)
    counts = np.bincount(roles, minlength=3)
    assert counts.sum() == num_nodes
    assert len(counts) == 3
    assert counts[TRAIN] == round(train * num_nodes)
    assert abs(counts[TEST] - test * num_nodes) <= 1
    assert abs(counts[VALIDATION] - (1 - train - test) * num_nodes) <= 1 + 1e-6


def test_a_split_is_a_function_of_its_seed() -> None:
    first, again, other = (global_split(500, (0.4, 0.3, 0.3), seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("ratios", [(0.4, 0.4, 0.3), (0.0, 0.5, 0.5), (1.2, -0.1, -0.1), (0.5, 0.5)])
def test_bad_shares_are_refused(ratios: tuple[float, float, float]) -> None:
    with pytest.raises(UserError, match=r"protocol\.split=\[.*\] must be three shares \(train, validation, test\)"):
        global_split(100, ratios, seed=0)


@pytest.mark.parametrize("source", ["opfgl", "openfgl"])
def test_by_class_every_client_draws_from_a_stream_of_its_own(source: Literal["opfgl", "openfgl"]) -> None:
    """Two clients with as many nodes of as many classes: else one order would say who trains at all of them."""
    labels, own = np.tile(np.repeat([0, 1], 40), 2), [np.arange(80), np.arange(80, 160)]
    roles = Split((0.5, 0.25, 0.25), 3, source).roles_by_class(labels, own)
    assert np.bincount(roles[:80]).tolist() == np.bincount(roles[80:]).tolist() == [40, 20, 20]
    assert 0.25 < (roles[:80] == roles[80:]).mean() < 0.6, "by chance three in eight"
    order = numpy_rng("split/1", 3).permutation(own[1][:40])
    assert sorted(np.flatnonzero(roles[80:120] == TRAIN) + 80) == sorted(order[:20])


def test_the_released_generator_permutes_for_every_graph_and_client_count_in_turn() -> None:
    torch.manual_seed(1234)
    drawn = {(name, count): torch.randperm(facts(name).nodes).numpy() for name in ORDER for count in (0, 1, 2)}
    for overlap, counts in COUNTS.items():
        for place, clients in enumerate(counts):
            for name in ORDER:
                size, order = facts(name).nodes, drawn[name, place]
                roles = Split((0.2, 0.4, 0.4), 1234, "fedpub").roles(name, size, clients, overlap)
                first, second = round(0.2 * size), round(0.2 * size) + round(0.4 * size)
                assert (roles[order[:first]] == TRAIN).all()
                assert (roles[order[first:second]] == TEST).all()
                assert (roles[order[second:]] == VALIDATION).all()


def test_what_the_generator_does_not_have_takes_a_first_turn() -> None:
    assert turns_before("cora", 3, False) == turns_before("cora", 5, False) == []
    assert turns_before("citeseer", 3, False)[-1] == ("cora", 20)
    assert turns_before("toy", 50, True) == [("toy", 10), ("toy", 30)]
    assert turns_before("pubmed", 30, True)[-2:] == [("citeseer", 50), ("pubmed", 10)]


def test_who_draws_is_in_the_key_and_in_the_world(toy_graph: Graph) -> None:
    ours, theirs = (
        worlds.build("plain", toy_graph, "metis", 3, 7, (0.2, 0.4, 0.4), source) for source in ("stream", "fedpub")
    )
    assert len(ours.train) == len(theirs.train)
    assert not np.array_equal(ours.train, theirs.train)
    said = configs.build(dataset="cora", protocol="fedpub").protocol
    assert (said.split_source, said.split_seed) == ("fedpub", 1234)
    with pytest.raises(UserError, match="choose stream, fedpub, opfgl, openfgl or partitioner"):
        configs.build({"protocol.split_source": "torch"})


def test_a_share_that_no_float_holds_is_rounded_down_from_what_is_meant() -> None:
    """0.7 * 90 is 62.99..., and 63 are meant."""
    roles = Split((0.7, 0.2, 0.1), 0, "opfgl").roles_by_class(np.zeros(90, np.int64), [np.arange(90)])
    assert np.bincount(roles).tolist() == [63, 18, 9]
