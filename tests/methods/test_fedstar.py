"""FedStar against plain PyG networks, its encodings against dense powers, and what it sends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv, GINConv, global_add_pool, global_mean_pool

from fgl_repro.data.graphset import GraphSet
from fgl_repro.federation.world import UnionGraph
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.rounds import prepare
from fgl_repro.methods.fedstar import encoding as encodings
from fgl_repro.methods.fedstar import networks
from fgl_repro.methods.fedstar.networks import TwoChannels
from fgl_repro.nn.graphs import Inside
from fgl_repro.nn.models import gin
from fgl_repro.nn.ops import stack
from fgl_repro.nn.view import Views
from support import worlds
from support.isolation import make_clients
from support.runs import config_of_graphs

CPU = torch.device("cpu")


class Plain(nn.Module):
    """One client's network, written with PyG."""

    def __init__(self, features: int, classes: int, hidden: int, own: bool, total: bool) -> None:
        super().__init__()
        self.pool = global_add_pool if total else global_mean_pool
        self.map, self.place, self.own = nn.Linear(features, hidden), nn.Linear(32, hidden), own
        wide = hidden if own else 2 * hidden
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for _ in range(3):
            inner = nn.Identity() if own else nn.BatchNorm1d(wide, track_running_stats=False)
            mlp = nn.Sequential(nn.Linear(2 * hidden, wide), inner, nn.ReLU(), nn.Linear(wide, hidden))
            self.convs.append(GINConv(mlp))
            self.norms.append(nn.Identity() if own else nn.BatchNorm1d(hidden, track_running_stats=False))
        self.structure = nn.ModuleList(GCNConv(hidden, hidden) for _ in range(3))
        self.joint = nn.Linear(2 * hidden, hidden)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, x: torch.Tensor, s: torch.Tensor, edges: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        x, s = self.map(x), self.place(s)
        for layer, (conv, norm, structure) in enumerate(zip(self.convs, self.norms, self.structure, strict=True)):
            x = norm(conv(torch.cat([x, s], 1), edges))
            x = torch.relu(x) if self.own or layer < 2 else x
            s = torch.tanh(structure(s, edges))
        return self.head(self.pool(self.joint(torch.cat([x, s], 1)), batch))


def with_weights(plain: Plain, w: dict[str, torch.Tensor]) -> Plain:
    """The plain network with one client's weights."""
    named = {"map": "1", "place": "structure_1", "joint": "joint_4", "head.0": "5", "head.2": "6"}
    state = {f"convs.{number}.eps": torch.zeros(1) for number in range(3)}
    for number in range(3):
        layer = number + 2
        named |= {f"convs.{number}.nn.0": f"inner_{layer}", f"convs.{number}.nn.3": f"{layer}"}
        named[f"structure.{number}.lin"] = f"structure_{layer}"
        state[f"structure.{number}.bias"] = w[f"structure_b{layer}"]
        for module, kind in ((f"convs.{number}.nn.1", "inner_"), (f"norms.{number}", "")):
            if not plain.own:
                state |= {f"{module}.weight": w[f"{kind}gain{layer}"], f"{module}.bias": w[f"{kind}shift{layer}"]}
    for module, name in named.items():
        kind, last = name[:-1], name[-1]
        state[f"{module}.weight"] = w[f"{kind}W{last}"].T
        if not module.startswith("structure"):
            state[f"{module}.bias"] = w[f"{kind}b{last}"]
    plain.load_state_dict(state)
    return plain


def by_powers(links: np.ndarray) -> np.ndarray:
    """Encodings of the nodes of one graph ``[m, m]``, by the definition."""
    degree = links.sum(0)
    step = links / np.maximum(degree, 1)
    walks = [np.diag(np.linalg.matrix_power(step, t)) for t in range(1, 17)]
    ones = np.eye(16)[np.clip(degree, 1, 16).astype(int) - 1]
    return np.concatenate([np.stack(walks, 1), ones], 1)


def graph(base: GraphSet, number: int) -> np.ndarray:
    low, high = base.ptr[number], base.ptr[number + 1]
    dense: np.ndarray = base.links[low:high][:, low:high].toarray().astype(np.float64)
    return dense


