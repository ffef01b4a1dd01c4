"""The stacked GIN against K separate ones built of PyG's layers, and batch norms against torch's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.textbook_graphs import TextbookGIN, as_data, load
from torch import nn
from torch_geometric.data import Batch

from fgl_repro.federation.world import UnionGraph
from fgl_repro.methods.fedstar.networks import TwoChannels
from fgl_repro.nn.graphs import norm_order
from fgl_repro.nn.models.gin import GIN
from fgl_repro.nn.norm import Groups, batch_norm
from fgl_repro.nn.ops import stack
from fgl_repro.nn.view import Views
from support import worlds

CPU = torch.device("cpu")
SETS = {"features": {}, "molecules": {"molecules": True}, "numbers": {"molecules": True, "numbers": True}}


@pytest.mark.parametrize("kind", SETS)
def test_equal_to_separate_networks_of_pyg(kind: str) -> None:
    """Outputs to 1e-12 and gradients to 1e-10, in double precision, each client with weights of its own."""
    base = worlds.graph_set(8, **SETS[kind])
    union = UnionGraph.induced(base, [np.arange(0, 6), np.arange(8, 16), np.arange(17, 22)])
    rows = np.array([0, 2, 3, 5, 6, 8, 9, 13, 14, 16, 18])
    model = GIN(base.num_features, base.num_classes, hidden=6, dropout=0.0, fields=base.fields)
    rng = torch.Generator().manual_seed(1)
    params = {
        name: (value + 0.3 * torch.randn(value.shape, generator=rng)).double().requires_grad_()
        for name, value in stack(model.init(rng), 3).items()
    }
    view = in_double(model.view(Views(CPU), union, rows))
    outputs = model(params, view).flatten(0, 1)[view.slots]
    weight = torch.randn(outputs.shape, generator=rng).double()
    (outputs * weight).sum().backward()
    for k in range(3):
        own = union.owner[rows] == k
        plain = TextbookGIN(base, 6).double()
        named = load(plain, {name: value[k].detach() for name, value in params.items()}, base)
        batch = Batch.from_data_list([as_data(base, graph) for graph in union.node[rows[own]]])
        batch.x = batch.x.double()
        theirs = plain(batch)
        torch.testing.assert_close(outputs[own].detach(), theirs.detach(), rtol=1e-12, atol=1e-12)
        (theirs * weight[own]).sum().backward()
        for name, parameter in named.items():
            grad = params[name].grad
            assert grad is not None
            assert parameter.grad is not None
            own_grad = grad[k].T if "W" in name else grad[k]
            torch.testing.assert_close(own_grad, parameter.grad, rtol=1e-9, atol=1e-10)


def in_double(view: Any) -> Any:
    """A view whose constants are double."""
    from dataclasses import fields, replace

    from fgl_repro.nn.sparse import SparseOp

    def double(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.double() if value.is_floating_point() else value
        if isinstance(value, SparseOp):
            return SparseOp(value.forward.double(), value.transpose.double(), value.ones)
        if hasattr(value, "__dataclass_fields__"):
            return replace(value, **{f.name: double(getattr(value, f.name)) for f in fields(value)})
        return value

    return double(view)


@pytest.mark.parametrize("relu", [False, True])
def test_batch_norm_is_torchs_on_every_group(relu: bool) -> None:
    """Two groups of one client and one of another; values and gradients in double precision."""
    sizes, client = np.array([4, 3, 5]), np.array([0, 0, 1])
    groups = in_double(Groups.of(sizes, client, CPU))
    x = torch.randn(12, 3, dtype=torch.float64, requires_grad=True)
    gain, shift = (torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    parts = [
        nn.functional.batch_norm(part, None, None, gain[k], shift[k], training=True)
        for part, k in zip(x.split(sizes.tolist()), client, strict=True)
    ]
    expected = torch.relu(torch.cat(parts)) if relu else torch.cat(parts)
    found = batch_norm(x, gain, shift, groups, relu)
    torch.testing.assert_close(found, expected)
    weight = torch.randn(12, 3, dtype=torch.float64)
    ours = torch.autograd.grad((found * weight).sum(), (x, gain, shift))
    theirs = torch.autograd.grad((expected * weight).sum(), (x, gain, shift))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_a_batch_norm_sees_so_many_graphs_together() -> None:
    """Predictions of a client's later graphs do not hang on its earlier ones where they are in different batches."""
    base = replace(worlds.graph_set(8), name="motif_basis")
    union = UnionGraph.induced(base, [np.arange(8), np.arange(8, 16)])
    model = GIN(5, 3, hidden=4, together=3)
    params = stack(model.init(torch.Generator().manual_seed(0)), 2)
    found = model(params, model.view(Views(CPU), union, np.arange(16)))
    last = model(params, model.view(Views(CPU), union, np.array([3, 4, 5])))
    torch.testing.assert_close(found[0, 3:6], last[0])
    alone = model(params, model.view(Views(CPU), union, np.array([4, 5])))
    assert not torch.allclose(found[0, 4:6], alone[0])


