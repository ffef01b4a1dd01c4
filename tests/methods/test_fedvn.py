"""FedVN against PyG and plain loops: messages of virtual nodes, both losses, parameter counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GINConv, GINEConv

from fgl_repro.data.graphset import GraphSet
from fgl_repro.federation.world import UnionGraph, World
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.rounds import prepare
from fgl_repro.methods.fedvn import networks
from fgl_repro.methods.fedvn.method import WAYS, State, contrastive, correlation, cosines, inside, network_of
from fgl_repro.methods.fedvn.networks import VirtualGIN
from fgl_repro.nn.models import gin
from fgl_repro.nn.ops import stack
from fgl_repro.nn.view import Views
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import config_of_graphs

CPU = torch.device("cpu")
Tensors = dict[str, torch.Tensor]


class Links(NamedTuple):
    """Links of PyG, and their categories as ones in blocks of columns, of molecules."""

    index: torch.Tensor
    bonds: torch.Tensor | None


def convolved(w: Tensors, layer: int, h: torch.Tensor, links: Links, kind: str = "") -> torch.Tensor:
    """A layer of PyG and the batch norm that follows it."""

    def norm(values: torch.Tensor, name: str) -> torch.Tensor:
        return F.batch_norm(values, None, None, w[f"{name}gain{layer}"], w[f"{name}shift{layer}"], training=True)

    class Mlp(torch.nn.Module):
        def forward(self, h: torch.Tensor) -> torch.Tensor:
            h = norm(h @ w[f"{kind}inner_W{layer}"] + w[f"{kind}inner_b{layer}"], f"{kind}inner_")
            return torch.relu(h) @ w[f"{kind}W{layer}"] + w[f"{kind}b{layer}"]

    if links.bonds is None:
        return norm(GINConv(Mlp())(h, links.index), kind)
    return norm(GINEConv(Mlp())(h, links.index, links.bonds @ w[f"{kind}bond{layer}"]), kind)


def weighed(w: Tensors, x: torch.Tensor, links: Links) -> torch.Tensor:
    """What one client's generator says of its nodes, ``[n, M]``; all alike where it has none."""
    if "generator_W1" not in w:
        return torch.full((len(x), len(w["Q1"])), 1 / len(w["Q1"]))
    s = x @ w["generator_W1"] + w.get("generator_b1", 0)
    for layer in (2, 3, 4):
        s = convolved(w, layer, s, links, "generator_")
        s = torch.relu(s) if layer < 4 else s
    s = torch.relu(s @ w["generator_W5"] + w["generator_b5"])
    return torch.sigmoid(s @ w["generator_W6"] + w["generator_b6"])


def direct(
    net: VirtualGIN, w: Tensors, s: torch.Tensor, x: torch.Tensor, links: Links, batch: torch.Tensor
) -> torch.Tensor:
    """One client's outputs, graph by graph and virtual node by virtual node, with PyG's layers and torch's norms."""
    shift = w.get("b1", 0)  # categories have none
    h, graphs, count = x @ w["W1"] + shift, int(batch.max()) + 1, s.shape[1]
    q = (w["Q1"] @ w["W1"] + shift if net.raw else w["Q1"]).repeat(graphs, 1, 1)
    for layer in (2, 3, 4):
        message = torch.stack([sum(s[v, m] * q[batch[v], m] for m in range(count)) for v in range(len(x))])
        heard = torch.stack(
            [
                torch.stack([q[g, m] + sum(s[v, m] * h[v] for v in torch.where(batch == g)[0]) for m in range(count)])
                for g in range(graphs)
            ]
        )
        if net.inside:
            h = convolved(w, layer, h + message, links)
            h = torch.relu(h) if layer < 4 else h
        else:
            h = convolved(w, layer, h, links)
            h = (torch.relu(h) if layer < 4 else h) + message
        if layer < 4:
            for kind in ("virtual_inner_", "virtual_"):
                flat = (heard @ w[f"{kind}W{layer}"] + w[f"{kind}b{layer}"]).flatten(1)
                gain, shift = w[f"{kind}gain{layer}"], w[f"{kind}shift{layer}"]
                flat = F.batch_norm(flat, None, None, gain, shift, training=True)
                heard = torch.relu(flat).view(graphs, count, -1)
            q = heard
    pooled = torch.stack([h[batch == g].mean(0) for g in range(graphs)])
    return torch.relu(pooled @ w["W5"] + w["b5"]) @ w["W6"] + w["b6"]


