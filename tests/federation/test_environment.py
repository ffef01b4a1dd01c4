"""Clients of environments: whose graphs they are, and who draws which."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_repro.config import build
from fgl_repro.core.errors import UserError
from fgl_repro.data import facts
from fgl_repro.federation.partitioners.environment import Environment
from fgl_repro.federation.split import TEST, TRAIN, VALIDATION, Ratios, Split
from support import worlds

BASE = worlds.graph_set(20)


@given(seed=st.integers(0, 50), clients=st.integers(1, 4), mixed=st.sampled_from([0.0, 0.2, 0.5]))
def test_clients_share_no_graph_and_have_as_many_of_each_role(seed: int, clients: int, mixed: float) -> None:
    parts = Environment(clients, 10, mixed)
    members = parts.divide(BASE, clients, seed)
    roles = parts.drawn_roles(BASE, Split((0.6, 0.2, 0.2), seed, "partitioner"))
    assert len(np.unique(np.concatenate(members.nodes))) == 10 * clients
    for k, own in enumerate(members.nodes):
        assert np.bincount(roles[own], minlength=4)[[TRAIN, VALIDATION, TEST]].tolist() == [6, 2, 2]
        assert np.count_nonzero(BASE.environment[own] != k % 3) == round(10 * mixed)


def test_drawn_as_the_released_code_draws() -> None:
    """One legacy generator shuffles the graphs of one client after the other."""
    roles = Environment(3, 10).drawn_roles(BASE, Split((0.8, 0.0, 0.2), 7, "partitioner"))
    np.random.seed(7)
    for k in range(3):
        order = list(range(20))
        np.random.shuffle(order)
        assert set(np.flatnonzero(roles == TRAIN)) >= {20 * k + i for i in order[:8]}
        assert set(np.flatnonzero(roles == TEST)) >= {20 * k + i for i in order[8:10]}


def test_validation_graphs_are_cut_from_those_that_would_train() -> None:
    """Test graphs are the same whether a client validates or not."""
    parts = Environment(3, 20)
    without = parts.drawn_roles(BASE, Split((0.8, 0.0, 0.2), 3, "partitioner"))
    roles = parts.drawn_roles(BASE, Split((0.64, 0.16, 0.2), 3, "partitioner"))
    assert np.count_nonzero(roles == VALIDATION) == 3 * round(0.16 * 20)
    assert np.array_equal(roles == TEST, without == TEST)
    assert (without[roles == VALIDATION] == TRAIN).all()


@pytest.mark.parametrize(("mixed", "expected"), [(0.2, [1, 1]), (0.4, [2, 2]), (0.5, [2, 3])])
def test_every_other_environment_gives_alike(mixed: float, expected: list[int]) -> None:
    for k, own in enumerate(Environment(3, 10, mixed).divide(BASE, 3, 0).nodes):
        given = np.bincount(BASE.environment[own], minlength=3)
        assert sorted(np.delete(given, k)) == expected


def test_graphs_of_other_environments_train_as_often_as_others_do() -> None:
    """Twelve graphs are foreign to their clients for each of twenty seeds, and four in five of all graphs train."""
    foreign = []
    for seed in range(20):
        parts = Environment(3, 20, 0.2)
        roles = parts.drawn_roles(BASE, Split((0.8, 0.0, 0.2), seed, "partitioner"))
        foreign += [roles[own[BASE.environment[own] != k]] for k, own in enumerate(parts.divide(BASE, 3, seed).nodes)]
    found = np.concatenate(foreign)
    assert len(found) == 240
    assert np.isin(found, [TRAIN, TEST]).all()
    assert np.mean(found == TRAIN) == pytest.approx(0.8, abs=0.1)  # nearly four standard errors


def test_too_few_graphs_are_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match="environment 0 of graphs has no 21 graphs left for client 0"):
        Environment(3, 21).divide(BASE, 3, 0)


@pytest.mark.parametrize(
    ("clients", "graphs", "mixed", "said"),
    [
        (20, 100000, 0.0, "take 2000000 graphs, and zinc_scaffold has 149674: lower one of them."),
        (20, 7000, 0.0, "take 14000 graphs of environment 1, and zinc_scaffold has 12016: lower one of them."),
        (20, 7000, 0.5, ""),
        (20, 6000, 0.0, ""),
        (1, 17888, 0.0, ""),
    ],
)
def test_sizes_that_are_known_are_compared_before_anything_is_built(
    clients: int, graphs: int, mixed: float, said: str
) -> None:
    given = {"partitioner.clients": clients, "partitioner.graphs": graphs, "partitioner.mixed": mixed}
    named = {"dataset": "zinc_scaffold", "partitioner": "environment", "setting": "plain"}
    if not said:
        build(given, **named, protocol="fedvn", method="fedvn")
        return
    with pytest.raises(UserError) as caught:
        build(given, **named, protocol="fedvn", method="fedvn")
    assert str(caught.value) == f"partitioner.clients={clients} and partitioner.graphs={graphs} {said}"


@pytest.mark.parametrize(("clients", "graphs", "mixed"), [(3, 20, 0.0), (4, 10, 0.5), (6, 10, 0.0), (1, 20, 0.0)])
def test_what_can_be_drawn_is_never_refused_beforehand(clients: int, graphs: int, mixed: float) -> None:
    parts = Environment(clients, graphs, mixed)
    parts.divide(BASE, clients, 0)
    parts.check_sizes(SimpleNamespace(name="graphs", known=replace(facts("mutag"), graphs=(20, 20, 20))))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("graphs", "ratios", "role"),
    [
        (2, (0.8, 0.0, 0.2), "test"),
        (2, (0.64, 0.16, 0.2), "validation"),
        (3, (0.1, 0.5, 0.4), "training"),
    ],
)
def test_a_role_without_graphs_is_refused_in_a_sentence(graphs: int, ratios: Ratios, role: str) -> None:
    with pytest.raises(UserError, match=rf"partitioner\.graphs={graphs} leaves each client no {role} graph: raise it"):
        Environment(3, graphs).drawn_roles(BASE, Split(ratios, 0, "partitioner"))


def test_a_role_without_a_share_needs_no_graphs() -> None:
    roles = Environment(3, 3).drawn_roles(BASE, Split((0.8, 0.0, 0.2), 0, "partitioner"))
    assert np.bincount(roles).tolist() == [6, 0, 3, 51]


def test_a_seed_that_numpy_does_not_have_is_refused_in_a_sentence() -> None:
    Environment(3, 20).divide(BASE, 3, 2**32 - 1)
    with pytest.raises(UserError, match=r"draws by the seed 4294967296, which must be below 4294967296: lower it"):
        Environment(3, 20).divide(BASE, 3, 2**32)
    with pytest.raises(UserError, match=r"graphs has 60 graphs, too few for 61 parts; lower partitioner\.clients"):
        Environment(61, 2).divide(BASE, 61, 0)


def test_one_environment_cannot_be_mixed() -> None:
    alone = worlds.graph_set(20, 1)
    with pytest.raises(UserError, match=r"partitioner\.mixed=0\.5 takes graphs of other environments, and graphs has"):
        Environment(2, 10, 0.5).divide(alone, 2, 0)
    assert Environment(2, 10).divide(alone, 2, 0).sizes == (10, 10)