@pytest.mark.parametrize(
    ("name", "each", "shuffled"), [("graphs", 40, True), ("motif_basis", 40, False), ("motif_basis", 20, True)]
)
def test_graphs_that_may_be_sorted_are_shuffled_into_their_batch_norms(name: str, each: int, shuffled: bool) -> None:
    """Those of one's own may be sorted by class, and two environments of a client lie one after the other."""
    union = UnionGraph.induced(replace(worlds.graph_set(each), name=name), [np.arange(40), np.arange(40, 60)])
    rows = np.arange(60)
    order = norm_order(union, rows, 8)
    assert np.array_equal(np.sort(order[:40]), rows[:40]), "clients stay apart"
    assert np.array_equal(order, rows) == (not shuffled)
    if shuffled:
        assert all(0 < (batch < 20).sum() < 8 for batch in order[:40].reshape(-1, 8)), "no batch is of one half alone"
    assert np.array_equal(norm_order(union, rows, 0), rows)
    assert np.array_equal(norm_order(union, rows[:8], 8), rows[:8]), "one batch needs no order"


@pytest.mark.parametrize("molecules", [False, True])
def test_a_prediction_belongs_to_its_graph_in_whatever_order_batches_are(molecules: bool) -> None:
    """Where every batch norm is a graph's own, another order changes no prediction."""
    base = worlds.graph_set(molecules=molecules)
    kinds = {"fields": base.fields, "bonds": base.bond_fields} if molecules else {}
    for make in (GIN, TwoChannels):
        model = make(base.num_features, 3, hidden=4, together=1, **kinds)
        params = stack(model.init(torch.Generator().manual_seed(0)), 2)
        found = []
        for name in ("graphs", "motif_basis"):
            union = UnionGraph.induced(replace(base, name=name), [np.arange(20), np.arange(20, 40)])
            view = model.view(Views(CPU), union, np.arange(40))
            assert np.array_equal(view.rows, np.arange(40)) == (name == "motif_basis")
            found.append(model(params, view).flatten(0, 1)[view.slots])
            assert torch.equal(view.labels.flatten()[view.slots], torch.from_numpy(union.labels))
        torch.testing.assert_close(*found)


@pytest.mark.parametrize(("count", "sizes"), [(7, [3, 4]), (8, [3, 3, 2]), (6, [3, 3]), (1, [1]), (4, [4])])
def test_no_graph_is_alone_in_a_batch_norm_where_its_client_has_others(count: int, sizes: list[int]) -> None:
    union = UnionGraph.induced(worlds.graph_set(), [np.arange(count)])
    view = GIN(5, 3, hidden=4, together=3).view(Views(CPU), union, np.arange(count))
    assert view.batches.sizes.flatten().tolist() == sizes


def test_as_many_parameters_as_the_released_network() -> None:
    """FedVN's FedAvg on Motif uploads 137,203 numbers, embeddings of links that Motif does not have among them."""
    model = GIN(1, 3)
    assert sum(value.numel() for value in model.init(torch.Generator()).values()) == 137_203
