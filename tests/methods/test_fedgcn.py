"""FedGCN: what its exchange makes exact, and what it costs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fgl_repro import config as configs
from fgl_repro.core.errors import UserError
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph, within
from fgl_repro.federation.settings.fedlog import indicator
from fgl_repro.federation.world import UnionGraph, World
from fgl_repro.fl.inputs import Inputs
from fgl_repro.methods.fedgcn import FedGCN, Halo
from fgl_repro.nn import view as view_module
from fgl_repro.nn.adjacency import gcn_norm
from fgl_repro.nn.models.gcn import GCN
from fgl_repro.nn.ops import stack
from fgl_repro.nn.view import Views
from fgl_repro.runs.execute import federate
from support import worlds
from support.worlds import membership

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


def seen(method: FedGCN, world: World, model: GCN) -> Inputs:
    """What the method's clients see."""
    return method.inputs(Inputs(world, model, Views(CPU), 0))


def central(world: World, model: GCN, single: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """First-layer output and logits of one GCN on the joint graph, for the nodes of the training graph in order."""
    base = world.graph.base
    joint = np.sort(world.graph.node)
    block = base.adjacency[joint][:, joint]
    a = torch.from_numpy(gcn_norm(sp.csr_matrix(block)).toarray())
    x = torch.from_numpy(base.features[joint].toarray())
    first = a @ (x @ single["W1"]) + single["b1"]
    second = a @ (torch.relu(first) @ single["W2"]) + single["b2"]
    logits = torch.relu(second) @ single["W3"] + single["b3"]
    place = np.searchsorted(joint, world.graph.node)
    return first[place], logits[place]


@pytest.mark.parametrize("sparse_below", [0.0, 1.1], ids=["dense", "sparse"])
def test_two_hops_are_the_central_gcn(world: World, sparse_below: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "SPARSE_BELOW", sparse_below)
    base = world.graph.base
    model = GCN(base.num_features, base.num_classes, 8, 0.0)
    single = {name: torch.randn(value.shape) for name, value in model.init(torch_rng("init", 0)).items()}
    rows = np.arange(world.graph.num_nodes)
    view = seen(FedGCN(hops=2), world, model).cut(Views(CPU), rows)
    logits = model(stack(single, 3), view).flatten(0, 1)[view.slots]
    torch.testing.assert_close(logits, central(world, model, single)[1], atol=1e-4, rtol=1e-4)
    assert np.array_equal(view.labels.flatten()[view.slots].numpy(), world.graph.labels)


def test_one_hop_is_exact_in_the_first_layer_only(world: World) -> None:
    base = world.graph.base
    model = GCN(base.num_features, base.num_classes, 8, 0.0)
    single = model.init(torch_rng("init", 1))
    rows = np.arange(world.graph.num_nodes)
    view = seen(FedGCN(hops=1), world, model).cut(Views(CPU), rows)
    first, logits = central(world, model, single)
    torch.testing.assert_close(model.first(stack(single, 3), view).flatten(0, 1)[view.slots], first)
    ours = model(stack(single, 3), view).flatten(0, 1)[view.slots]
    assert not torch.allclose(ours, logits, atol=1e-4), "some edge crosses clients, so the second layer must differ"


def test_no_hop_is_fedavg(world: World) -> None:
    overrides = {"protocol.rounds": 3, "model.hidden": 8}
    gcn = configs.build(dataset="cora", method="fedgcn", overrides={**overrides, "method.hops": 0})
    avg = configs.build(dataset="cora", method="fedavg", overrides=overrides)
    first, second = (federate(config, world, CPU)[0] for config in (gcn, avg))
    assert first.curves == second.curves
    assert first.ledger.as_dict() == second.ledger.as_dict()


def test_the_released_halo_is_exact_but_for_the_degrees_at_its_rim(world: World) -> None:
    """With two hops a client's own nodes see only true degrees when no node is cut at the rim: K = 1 has no rim."""
    base = world.graph.base
    model = GCN(base.num_features, base.num_classes, 8, 0.0)
    single = model.init(torch_rng("init", 2))
    rows = np.arange(world.graph.num_nodes)
    released = seen(FedGCN(variant="release", hops=2), world, model).cut(Views(CPU), rows)
    ours = model(stack(single, 3), released).flatten(0, 1)[released.slots]
    assert not torch.allclose(ours, central(world, model, single)[1], atol=1e-5)
    alone = worlds.build("plain", base, "random", 1)
    rows = np.arange(alone.graph.num_nodes)
    whole = seen(FedGCN(variant="release", hops=2), alone, model).cut(Views(CPU), rows)
    ours = model(stack(single, 1), whole).flatten(0, 1)[whole.slots]
    torch.testing.assert_close(ours, central(alone, model, single)[1], atol=1e-5, rtol=1e-4)


def test_halo_sizes_are_the_published_ones(real_graph: Callable[..., Graph]) -> None:
    """Rings around three clients, the new client left out, before classes are removed.

    The published two-hop rings also count nodes that only a path through the new client's part reaches.
    """
    counted = {"cora": ([76, 61, 77], [504, 445, 524]), "citeseer": ([60, 51, 9], [273, 173, 54])}
    for name, (one, two) in counted.items():
        graph = real_graph(name)
        members = membership("published", graph, 4, 0)
        nodes = list(members.nodes[:3])
        known = ~indicator(list(members.nodes[3:]), graph.num_nodes)
        union = UnionGraph.induced(graph, nodes)
        assert Halo(union, 1).ring.tolist() == one
        start = indicator(nodes, graph.num_nodes)
        through_all = within(graph.adjacency, start, 2) & ~start & known
        assert through_all.sum(0).tolist() == two
        joint = within(graph.adjacency, start, 2, through=known) & ~start
        assert Halo(union, 2).ring.tolist() == joint.sum(0).tolist()


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("variant", ["paper", "release"])
def test_bytes_of_the_exchange(variant: str, hops: int, world: World) -> None:
    """Sixteen numbers a node: of sums, or of the raw features of as many rings as there are hops (release)."""
    fields = {"protocol.rounds": 1, "model.hidden": 8, "method.hops": hops, "method.variant": variant}
    config = configs.build(dataset="cora", method="fedgcn", overrides=fields)
    ledger = federate(config, world, CPU)[0].ledger.as_dict()
    joint = np.isin(np.arange(world.graph.base.num_nodes), world.graph.node)
    own, rings = world.graph.num_nodes, [0, 0]  # nodes of the first ring, and of both, of all clients
    for mine in np.split(world.graph.node, world.graph.ptr[1:-1]):
        reached = set(mine.tolist())
        for ring in range(2):
            reached |= {v for u in reached for v in world.graph.base.adjacency[[u]].indices.tolist() if joint[v]}
            rings[ring] += len(reached) - len(mine)
    first, wide = (round(4 * 16 * count / 3) for count in (own + rings[0], own + rings[0] * (hops == 2)))
    paper = {"up": {"features": first}, "down": {"features": wide}}
    assert rings[0] < rings[1]
    assert ledger["setup"] == (paper if variant == "paper" else {"down": {"features": round(64 * rings[hops - 1] / 3)}})


def test_more_hops_than_layers_are_refused() -> None:
    with pytest.raises(UserError, match=r"method\.hops=3 is unknown: choose 0, 1 or 2\."):
        FedGCN(hops=3)
