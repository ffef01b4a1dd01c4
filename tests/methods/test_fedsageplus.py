"""FedSage+: generator, losses and exchanged gradients against plain loops; the mended graph against PyG."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from fgl_repro import config as configs
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import UnionGraph, World
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.rounds import prepare
from fgl_repro.methods.fedsageplus import generators as generators_module
from fgl_repro.methods.fedsageplus.generators import FGEN, GeneratorGroup, GeneratorTraining, hide
from fgl_repro.methods.fedsageplus.mending import MendedGraph
from fgl_repro.methods.fedsageplus.method import FedSagePlus, State
from fgl_repro.methods.fedsageplus.neighgen import Pool
from fgl_repro.nn import view as view_module
from fgl_repro.nn.models.sage import SAGE
from fgl_repro.nn.ops import stack
from fgl_repro.nn.view import Views
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import tampered
from support.oracles import separate

CPU = torch.device("cpu")
SMALL = {f"method.{name}": value for name, value in FedSagePlus.quick.items()} | {"model.hidden": 8}
"""Enough for generators of both variants to make something on the toy graph."""

BOTH = pytest.mark.parametrize("variant", FedSagePlus.variants)
DENSITY = pytest.mark.parametrize("sparse_below", [0.0, 1.1], ids=["dense", "sparse"])


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


def make_clients(world: World, method: FedSagePlus) -> Clients:
    base, protocol = world.graph.base, configs.build(dataset="cora", clients=3).protocol
    return Clients(method, SAGE(base.num_features, base.num_classes, 8), world, protocol, 0, Views(CPU))


def begun(world: World, **overrides: Any) -> State:
    """What phase 1 leaves."""
    method = FedSagePlus(**{**FedSagePlus.quick, **overrides})
    state, _ = prepare(method, make_clients(world, method), Ledger())
    return state


def make_group(world: World, method: FedSagePlus) -> GeneratorGroup:
    """All clients with small generators without dropout."""
    small = replace(method, encoder=8, latent=8, fgen_inner=8, fgen_outer=16, generator_dropout=0.0)
    return GeneratorGroup(GeneratorTraining(small, make_clients(world, small), np.zeros((0, 2))), range(3))


def make_pool(group: GeneratorGroup, slots: int) -> Pool:
    """Two generated vectors on some nodes, ``slots`` on others, none on the rest."""
    local = group.impaired.local
    z = group.net.encode(group.params, local, None)
    counts = torch.tensor([0, 2, slots]).repeat(len(z))[: len(z)]
    return group.net.generate(group.params, local, z, counts, group.streams, drop=False, sample=group.net.sage)


# --- pieces -----------------------------------------------------------------------------------------------------------


@BOTH
@DENSITY
def test_classifier_on_an_explicit_mended_graph(
    world: World, variant: str, sparse_below: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "SPARSE_BELOW", sparse_below)
    group = make_group(world, FedSagePlus(variant=variant))
    pool, impaired = make_pool(group, 4), group.impaired
    ours = group.net.classify(group.params, impaired.local, pool, None)
    n, size = len(impaired.local.nodes), len(pool.parent)
    a = torch.zeros(n + size, n + size)
    a[:n, :n] = torch.from_numpy(world.graph.adjacency[impaired.local.nodes][:, impaired.local.nodes].toarray())
    a[pool.parent, n + torch.arange(size)] = a[n + torch.arange(size), pool.parent] = 1
    features = torch.from_numpy(world.graph.base.features[world.graph.node[impaired.local.nodes]].toarray())
    h, owner = torch.cat([features, pool.features]), torch.cat([impaired.local.owner, pool.owner])
    looped = a + torch.eye(n + size)
    for number in (1, 2):
        weight, bias = group.params[f"C{number}"][owner], group.params[f"c{number}"][owner]
        if group.net.sage:
            mean = a @ h / a.sum(1, keepdim=True).clamp_min(1)
            parts = zip((mean, h), weight.chunk(2, dim=2), strict=True)
            h = sum(torch.einsum("ni,nio->no", x, w) for x, w in parts) + bias
        else:
            h = looped / looped.sum(1, keepdim=True) @ torch.einsum("ni,nio->no", h, weight) + bias
        if number == 1 or not group.net.sage:
            h = torch.relu(h)
    torch.testing.assert_close(ours, h[:n], atol=1e-5, rtol=1e-5)


@DENSITY
def test_encoder_is_graphsage(world: World, sparse_below: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rectified stacked GraphSAGE with the same weights, on the impaired graph."""
    monkeypatch.setattr(view_module, "SPARSE_BELOW", sparse_below)
    group = make_group(world, FedSagePlus())
    nodes, graph = group.impaired.local.nodes, world.graph
    impaired = UnionGraph(
        graph.base, graph.node[nodes], np.array(group.impaired.local.ptr), graph.adjacency[nodes][:, nodes]
    )
    params = {
        name.upper().replace("E", "W") if name[0] == "E" else name.replace("e", "b"): p
        for name, p in group.params.items()
    }
    for name in ("W1", "W2"):
        params[name] = torch.cat(params[name].chunk(2, dim=2), dim=1)
    expected = torch.relu(torch.cat(separate(impaired, SAGE(16, 4, 8), params)))
    torch.testing.assert_close(
        group.net.encode(group.params, group.impaired.local, None), expected, atol=1e-5, rtol=1e-5
    )


