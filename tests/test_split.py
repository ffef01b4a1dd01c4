"""The global split: sizes, order of the draw, repeatability, messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_repro.errors import UserError
from fgl_repro.split import TEST, TRAIN, VALIDATION, global_split
from fgl_repro.streams import numpy_rng


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
    with pytest.raises(UserError, match=r"protocol\.split=\[.*\] must be three shares \[train, validation, test\]"):
        global_split(100, ratios, seed=0)