@pytest.mark.parametrize("inside", [True, False], ids=["release", "paper"])
def test_virtual_nodes_are_those_of_a_direct_model(inside: bool) -> None:
    """Two clients with three graphs each; outputs to 2e-5."""
    base = worlds.graph_set(3, 2)
    union = UnionGraph.induced(base, [np.arange(3), np.arange(3, 6)])
    net = VirtualGIN(5, 3, hidden=4, dropout=0.0, virtual=3, inside=inside, raw=not inside)
    rng = torch.Generator().manual_seed(3)
    params = {
        name: value + 0.5 * torch.randn(value.shape, generator=rng)
        for name, value in stack(net.init(rng) | net.init_generator(rng), 2).items()
    }
    found = net(params, net.view(Views(CPU), union, np.arange(6)))
    for k in range(2):
        own, inner = {name: value[k] for name, value in params.items()}, insides(base, np.arange(3 * k, 3 * k + 3))
        expected = direct(net, own, weighed(own, *inner[:2]), *inner)
        torch.testing.assert_close(found[k], expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("molecules", [False, True], ids=["", "molecules"])
@pytest.mark.parametrize("inside", [True, False], ids=["release", "paper"])
def test_virtual_nodes_are_normed_over_so_many_graphs_together(inside: bool, molecules: bool) -> None:
    """Predictions of a client's later graphs do not hang on its earlier ones where they are in different batches."""
    base = replace(worlds.graph_set(8, molecules=molecules), name="motif_basis")
    union = UnionGraph.induced(base, [np.arange(8), np.arange(8, 16)])
    widths = {"fields": (4, 3), "bonds": (5, 6, 2)} if molecules else {}
    net = VirtualGIN(7 if molecules else 5, 3, hidden=4, together=3, virtual=3, inside=inside, **widths)
    rng = torch.Generator().manual_seed(3)
    params = {
        name: value + 0.5 * torch.randn(value.shape, generator=rng)
        for name, value in stack(net.init(rng) | net.init_generator(rng), 2).items()
    }
    found = net(params, net.view(Views(CPU), union, np.arange(16)))
    last = net(params, net.view(Views(CPU), union, np.array([3, 4, 5])))
    torch.testing.assert_close(found[0, 3:6], last[0])
    alone = net(params, net.view(Views(CPU), union, np.array([4, 5])))
    assert not torch.allclose(found[0, 4:6], alone[0])


def insides(base: GraphSet, graphs: np.ndarray) -> tuple[torch.Tensor, Links, torch.Tensor]:
    """Features, links and the number of its graph of every node inside some graphs."""
    nodes = np.concatenate([np.arange(base.ptr[g], base.ptr[g + 1]) for g in graphs])
    rows = base.links[nodes]
    index = torch.from_numpy(np.stack(rows[:, nodes].tocoo().coords[::-1]).astype(np.int64))
    batch = np.repeat(np.arange(len(graphs)), np.diff(base.ptr)[graphs])
    bonds = None
    if base.bonds is not None:
        number = np.concatenate([np.arange(base.links.indptr[v], base.links.indptr[v + 1]) for v in nodes])
        codes = zip(base.bonds[number].T, base.bond_fields, strict=True)
        bonds = torch.cat([F.one_hot(torch.from_numpy(code).long(), width) for code, width in codes], 1).float()
    return torch.from_numpy(base.inner[nodes].toarray()), Links(index, bonds), torch.from_numpy(batch)


def unequal(base: GraphSet) -> World:
    """Three clients with 4, 10 and 10 graphs to train on."""
    world = worlds.of_graphs(base)
    owner = world.graph.owner[world.train]
    return replace(world, train=np.concatenate([world.train[owner == 0][:4], world.train[owner > 0]]))


@pytest.mark.parametrize("generator", [True, False], ids=["", "without generator"])
@pytest.mark.parametrize("variant", ["release", "paper"])
@pytest.mark.parametrize("molecules", [False, True], ids=["classes", "molecules and a number of each"])
def test_two_rounds_are_those_of_separate_clients(molecules: bool, variant: str, generator: bool) -> None:
    """Algorithm 1 by hand: the generator's steps, then those of network and virtual nodes, then the weighted mean."""
    base, rate, epochs = worlds.graph_set(molecules=molecules, numbers=molecules), 0.05, 2
    world, task_loss = unequal(base), F.mse_loss if molecules else F.cross_entropy
    share = torch.tensor([4.0, 10.0, 10.0]) / 24
    options = {"model.dropout": 0.0, "model.together": 0, "protocol.batch": 99, "protocol.lr": rate}
    faster, virtual = (2.0, 3.0) if molecules else (1.0, 1.0)
    own = {"method.generator": generator, "method.decoupling": 0.7, "method.contrast": 0.3}
    own |= {"method.generator_rate": faster, "method.nodes_rate": virtual} if molecules else {}
    config = config_of_graphs("fedvn", variant, **options, **own)
    clients, method = make_clients(world, config), config.method
    state, _ = prepare(method, clients, Ledger())
    net, rng = network_of(clients), torch.Generator().manual_seed(5)
    with torch.no_grad():  # at 0, where they begin, virtual nodes have no correlations to lose
        clients.params["Q1"].copy_(torch.randn(clients.params["Q1"].shape[1:], generator=rng).expand(3, -1, -1))
    assert generator == bool(clients.personal)
    assert not any(torch.equal(value[0], value[1]) for value in clients.personal.values() if value[0].dim() > 1)
    shared = {name: value[0].detach().clone() for name, value in clients.params.items()}
    private = [{name: value[k].detach().clone() for name, value in clients.personal.items()} for k in range(3)]
    local = [torch.full((3,), 0.5) for _ in range(3)]
    for round in range(2):
        method.fit(clients, state, round, epochs)
        trained = []
        for k in range(3):
            rows = world.train[world.graph.owner[world.train] == k]
            inner = insides(base, units := world.graph.node[rows])
            truth = torch.from_numpy(base.labels[units] if base.targets is None else base.targets[units, None])
            sums, graphs = partial(totals, batch=inner[2]), len(rows)
            if generator and variant == "paper":
                local[k] = sums(weighed(private[k] | shared, *inner[:2])).mean(0)
            for _ in range(epochs if generator else 0):
                w = {name: value.requires_grad_() for name, value in private[k].items()}
                s = weighed(w | shared, *inner[:2])
                apart = [F.cosine_similarity(sums(s), to, dim=1) for to in (torch.ones(graphs, 3), local[k])]
                loss = task_loss(direct(net, shared, s, *inner), truth)
                loss = loss + 0.3 * torch.log1p(torch.exp((apart[0] - apart[1]) / method.tau)).mean()
                private[k] = descended(loss, w, faster * rate)
                local[k] = sums(s.detach()).mean(0) if variant == "release" else local[k]
            mine, s = shared, weighed(private[k] | shared, *inner[:2])
            for _ in range(epochs):
                w = {name: value.clone().requires_grad_() for name, value in mine.items()}
                loss = task_loss(direct(net, w, s, *inner), truth) + 0.7 * torch.corrcoef(w["Q1"]).square().mean()
                mine = descended(loss, w, rate, {"Q1": virtual})
            trained.append(mine)
        for k in range(3):
            for ours, theirs in ((clients.params, trained[k]), (clients.personal, private[k])):
                for name, value in theirs.items():
                    torch.testing.assert_close(ours[name][k].detach(), value, rtol=1e-3, atol=1e-4)
            torch.testing.assert_close(state.local[k], local[k], rtol=1e-3, atol=1e-4)
        down = method.aggregate(clients, state, method.upload(clients, state))
        clients.load(down.tensors())
        shared = {name: sum(w * each[name] for w, each in zip(share, trained, strict=True)) for name in shared}


def totals(s: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """Sums of the weights of each graph's nodes, ``[r, M]``."""
    return torch.stack([s[batch == g].sum(0) for g in range(int(batch.max()) + 1)])


def descended(loss: torch.Tensor, w: Tensors, rate: float, times: dict[str, float] | None = None) -> Tensors:
    """A step of plain gradient descent, of some tensors at so many ``times`` the rate."""
    rates = {name: rate * (times or {}).get(name, 1.0) for name in w}
    slopes = torch.autograd.grad(loss, list(w.values()), allow_unused=True, materialize_grads=True)
    return {name: (w[name] - rates[name] * slope).detach() for name, slope in zip(w, slopes, strict=True)}


def test_the_network_has_one_adam_in_all_rounds_where_moments_are_kept() -> None:
    """Without generators two rounds of a step, with no server between, are one round of two."""
    rules = {
        "protocol.optimiser": "adam",
        "protocol.moments": "kept",
        "protocol.batch": 99,
        "model.together": 0,
        "model.dropout": 0.0,
    }
    ends = []
    for epochs in ((1, 1), (2,)):
        config = config_of_graphs("fedvn", "release", **rules, **{"method.generator": False})
        clients = make_clients(worlds.of_graphs(worlds.graph_set()), config)
        state, _ = prepare(config.method, clients, Ledger())
        for number, each in enumerate(epochs):
            config.method.fit(clients, state, number, each)
        ends.append(clients.params["W6"].detach())
    torch.testing.assert_close(*ends, atol=1e-4, rtol=1e-4)


def test_a_client_without_batches_left_keeps_its_s_local() -> None:
    """Batches of four: the first client has one and the others three; s_local is that of the last batch of each."""
    config = config_of_graphs("fedvn", "release", **{"model.dropout": 0.0, "protocol.lr": 1e-9})
    clients = make_clients(unequal(worlds.graph_set()), config)
    state, _ = prepare(config.method, clients, Ledger())
    steps = list(make_clients(unequal(worlds.graph_set()), config).steps(1))  # the same draws
    config.method.fit_generator(clients, state, 1)
    for k, last in enumerate((0, 2, 2)):
        view = inside(steps[last])
        sums = view.totals(network_of(clients).scores(clients.personal, view).detach())
        torch.testing.assert_close(state.local[k], sums[k][view.mask[k] > 0].mean(0), rtol=1e-4, atol=1e-5)


def test_dropout_is_the_generators_first_and_the_networks_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the code: what is fixed in a phase answers as in a test."""
    config = config_of_graphs("fedvn", "release", **{"protocol.batch": 99, "model.together": 0})
    clients = make_clients(worlds.of_graphs(worlds.graph_set()), config)
    state, _ = prepare(config.method, clients, Ledger())
    drawn: list[str] = []

    def noted(which: str) -> Callable[..., torch.Tensor]:
        def dropped(values: torch.Tensor, *_: object) -> torch.Tensor:
            drawn.append(which)
            return values

        return dropped

    for module, which in ((networks, "virtual"), (gin, "gin")):
        monkeypatch.setattr(module, "dropout", noted(which))
    config.method.fit_generator(clients, state, 1)
    assert drawn == ["gin", "gin", "gin", "virtual"], "three layers and the perceptron of a generator"
    drawn.clear()
    config.method.fit(clients, state, 0, 1)
    layers = ["virtual", "gin", "virtual", "gin", "gin", "gin"]
    assert drawn == ["gin", "gin", "gin", "virtual", *layers], "then three layers of the network, and its head"


def test_contrastive_loss_is_the_papers_ratio() -> None:
    """Equation 8 as it is printed, against the softplus that is computed."""
    totals, local = torch.rand(2, 4, 5), torch.rand(2, 5)
    for k in range(2):
        for i in range(4):
            near = torch.exp(F.cosine_similarity(totals[k, i], local[k], dim=0) / 0.1)
            far = torch.exp(F.cosine_similarity(totals[k, i], torch.full((5,), 1 / 5), dim=0) / 0.1)
            expected = -torch.log(near / (near + far))
            assert contrastive(totals, local, 0.1)[k, i].item() == pytest.approx(expected.item(), abs=1e-5)


def test_decoupling_is_that_of_the_correlation_matrix_and_still_at_zero() -> None:
    virtual = torch.randn(2, 4, 6)
    for k in range(2):
        expected = np.linalg.norm(np.corrcoef(virtual[k].numpy())) ** 2 / 16
        assert correlation(virtual)[k].item() == pytest.approx(expected, rel=1e-5)
    zero = torch.zeros(1, 4, 6, requires_grad=True)
    (grad,) = torch.autograd.grad(correlation(zero).sum(), zero)
    assert correlation(zero).item() == 0
    assert torch.equal(grad, torch.zeros_like(grad))
    first_is_constant = torch.linalg.qr(torch.cat([torch.ones(6, 1), torch.randn(6, 5)], dim=1))[0]
    apart = first_is_constant[:, 1:5].T  # means of 0, no two correlated
    assert correlation(apart.unsqueeze(0)).item() == pytest.approx(1 / 4, abs=1e-5)


def test_cosines_are_those_of_every_two_virtual_nodes_with_their_sign_and_mean_over_clients() -> None:
    virtual = torch.randn(3, 4, 6)
    virtual[:, 3] = -2 * virtual[:, 0]
    virtual[:, 2] = 0
    found = cosines(virtual)
    for i, j in ((0, 1), (1, 3), (0, 3), (1, 2), (1, 1)):
        expected = F.cosine_similarity(virtual[:, i], virtual[:, j], dim=1).mean()
        torch.testing.assert_close(found[i, j], expected)
    assert found[0, 3].item() == pytest.approx(-1)
    assert found[2, 2].item() == 0


@pytest.mark.parametrize("judged", ["server", "own"])
@pytest.mark.parametrize("variant", ["release", "paper"])
def test_runs_with_all_curves_tell_the_cosines_of_the_virtual_nodes_that_are_tested_last(
    variant: str, judged: str
) -> None:
    """Others do not, nor where there is but one, and all are the same runs to the bit."""
    world, changed = worlds.of_graphs(worlds.graph_set()), {"protocol.judged": judged}
    told, silent = (
        federate(config_of_graphs("fedvn", variant, **changed, **{"runtime.curves": kept}), world, CPU)[0]
        for kept in ("all", "validation")
    )
    nodes = told.last["Q1"]
    assert all(torch.equal(nodes[k], nodes[0]) for k in range(len(nodes))) == (judged == "server")
    np.testing.assert_allclose(told.facts["cosines"], cosines(nodes).numpy(), atol=1e-6)
    assert "cosines" not in silent.facts
    assert {name: told.curves[name] for name in silent.curves} == silent.curves
    assert all(torch.equal(value, silent.last[name]) for name, value in told.last.items())
    single = config_of_graphs("fedvn", variant, **changed, **{"runtime.curves": "all", "method.nodes": 1})
    assert "cosines" not in federate(single, world, CPU)[0].facts


def test_a_single_virtual_node_is_not_moved_by_the_decoupling_loss() -> None:
    """However short it is: what rounding leaves of a gradient of 0 would be divided by its length."""
    single = (1e-6 * torch.randn(3, 1, 6)).requires_grad_()
    assert torch.equal(correlation(single), torch.ones(3))
    assert not correlation(single).requires_grad


def test_without_a_generator_the_decoupling_loss_alone_parts_what_dropout_told_apart() -> None:
    """So the row without generator is not that of a single virtual node, as the equations have it (Table 2)."""
    apart = {}
    for weight in (0.0, 0.1):
        config = config_of_graphs("fedvn", "release", **{"method.generator": False, "method.decoupling": weight})
        clients, method = make_clients(worlds.of_graphs(worlds.graph_set()), config), config.method
        state = method.state(clients)
        for number in range(5):
            method.fit(clients, state, number, 1)
        virtual = clients.params["Q1"].detach()
        apart[weight] = ((virtual - virtual[:, :1]).norm() / virtual.norm()).item()
    assert apart[0.0] < 1e-3 < 0.1 < apart[0.1]


def test_as_many_parameters_as_the_released_network() -> None:
    net = VirtualGIN(1, 3)
    sizes = {name: value.numel() for name, value in net.init(torch.Generator()).items()}
    assert sizes.pop("Q1") == 2_000
    assert sum(sizes.values()) == 241_803
    assert sum(value.numel() for value in net.init_generator(torch.Generator()).values()) == 138_920


def test_each_place_where_the_variants_part_can_be_had_alone() -> None:
    """All three of the paper's are the paper; one moves what it names and nothing else."""
    base = worlds.graph_set()

    def run(variant: str, **ways: str) -> tuple[VirtualGIN, State]:
        config = config_of_graphs("fedvn", variant, **{f"method.{name}": way for name, way in ways.items()})
        clients, method = make_clients(worlds.of_graphs(base), config), config.method
        state, _ = prepare(method, clients, Ledger())
        method.fit(clients, state, 0, 1)
        found.append(torch.cat([value.detach().flatten() for value in clients.params.values()]))
        return network_of(clients), state

    found: list[torch.Tensor] = []
    run("paper")
    run("release", message="after", width="features", local="all")
    assert torch.equal(*found)
    run("release")
    run("paper", message="inside", width="hidden", local="batch")
    assert torch.equal(*found[2:])
    assert config_of_graphs("fedvn", "release").method.identity().keys().isdisjoint({"message", "width", "local"})
    released, theirs = run("release")[0], [run("release", **{name: way})[0] for name, way in WAYS["paper"].items()]
    assert [(net.inside, net.raw) for net in (released, *theirs)] == [
        (True, False),
        (False, False),
        (True, True),
        (True, False),
    ]