@BOTH
def test_hiding(world: World, variant: str) -> None:
    graph, sizes = world.graph, np.diff(world.graph.ptr)
    hidden, judged = hide(FedSagePlus(variant=variant, hidden=0.2), graph, 3)
    assert np.bincount(graph.owner[hidden], minlength=3).tolist() == np.round(0.2 * sizes).tolist()
    if variant == "paper":
        assert judged.all()
    else:
        assert not (hidden & judged).any()
        assert np.bincount(graph.owner[judged], minlength=3).tolist() == np.round(0.6 * sizes).tolist()


def test_sampled_nodes(world: World) -> None:
    """Up to so many random nodes of each client carry the losses, in shares that sum to one, and they alone are mended.

    Where all are to be mended for L^c, that teaches something else.
    """
    group = make_group(world, FedSagePlus(nodes=5))
    sizes = np.diff(group.impaired.local.ptr)
    one, two = (group.impaired.sampled(5, group.streams).weight for _ in range(2))
    assert not torch.equal(one, two)
    for part in one.split(sizes.tolist()):
        assert part.unique().tolist() == pytest.approx([0, 0.2])
        assert part.sum().item() == pytest.approx(1)
    everybody = group.impaired.sampled(10_000, group.streams).weight
    torch.testing.assert_close(everybody, group.impaired.weight)
    group.params["d1"].data.fill_(9.0)
    parents = [group.generate(None, everywhere=way)[0].parent.unique().numel() for way in (False, True)]
    assert parents == [3 * 5, len(one)]
    curves = [begun(world, nodes=5, warmup=2, parents=way).curve for way in ("sample", "all")]
    assert (curves[0][1:] != curves[1][1:]).all(), "what L^c teaches in the first epoch is felt in the second"


# --- losses -----------------------------------------------------------------------------------------------------------


@BOTH
def test_losses_by_hand(world: World, variant: str) -> None:
    """L^d, L^f and L^c of every client, node by node, from the union graph itself."""
    method = FedSagePlus(variant=variant, hidden=0.2, a=0.7, b=1.3, num_pred=2)
    group = make_group(world, method)
    graph, impaired = world.graph, group.impaired
    hidden, judged = hide(method, graph, 0)
    pool = make_pool(group, 2)
    estimate = torch.rand(len(impaired.local.nodes)) * 3
    logits = torch.randn(len(impaired.local.nodes), 4)
    ours, of_labels = group.home_loss(pool, estimate), impaired.label_loss(logits)
    x = torch.from_numpy(graph.base.features[graph.node].toarray())
    for k in range(3):
        rows = [v for v, node in enumerate(impaired.local.nodes) if graph.owner[node] == k and judged[node]]
        of_counts = of_features = 0.0
        for v in rows:
            around = graph.adjacency[impaired.local.nodes[v]].indices
            lost = sorted(u for u in around if hidden[u])
            of_counts += F.smooth_l1_loss(estimate[v], torch.tensor(float(len(lost)))).item()
            lost = lost if variant == "paper" else lost[:2]
            for made in pool.features[pool.parent == v]:
                if lost:
                    of_features += min(((made - x[u]) ** 2).sum().item() for u in lost)
        scale = 1 if variant == "paper" else 2 * 16
        expected = 0.7 * of_counts / len(rows) + 1.3 * of_features / len(rows) / scale
        assert ours[k].item() == pytest.approx(expected, rel=1e-4)
        left = [v for v, node in enumerate(impaired.local.nodes) if graph.owner[node] == k and node in world.train]
        labels = torch.from_numpy(graph.labels[impaired.local.nodes[left]])
        assert of_labels[k].item() == pytest.approx(F.cross_entropy(logits[left], labels).item(), rel=1e-4)
    assert impaired.targeted.numel()


