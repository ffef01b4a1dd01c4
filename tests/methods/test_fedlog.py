"""FedLoG: its network against plain loops and PyG, its counts against the published ones, its variants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.mixing import class_shares
from fgl_repro.fl.rounds import prepare
from fgl_repro.methods.fedlog.method import BRANCHES, FedLoG, Knowledge
from fgl_repro.methods.fedlog.prototypes import PrototypeNet
from fgl_repro.methods.fedlog.training import LocalTraining
from fgl_repro.nn.view import Views
from fgl_repro.runs.execute import execute, federate
from support import worlds

CPU = torch.device("cpu")
K, C, S, D = 2, 3, 2, 5


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


def make_training(world: World, **fields: object) -> LocalTraining:
    """Clients before round 0, without a warm-up unless asked for."""
    fields = {"warmup": 0} | fields
    dotted = {f"method.{name}": value for name, value in {**FedLoG.quick, **fields}.items()}
    config = configs.build({"model.hidden": 8, **dotted}, dataset="cora", method="fedlog", clients=3)
    model = config.model.build(world.graph.base.num_features, world.graph.base.num_classes)
    clients = Clients(config.method, model, world, config.protocol, 0, Views(CPU))
    assert isinstance(config.method, FedLoG)
    state, _ = prepare(config.method, clients, Ledger())
    return LocalTraining(config.method, clients, state)


# --- published facts --------------------------------------------------------------------------------------------------

SIZES = {"cora": (1433, 7), "citeseer": (3703, 6), "pubmed": (500, 3), "photo": (745, 8), "computers": (767, 10)}


def test_parameter_counts() -> None:
    """The released modules of the five graphs; 1,081,926 is the paper's number, which it gives for Cora."""
    printed = {"cora": 500_871, "citeseer": 1_081_926, "pubmed": 261_763, "photo": 324_808, "computers": 330_570}
    nodes = {"cora": 200_620, "citeseer": 444_360, "pubmed": 30_000, "photo": 119_200, "computers": 153_400}
    for name, (d, c) in SIZES.items():
        net = PrototypeNet(d, c)
        rng = torch.Generator().manual_seed(0)
        assert sum(value.numel() for value in net.init(rng).values()) == printed[name]
        assert net.nodes(rng)["X_head"].numel() == nodes[name]


def test_bytes_of_a_round_on_citeseer(real_graph: Callable[..., Graph]) -> None:
    """6.105 MB up and as much down: 1,081,926 weights and 444,360 numbers of synthetic data."""
    real_graph("citeseer")
    config = configs.build(
        {"protocol.rounds": 1, "method.warmup": 0}, dataset="citeseer", method="fedlog", clients=3, protocol="fedlog"
    )
    sent = execute(config).record.bytes
    assert sent["rounds"]["up"] == sent["rounds"]["down"] == {"weights": 4 * 1_081_926, "synthetic": 4 * 444_360}
    assert sent["setup"] == {"up": {"generators": 4 * 2_979_447, "rates": 4 * 6}}


