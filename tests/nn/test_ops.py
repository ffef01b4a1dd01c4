"""Small stacked operations, padding, denormals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_repro.core.device import prepare
from fgl_repro.core.streams import torch_rng
from fgl_repro.federation.world import UnionGraph
from fgl_repro.nn import view as view_module
from fgl_repro.nn.ops import dropout, stack

CPU = torch.device("cpu")


def test_denormals_count_as_zero() -> None:
    """Adam's moments without a gradient decay into them, and a CPU computes with them ten times slower."""
    prepare(CPU, threads=1, deterministic=False)
    assert float(torch.full((8,), 1e-30).mul(1e-10).abs().max()) == 0.0


def test_a_rate_next_to_one_keeps_the_mean() -> None:
    out = dropout(torch.ones(1000, 1000), 0.999, torch_rng("dropout", 0))
    assert 0 < (out != 0).float().mean().item() < 0.005
    assert out.mean().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("p", [0.0, 0.25, 0.5, 0.8])
def test_dropout_keeps_the_mean_and_the_rate(p: float) -> None:
    x = torch.ones(400, 501)
    out = dropout(x, p, torch_rng("dropout", 0))
    assert (out == 0).float().mean().item() == pytest.approx(p, abs=0.01)
    assert out.mean().item() == pytest.approx(1.0, abs=0.02)
    again = dropout(x, p, torch_rng("dropout", 0))
    assert torch.equal(out, again)
    if p:
        columns = (out == 0).float().mean(0)
        assert columns.std().item() < 0.05, "a byte of the random words is biased"


@given(st.integers(1, 4), st.integers(0, 2**31 - 1))
@settings(max_examples=25)
def test_padding_is_invertible(clients: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    from tests.conftest import stochastic_block_graph

    base = stochastic_block_graph(sizes=(9, 7), features=4, seed=seed % 7)
    nodes = [np.sort(rng.choice(16, rng.integers(1, 16), replace=False)) for _ in range(clients)]
    graph = UnionGraph.induced(base, nodes)
    rows = np.flatnonzero(rng.random(graph.num_nodes) < 0.5)
    padded = view_module.Padded.of(rows, graph)
    flat = padded.scatter(rows + 1).reshape(-1)
    assert np.array_equal(flat[padded.slot], rows + 1)
    assert (flat > 0).sum() == len(rows)
    assert np.array_equal(padded.slot // padded.width, graph.owner[rows])


@pytest.mark.parametrize("clients", [1, 3])
def test_stacked_copies_have_memory_of_their_own(clients: int) -> None:
    """Or one client's own model and the one it keeps of the server would be trained as one."""
    single = {"weight": torch.arange(6.0).view(2, 3), "bias": torch.zeros(2), "scale": torch.tensor(1.0)}
    both = stack(single, clients), stack(single, clients)
    for name, value in single.items():
        assert torch.equal(both[0][name], torch.stack([value] * clients))
        both[0][name].add_(1)
        assert torch.equal(both[1][name], torch.stack([value] * clients))