def test_strangers_without_links_are_refused(toy_graph: Graph) -> None:
    """Client 2 has no link, of which the paper's losses and a client by itself need none."""
    world = worlds.build("plain", toy_graph, "metis", 3)
    linked = sp.diags_array((world.graph.owner != 2).astype(np.float32))
    adjacency = sp.csr_matrix(linked @ world.graph.adjacency @ linked)
    adjacency.eliminate_zeros()
    graph = replace(world.graph, adjacency=adjacency)
    world = replace(world, graph=graph, validation=replace(world.validation, graph=graph), probes=())
    with pytest.raises(UserError, match=r"Client 2 of toy has no link.*: lower partitioner\.clients.*variant=paper"):
        begun(world, variant="release")
    begun(world, variant="paper")


def test_release_judges_by_strangers(world: World) -> None:
    """The release's term (6) with the draws at hand, and what the draws may be."""
    method = FedSagePlus(variant="release", hidden=0.2, num_pred=3)
    group = make_group(world, method)
    group.picks = [np.random.default_rng(k) for k in range(3)]
    graph, impaired, pool = world.graph, group.impaired, make_pool(group, 3)
    ours = group.drawn_loss(pool)
    group.picks = [np.random.default_rng(k) for k in range(3)]
    expected = np.zeros(3)
    for ahead in (1, 2):
        owners = [(k + ahead) % 3 for k in range(3)]
        drawn = impaired.strangers(graph, owners, 3, group.picks).view(-1, 3)
        for row, v in enumerate(impaired.targeted.tolist()):
            k = int(impaired.local.owner[v])
            assert set(graph.owner[drawn[row]]) == {owners[k]}
            assert any(set(drawn[row].tolist()) <= set(graph.adjacency[u].indices) for u in range(graph.num_nodes))
            targets = group.others.rows[drawn[row, : int(impaired.missing[v].clamp_max(3))]]
            for made in pool.features[pool.parent == v]:
                nearest = ((made - targets) ** 2).mean(1).min().item()
                expected[k] += nearest / 3 * impaired.weight[v].item()
    np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=1e-4)
    assert expected.all()
    assert group.rows.sum() == 2 * int(impaired.missing[impaired.targeted].clamp_max(3).sum())