def test_gamma_of_a_class_that_is_always_recognised(real_graph: Callable[..., Graph]) -> None:
    """Table 8 has 0.297 = 99 rounds of floor(n_k / 64) = 3 batches of +0.001; eleven rounds of them are 0.033."""
    real_graph("citeseer")
    small = {
        "protocol.rounds": 12,
        "method.slots": 1,
        "method.warmup": 0,
        "method.scale_above": -1.0,
        "model.hidden": 2,
    }
    config = configs.build(small, dataset="citeseer", method="fedlog", clients=3, protocol="fedlog")
    record = execute(config).record
    for nodes, gamma in zip(record.world["train_nodes"], record.fact("gamma"), strict=True):
        assert gamma == pytest.approx([11 * (nodes // 64) * 0.001] * 6, abs=1e-5)
    assert [nodes // 64 for nodes in record.world["train_nodes"]][1] == 3


# --- a round ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitioner", ["metis", "random"])
def test_server_weighs_each_class_by_who_has_it(partitioner: str, toy_graph: Graph) -> None:
    """Equation 4 without shuffling; a class nobody has is averaged plainly; weights are averaged plainly."""
    world = worlds.build("closed_set", toy_graph, partitioner, 3, hops=2)
    training = make_training(world, variant="paper")
    method, clients = training.method, training.clients
    upload = Knowledge(
        {name: torch.randn_like(value) for name, value in clients.params.items()},
        torch.randn_like(clients.personal["X_head"]),
    )
    down = method.aggregate(clients, training.state, upload)
    assert isinstance(down, Knowledge)
    graph = world.graph
    counts = np.stack([np.bincount(graph.labels[graph.owner == k], minlength=4) for k in range(3)])
    r = counts / counts.sum(1, keepdims=True)
    if partitioner == "random":
        assert (counts > 0).sum(0).max() > 1, "classes have several holders"
        assert len(set(clients.samples.tolist())) > 1, "and clients are unlike"
    for c in range(4):
        w = r[:, c] / r[:, c].sum() if r[:, c].sum() else np.full(3, 1 / 3)
        for i in range(2):
            expected = sum(w[k] * upload.synthetic[k, c * 2 + i].numpy() for k in range(3))
            assert np.allclose(down.synthetic[1, c * 2 + i].numpy(), expected, atol=1e-5)
    torch.testing.assert_close(down.weights["W1"][0], upload.weights["W1"].mean(0))
    torch.testing.assert_close(
        class_shares(torch.tensor([[0.0, 1.0], [0.0, 3.0]])), torch.tensor([[0.5, 0.25], [0.5, 0.75]])
    )


def test_the_release_shuffles_slots_within_classes(world: World) -> None:
    training = make_training(world, slots=8)
    method, clients = training.method, training.clients
    one = torch.zeros_like(clients.personal["X_head"])
    one[0] = torch.arange(one.shape[1]).unsqueeze(1).expand_as(one[0]) + 1.0
    training.state.shares = torch.zeros_like(training.state.shares)
    training.state.shares[0] = 1.0
    down = method.aggregate(clients, training.state, Knowledge(clients.params, one))
    assert isinstance(down, Knowledge)
    got = down.synthetic[0, :, 0].view(4, 8)
    assert torch.equal(got.sort(1).values, one[0, :, 0].view(4, 8))
    assert not torch.equal(got, one[0, :, 0].view(4, 8))


def test_scaling_moves_features_to_the_mean(world: World) -> None:
    """Equation 5 with each client's own gamma."""
    training = make_training(world)
    training.state.gamma = torch.rand_like(training.state.gamma)
    x, prompt = training.prompted()
    given = training.state.synthetic
    for k in range(3):
        for i in range(given.shape[1]):
            expected = given[k, i] + training.state.gamma[k, i // 2] * (given[k].mean(0) - given[k, i])
            torch.testing.assert_close(x[k, i], expected, atol=1e-6, rtol=1e-5)
    assert prompt.abs().max() < 1
    assert not x.requires_grad
    assert not prompt.requires_grad


@pytest.mark.parametrize("variant", FedLoG.variants)
def test_gamma_moves_as_the_variant_says(world: World, variant: str) -> None:
    training = make_training(world, variant=variant)
    training.state.gamma.fill_(0.5)
    known = torch.zeros(3, 8, dtype=torch.bool)
    known[:, :2] = True
    active = np.array([True, False, True])
    training.rescale(known, active)
    down = 0.5 if variant == "paper" else 0.499
    torch.testing.assert_close(training.state.gamma[0], torch.tensor([0.501, down, down, down]))
    torch.testing.assert_close(training.state.gamma[1], torch.full((4,), 0.5))
    training.state.gamma.zero_()
    training.rescale(known, None)
    assert training.state.gamma.min() == 0


def test_local_loss_by_hand(world: World) -> None:
    """Mixture of log-probabilities and half Frobenius norms (release), log of the mixture and node norms (paper)."""
    for variant in FedLoG.variants:
        training = make_training(world, variant=variant, beta=0.1)
        clients = training.clients
        training.state.dropout = None
        net = clients.model
        assert isinstance(net, PrototypeNet)
        view = net.view(clients.views, world.graph, world.train)
        nodes = training.learnable(None)
        loss = training.local_loss(view, nodes)
        query, around = net.around(clients.params, view)
        head, tail = net.branches(clients.params, query, around, nodes)
        for k in range(3):
            on, y = view.mask[k].bool(), view.labels[k][view.mask[k].bool()]
            alpha = torch.sigmoid(view.degree[k][on] - 4)
            log_h, log_t = (b[k][on][torch.arange(len(y)), y] for b in (head, tail))
            xs = [clients.personal[f"X_{b}"][k] for b in BRANCHES]
            if variant == "release":
                expected = -(alpha * log_h + (1 - alpha) * log_t).mean() + 0.1 * sum(0.5 * x.norm() for x in xs)
            else:
                expected = -(alpha * log_h.exp() + (1 - alpha) * log_t.exp()).log().mean()
                expected = expected + 0.1 * sum(x.norm(dim=1).sum() for x in xs)
            assert loss[k].item() == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("variant", FedLoG.variants)
def test_global_nodes_are_recognised_by_both_branches_together(world: World, variant: str) -> None:
    """Client by client and node by node; neither all nor none are recognised."""
    training = make_training(world, variant=variant)
    net, clients = training.net, training.clients
    x, prompt = training.prompted()
    nodes = training.learnable(None)
    part = torch.tensor([7, 0, 3, 4, 1])
    loss, known = training.global_loss((x, prompt), nodes, None, part)
    query, around = net.pair(clients.params, x[:, part], prompt[:, part])
    head, tail = net.branches(clients.params, query, around, nodes)
    for k in range(3):
        log_p = []
        for i, node in enumerate(part.tolist()):
            own = node // training.method.slots
            both = (head + tail)[k, i] / 2
            assert bool(known[k, i]) == (int(both.argmax()) == own)
            joint = (head[k, i, own].exp() + tail[k, i, own].exp()).log() - np.log(2)
            log_p.append(joint if variant == "paper" else both[own])
        assert loss[k].item() == pytest.approx(-torch.stack(log_p).mean().item(), rel=1e-4)
    assert known.any()
    assert not known.all()


def test_resting_clients_do_not_move(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client with fewer batches sits the others' last steps out: weights, learnable nodes and gamma."""
    training = make_training(replace(world, train=world.train[:-6]), batch=3, warmup=0)
    method, clients = training.method, training.clients
    steps = training.state.batches.steps
    few = int(steps.argmin())
    assert steps.min() < steps.max()
    seen: list[torch.Tensor] = []
    original = LocalTraining.local_loss

    def watched(*args: object) -> torch.Tensor:
        seen.append(clients.personal["X_head"][few].detach().clone())
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalTraining, "local_loss", watched)
    method.fit(clients, training.state, 1, 1)
    seen.append(clients.personal["X_head"][few].detach().clone())
    changed = [not torch.equal(a, b) for a, b in pairwise(seen)]
    assert changed == [True] * steps.min() + [False] * (steps.max() - steps.min())


def test_ablations_change_what_they_name(world: World) -> None:
    base = configs.build({"model.hidden": 8, "protocol.rounds": 3}, dataset="cora", method="fedlog", clients=3)
    base = configs.override(base, {"method.scale_above": -1.0})
    base = configs.override(base, {f"method.{name}": value for name, value in FedLoG.quick.items()})
    curves = {}
    for name, change in {
        "full": {},
        "half": {"method.alpha": "half"},
        "local": {"method.generalize": False},
        "unscaled": {"method.scale_step": 0.0},
        "tail": {"method.share": "tail"},
        "inverse": {"method.weighting": "inverse"},
        "permuted": {"method.permute": True},
    }.items():
        training, _, _ = federate(configs.override(base, change), world, CPU)
        curves[name] = (training.curves["loss"], training.facts["gamma"])
    for name, (loss, gamma) in curves.items():
        assert name == "full" or loss != curves["full"][0], name
        assert (np.max(gamma) == 0) == (name in ("local", "unscaled")), name


def test_noise_keeps_shares_in_range(world: World) -> None:
    """Table 3: Gaussian with a standard deviation of a times the share; a share does not turn negative."""
    clean, noisy = (make_training(world, noise=a).method for a in (0.0, 5.0))
    clients = make_training(world).clients
    r, disturbed = clean.reported(clients), noisy.reported(clients)
    assert torch.equal(r, clients.prior)
    assert disturbed.min() == 0
    assert (disturbed[r == 0] == 0).all()
    assert not torch.equal(r, disturbed)


def test_refusals_name_the_fix() -> None:
    for fields, said in (
        ({"alpha": "none"}, "choose degree or half"),
        ({"slots": 0}, "give at least 1"),
        ({"beta": -1.0}, "give at least 0"),
    ):
        with pytest.raises(UserError, match=said):
            FedLoG(**fields)
    with pytest.raises(UserError, match="choose model=sage"):
        configs.build(dataset="cora", method="fedlog", model="gcn")