@pytest.mark.parametrize("cells", [1 << 18, 60, 1])
def test_encodings_are_those_of_dense_powers(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many graphs are taken at a time, and for a union that has some graphs of the set, not in its order."""
    monkeypatch.setattr(encodings, "CELLS", cells)
    base = worlds.graph_set(8)
    union = UnionGraph.induced(base, [np.arange(9, 16), np.arange(0, 5)])
    found = encodings.encoding(Inside.of(union, CPU))
    expected = np.concatenate([by_powers(graph(base, number)) for number in union.node])
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    assert (expected[:, :16].max(1) == 0).any(), "no node without links is among them"
    walks, degrees = (encodings.encoding(Inside.of(union, CPU), half) for half in ("walks", "degrees"))
    assert torch.equal(torch.cat([walks, degrees], 1), found)


def test_a_degree_is_clipped() -> None:
    star = np.zeros((20, 20))
    star[0, 1:] = star[1:, 0] = 1
    ptr = np.array([0, 20])
    inside = Inside(ptr, torch.zeros(20, 1), np.cumsum([0, *star.sum(1)]).astype(int), star.nonzero()[1], None, None)
    found = encodings.encoding(inside).numpy()
    np.testing.assert_allclose(found, by_powers(star), atol=1e-5)
    assert found[0, 31] == 1


@pytest.mark.parametrize(
    ("own", "total"), [(False, False), (True, True), (True, False)], ids=["gin", "own", "own-mean"]
)
def test_equal_to_separate_networks_of_pyg(own: bool, total: bool) -> None:
    """Outputs to 1e-5, of clients with weights of their own and of some of their graphs."""
    base = worlds.graph_set(8)
    union = UnionGraph.induced(base, [np.arange(0, 6), np.arange(8, 16)])
    rows = np.array([0, 2, 3, 6, 8, 9, 13])
    model = TwoChannels(5, 3, hidden=6, dropout=0.0, own=own, total=total)
    rng = torch.Generator().manual_seed(1)
    params = {
        name: value + 0.2 * torch.randn(value.shape, generator=rng) for name, value in stack(model.init(rng), 2).items()
    }
    view = model.view(Views(CPU), union, rows)
    found = model(params, view).flatten(0, 1)[view.slots]
    for k in range(2):
        mine = union.owner[rows] == k
        numbers = union.node[rows[mine]]
        plain = with_weights(Plain(5, 3, 6, own, total), {name: value[k] for name, value in params.items()})
        x = np.concatenate([base.inner[base.ptr[g] : base.ptr[g + 1]].toarray() for g in numbers])
        s = np.concatenate([by_powers(graph(base, g)) for g in numbers]).astype(np.float32)
        sizes = np.diff(base.ptr)[numbers]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        edges = np.concatenate(
            [np.stack(graph(base, g).nonzero()) + at for g, at in zip(numbers, starts, strict=True)], 1
        )
        batch = torch.from_numpy(np.repeat(np.arange(len(numbers)), sizes))
        expected = plain(torch.from_numpy(x), torch.from_numpy(s), torch.from_numpy(edges).long(), batch)
        torch.testing.assert_close(found[mine], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("network", "drawn"), [("gin", ["gin"] * 4), ("own", ["own"] * 3 + ["gin"]), ("own-mean", ["own"] * 3 + ["gin"])]
)
def test_the_option_says_whose_layers_they_are_and_all_drop(
    network: str, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three layers and the perceptron drop in training; FedStar's own layers have no batch norms."""
    config = config_of_graphs(
        "fedstar", "release", **{"method.network": network, "protocol.batch": 99, "model.together": 0}
    )
    clients, seen = make_clients(worlds.of_graphs(worlds.graph_set()), config), list[str]()

    def noted(whose: str) -> Callable[..., torch.Tensor]:
        return lambda values, *_: seen.append(whose) or values

    monkeypatch.setattr(networks, "dropout", noted("own"))
    monkeypatch.setattr(gin, "dropout", noted("gin"))
    clients.logits(next(clients.steps(1)))
    assert seen == drawn
    assert any("gain" in name for name in clients.params) == (network == "gin")
    assert isinstance(clients.model, TwoChannels)
    assert clients.model.total == (network == "own")


def test_as_many_shared_parameters_as_the_papers() -> None:
    single = TwoChannels(7, 2, hidden=64, own=True).init(torch.Generator())
    sizes = {name: value.numel() for name, value in single.items()}
    assert sum(size for name, size in sizes.items() if name.startswith("structure_")) == 14_592
    kept = (7 * 64 + 64) + 3 * (128 * 64 + 64 + 64 * 64 + 64) + (128 * 64 + 64) + (64 * 64 + 64) + (64 * 2 + 2)
    assert sum(sizes.values()) == 14_592 + kept


@pytest.mark.parametrize("half", ["walks", "degrees"])
def test_one_half_of_the_encodings_is_what_the_channel_of_structure_reads(half: str) -> None:
    config = config_of_graphs("fedstar", "release", **{"method.encoding": half})
    clients = make_clients(worlds.of_graphs(worlds.graph_set()), config)
    assert clients.params["structure_W1"].shape[1] == 16
    assert clients.logits(next(clients.steps(1))).isfinite().all()


def test_the_channel_of_structure_alone_is_sent_and_the_same_for_all() -> None:
    config = config_of_graphs("fedstar", "release")
    clients, method = make_clients(worlds.of_graphs(worlds.graph_set()), config), config.method
    state, _ = prepare(method, clients, Ledger())
    method.fit(clients, state, 0, 1)
    upload = method.upload(clients, state)
    assert upload is not None
    assert set(upload.tensors()) == {f"structure_{kind}{layer}" for kind in "Wb" for layer in (1, 2, 3, 4)}
    with torch.no_grad():
        method.receive(clients, state, method.aggregate(clients, state, upload))
    for name, value in clients.params.items():
        if name.rstrip("123456").endswith("W"):  # not all others move: a batch norm swallows biases
            assert torch.equal(value[0], value[1]) == name.startswith("structure_"), name