@DENSITY
def test_returned_gradients_are_those_of_the_cross_term(
    world: World, sparse_below: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sum over the other clients of Equation (6)'s term, differentiated directly, with respect to fGen alone."""
    monkeypatch.setattr(view_module, "SPARSE_BELOW", sparse_below)
    group = make_group(world, FedSagePlus())
    pool, graph = make_pool(group, 3), world.graph
    ours = group.returned_gradients(pool)
    term = torch.zeros(())
    for s, made in enumerate(pool.features):
        k = int(pool.owner[s])
        for j in set(range(3)) - {k}:
            theirs = group.others.rows[graph.ptr[j] : graph.ptr[j + 1]]
            term = term + ((made - theirs) ** 2).sum(1).min() / int((group.impaired.local.owner == k).sum())
    direct = torch.autograd.grad(term, [group.params[name] for name in FGEN])
    for a, b in zip(ours, direct, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
        assert b.abs().sum() > 0


# --- mending ----------------------------------------------------------------------------------------------------------


@DENSITY
def test_embeddings_of_the_mended_graph_equal_pyg(
    world: World, sparse_below: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "SPARSE_BELOW", sparse_below)
    graph, base = world.graph, world.graph.base
    rng = np.random.default_rng(0)
    parent = rng.permutation(np.repeat(np.arange(graph.num_nodes), rng.integers(0, 4, graph.num_nodes)))
    generated = MendedGraph(graph, parent, rng.standard_normal((len(parent), 16)).astype(np.float32), 3)
    model = SAGE(16, 4, hidden=8)
    params = stack(model.init(torch.Generator().manual_seed(0)), 3)
    params = {name: value + torch.randn_like(value) * 0.1 for name, value in params.items()}
    expected = separate(explicit(graph, generated), model, params)
    real = torch.cat([e[:n] for e, n in zip(expected, np.diff(graph.ptr), strict=True)])
    for rows in (np.arange(graph.num_nodes), world.train):
        view = generated.view(rows, CPU)
        ours = model.embed(params, view).flatten(0, 1)[view.slots]
        torch.testing.assert_close(ours, real[rows], atol=1e-5, rtol=1e-5)
        plain = model.view(Views(CPU), graph, rows)
        for name in ("labels", "mask", "counts", "slots"):
            assert torch.equal(getattr(view, name), getattr(plain, name))
    assert base.num_nodes > 0


def explicit(graph: UnionGraph, generated: MendedGraph) -> UnionGraph:
    """The mended union graph, each client's generated nodes after its own."""
    base, owner = graph.base, graph.owner[generated.parent]
    order = np.argsort(np.concatenate([graph.owner, owner]), kind="stable")
    hung = generated.hung
    adjacency = sp.csr_matrix(sp.block_array([[graph.adjacency, hung], [hung.T, None]]))[order][:, order]
    features = sp.csr_matrix(sp.vstack([base.features, sp.csr_matrix(generated.features)]))
    labels = np.concatenate([base.labels, np.zeros(len(owner), np.int64)])
    node = np.concatenate([graph.node, base.num_nodes + np.arange(len(owner))])[order]
    sizes = np.diff(graph.ptr) + np.bincount(owner, minlength=graph.num_clients)
    larger = replace(base, features=features, labels=labels)
    return UnionGraph(larger, node, np.concatenate([[0], np.cumsum(sizes)]), sp.csr_matrix(adjacency))


# --- phase 1 ----------------------------------------------------------------------------------------------------------


@BOTH
def test_generators_learn(world: World, variant: str) -> None:
    """Counts come closer to the truth, and generated vectors to the neighbours that a client really lost."""
    # With c = 1 the vectors of the release follow the classifier: it divides L^f by P d, the steps of Adam do the rest.
    state = begun(world, warmup=100, variant=variant, c=float(variant == "paper"))
    graph = world.graph
    assert state.curve[-20:, 0].mean() < 0.8 * state.curve[:5, 0].mean()
    generated = state.inputs.mended
    mended, real = distances(graph, generated)
    assert mended < real


def distances(graph: UnionGraph, generated: MendedGraph) -> tuple[float, float]:
    """Mean distance of the neighbourhood feature mean from the global one, mended and not, of mended nodes that lost
    neighbours to other clients (table D1)."""
    base, hung = graph.base, generated.hung
    around = graph.adjacency @ base.features[graph.node].toarray()
    own, added = np.diff(graph.adjacency.indptr), np.diff(hung.indptr)
    everything = np.diff(base.adjacency.indptr)[graph.node]
    whole = (base.adjacency @ base.features.toarray())[graph.node] / everything[:, None]
    nodes = (added > 0) & (own < everything)
    mended = (around + hung @ generated.features) / np.maximum(own + added, 1)[:, None]
    real = around / np.maximum(own, 1)[:, None]
    return tuple(float(np.linalg.norm(x - whole, axis=1)[nodes].mean()) for x in (mended, real))  # type: ignore[return-value]


@BOTH
def test_groups_change_nothing(world: World, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generators trained one by one, as memory may demand, are those trained together."""
    options = {"variant": variant}
    together = begun(world, **options)
    monkeypatch.setattr(generators_module, "GROUP_BYTES", 1)
    alone = begun(world, **options)
    assert len(together.inputs.mended.parent)
    assert np.array_equal(together.inputs.mended.parent, alone.inputs.mended.parent)
    np.testing.assert_allclose(together.inputs.mended.features, alone.inputs.mended.features, atol=1e-5)
    np.testing.assert_allclose(together.curve, alone.curve, atol=1e-5)


@BOTH
def test_generators_hear_of_others_in_the_federated_epochs_alone(world: World, variant: str) -> None:
    """Client 0 has other features and labels: without federated epochs, nothing that the others generate changes."""
    strange = tampered(world, client=0)
    for epochs, equal in ((0, True), (3, False)):
        options = {"variant": variant, "generator_epochs": epochs}
        one, other = (begun(w, **options).inputs.mended for w in (world, strange))
        mine = [g.features[world.graph.owner[g.parent] > 0] for g in (one, other)]
        assert len(mine[0])
        assert np.array_equal(*mine) == equal


def test_weight_of_the_cross_term(world: World) -> None:
    """With alpha = 0 others' features change nothing either."""
    one, other = (begun(w, alpha=0.0).inputs.mended for w in (world, tampered(world, client=0)))
    mine = [g.features[world.graph.owner[g.parent] > 0] for g in (one, other)]
    assert len(mine[0])
    assert np.array_equal(*mine)


# --- costs and limits -------------------------------------------------------------------------------------------------


def test_bytes(world: World) -> None:
    """Rounds: the classifier both ways. Phase 1: generators to everybody else, gradients back, summed by the server."""
    overrides = {**SMALL, "protocol.rounds": 3, "method.generator_epochs": 4, "method.latent": 8}
    config = configs.build(dataset="cora", method="fedsageplus", clients=3, overrides=overrides)
    training, _, _ = federate(config, world, CPU)
    ledger, single = training.ledger.as_dict(), sum(value[0].numel() for value in training.last.values())
    assert ledger["rounds"] == {"up": {"weights": 12 * single}, "down": {"weights": 12 * single}}
    fgen = 8 * 8 + 8 + 8 * 16 + 16 + (16 + 1) * 5 * 16
    up, down = ledger["generator"]["up"], ledger["generator"]["down"]
    assert (up["generator"], up["gradients"]) == (4 * 4 * fgen, 2 * 4 * 4 * fgen)
    assert (down["generator"], down["gradients"]) == (2 * 4 * 4 * fgen, 4 * 4 * fgen)
    assert down["noisy_z"] == pytest.approx(2 * up["noisy_z"], abs=2)
    assert up["noisy_z"] == pytest.approx(up["choices"] * 4 * 8 / 5, rel=0.05)
    assert set(training.facts) == {"generated", "count_loss", "feature_loss", "distance"}


def test_one_client_sends_nothing(toy_graph: Graph) -> None:
    alone = worlds.build("plain", toy_graph, "random", 1)
    for variant in FedSagePlus.variants:
        overrides = {**SMALL, "protocol.rounds": 1, "method.variant": variant}
        config = configs.build(dataset="cora", method="fedsageplus", clients=1, overrides=overrides)
        assert "generator" not in federate(config, alone, CPU)[0].ledger.as_dict()


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("hidden", 0.0, "give a number above 0"),
        ("hidden", 0.95, r"at most 0\.9"),
        ("num_pred", 0, "at least 1"),
        ("fgen_outer", 0, "at least 1"),
        ("generator_lr", -1.0, "at least 0"),
        ("alpha", float("nan"), "at least 0"),
        ("generator_dropout", 1.0, "give a number below 1"),
    ],
)
def test_bad_settings_are_refused(field: str, value: object, told: str) -> None:
    with pytest.raises(UserError, match=told):
        configs.build(dataset="cora", method="fedsageplus", overrides={f"method.{field}": value})
    with pytest.raises(UserError, match=r"at most 0\.2"):
        FedSagePlus(variant="release", hidden=0.3)
