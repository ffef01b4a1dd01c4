"""Every method: it runs, is deterministic, isolates its clients, counts its bytes, and computes the loss it claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fgl_repro import config as configs
from fgl_repro.core import registry
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.messages import Ledger, Message
from fgl_repro.fl.method import Method
from fgl_repro.methods.feded import FedED, restricted_divergence
from fgl_repro.methods.fedntd import FedNTD
from fgl_repro.methods.fedpub import FedPub
from fgl_repro.nn import GCN
from fgl_repro.runs.execute import execute, federate
from support import worlds
from support.isolation import first_upload, make_clients, tampered

CPU = torch.device("cpu")


def every_variant() -> Iterator[tuple[str, str]]:
    for name, cls in sorted(registry.options("method").items()):
        for variant in cls.variants:
            yield name, variant


VARIANTS = [pytest.param(*pair, id="-".join(pair)) for pair in every_variant()]


def make_config(name: str, variant: str, **overrides: object) -> configs.Config:
    dotted = {"method.variant": variant, "protocol.rounds": 2, "protocol.lr": 0.01, "model.hidden": 8}
    dotted |= {f"method.{field}": value for field, value in registry.options("method")[name].quick.items()}
    return configs.build(dataset="cora", method=name, clients=3, overrides={**dotted, **overrides})


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_two_rounds_on_a_toy_graph(name: str, variant: str, world: World) -> None:
    training, metrics, _ = federate(make_config(name, variant), world, CPU)
    assert training.last_round == 1
    assert set(metrics) == {"validation", "seen_graph", "unseen_node", "missing_class", "new_client"}
    assert all(np.isfinite(training.curves["loss"]))
    assert metrics["validation"]["best"]["accuracy"] == pytest.approx(max(training.curves["validation"]))
    for probe in world.probes:
        assert sum(metrics[probe.name]["last"]["counts"]) == len(probe.rows)


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_open_set_and_plain_worlds(name: str, variant: str, toy_graph: Graph) -> None:
    for kind, own in (("open_set", {"hops": 1, "crop": 0.2}), ("plain", {})):
        world = worlds.build(kind, toy_graph, "random", 3, **own)
        _, metrics, _ = federate(make_config(name, variant), world, CPU)
        assert metrics["seen_graph"]["last"]["accuracy"] is not None


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_clients_that_share_nodes(name: str, variant: str, toy_graph: Graph) -> None:
    world = worlds.build("plain", toy_graph, "overlap", 5)
    training, metrics, _ = federate(make_config(name, variant), world, CPU)
    assert all(np.isfinite(training.curves["loss"]))
    assert metrics["seen_graph"]["last"]["counts"] == np.bincount(world.graph.owner[world.probes[0].rows]).tolist()


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_same_seed_same_numbers(name: str, variant: str, world: World) -> None:
    config = make_config(name, variant)
    first, second = (federate(config, world, CPU) for _ in range(2))
    assert first[1] == second[1]
    assert first[0].curves == second[0].curves
    other = federate(configs.override(config, {"seed": 1}), world, CPU)
    assert other[0].curves["loss"] != first[0].curves["loss"]


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_a_clients_upload_depends_on_its_own_data_only(name: str, variant: str, world: World) -> None:
    """Client 0's features and labels change: the uploads of clients 1 and 2 do not, bit for bit, and client 0's do.

    Methods that share features before training by design are held to labels.
    """
    config = make_config(name, variant)
    strange = tampered(world, client=0, features=not config.method.shares_features)
    before, after = (first_upload(w, config) for w in (world, strange))
    assert before
    for field, tensor in before.items():
        assert torch.equal(tensor[1:], after[field][1:]), f"{field} of an untouched client changed"
    changed = [field for field in before if not torch.equal(before[field][0], after[field][0])]
    assert changed, "the tampering had no effect: the test proves nothing"


def test_fedpub_and_fedavg_bytes_on_citeseer(real_graph: Callable[..., Graph]) -> None:
    """FedLoG's Table 5: 786.03 and 393.11 MB for 100 rounds, one client, both ways; counted, not computed.

    The second is 393.1184 MB: the paper cuts it off where it rounds the first.
    """
    real_graph("citeseer")
    for name, printed in (("fedavg", 393.11), ("fedpub", 786.03), ("fedntd", 393.11), ("feded", 393.11)):
        config = configs.build(dataset="citeseer", method=name, clients=3, overrides={"protocol.rounds": 1})
        rounds = execute(config).record.bytes["rounds"]
        model = sum(rounds[way].get(part, 0) for way in ("up", "down") for part in ("weights", "masks"))
        assert abs(100 * model / 1e6 - printed) < 0.01
        assert rounds["up"].get("embedding", 512) == 512


def test_bytes_add_up(world: World) -> None:
    """What the ledger says of a run equals rounds times the parameters that travel."""
    config = make_config("fedavg", "paper", **{"protocol.rounds": 3})
    training, _, _ = federate(config, world, CPU)
    single = sum(value[0].numel() for value in training.last.values())
    assert training.ledger.as_dict() == {"rounds": {"up": {"weights": 12 * single}, "down": {"weights": 12 * single}}}
    local, _, _ = federate(make_config("local", "paper"), world, CPU)
    assert local.ledger.as_dict() == {}


def test_ledger_ignores_silence() -> None:
    ledger = Ledger()
    ledger.add("rounds", "up", None)
    ledger.add("rounds", "up", Message())
    assert ledger.as_dict() == {}


def test_not_true_distillation_by_hand(world: World) -> None:
    config = make_config("fedntd", "paper", **{"method.tau": 2.0})
    method, clients = config.method, make_clients(world, config)
    assert isinstance(method, FedNTD)
    student, teacher = torch.randn(2, *clients.train.labels.shape, 4)
    ours = method.not_true(student, teacher, clients)
    k, i = 1, 2
    true = int(clients.train.labels[k, i])
    others = [c for c in range(4) if c != true]
    q_f, q_g = (torch.softmax(logits[k, i, others] / 2, 0) for logits in (student, teacher))
    expected = 4 * (q_g * (q_g / q_f).log()).sum()
    assert ours[k, i].item() == pytest.approx(expected.item(), abs=1e-5)


def test_feded_distils_vacant_classes_only(world: World) -> None:
    config = make_config("feded", "fedlog", **{"method.lam": 0.5})
    clients = make_clients(world, config)
    method = config.method
    assert isinstance(method, FedED)
    student, teacher = torch.randn(2, *clients.train.labels.shape, 4)
    loss = method.loss(clients, student, teacher, 1)
    for k in range(3):
        rows = clients.train.mask[k].bool()
        vacant = [c for c in range(4) if clients.class_counts[k, c] == 0]
        assert vacant, "every client of this world misses a class"
        ce = F.cross_entropy(student[k][rows], clients.train.labels[k][rows])
        gap = ((student - teacher)[k][rows][:, vacant] ** 2).mean()
        assert loss[k].item() == pytest.approx((ce + 0.5 * gap).item(), abs=1e-5)


def test_feded_as_its_authors_wrote_it(world: World) -> None:
    config = make_config("feded", "fedvls", **{"method.lam": 0.7, "method.suppression": 0.3})
    clients = make_clients(world, config)
    student, teacher = torch.randn(2, *clients.train.labels.shape, 4)
    loss = config.method.loss(clients, student, teacher, 1)
    for k in range(3):
        rows = clients.train.mask[k].bool()
        f, g, y = student[k][rows], teacher[k][rows], clients.train.labels[k][rows]
        p = clients.prior[k]
        vacant = [c for c in range(4) if p[c] == 0]
        calibrated = F.cross_entropy(f + (p + 1e-9).log(), y)
        distilled = torch.tensor(0.0)
        if vacant:
            log_f, log_g = (torch.log_softmax(z[:, vacant], 1) for z in (f, g))
            distilled = (log_g.exp() * (log_g - log_f)).sum(1).mean()
        u = (f - (p + 1e-9).log() + np.log(1 / 4 + 1e-9)) * (F.one_hot(y, 4) == 0)
        suppressed = (p * (torch.logsumexp(u, 0) - np.log(len(y)))).sum()
        expected = calibrated + 0.7 * distilled + 0.3 * suppressed
        assert loss[k].item() == pytest.approx(expected.item(), abs=1e-4)


def test_restricted_divergence_is_zero_for_one_or_no_vacant_class() -> None:
    student, teacher = torch.randn(2, 2, 5, 4)
    vacant = torch.tensor([[[False, True, False, False]], [[False, False, False, False]]])
    assert torch.allclose(restricted_divergence(student, teacher, vacant), torch.zeros(2, 5))


def test_fedpub_thresholds_masks_in_evaluation_only() -> None:
    method = FedPub(l1=0.1)
    params = {f"W{i}": torch.full((2, 3, 3), 2.0) for i in (1, 2, 3)} | {f"b{i}": torch.ones(2, 3) for i in (1, 2, 3)}
    params |= {f"M{i}": torch.tensor([0.05, 0.5, -0.05]).expand(2, 3, 3).clone() for i in (1, 2, 3)}
    trained, evaluated = method.weights(params, training=True), method.weights(params, training=False)
    assert set(trained) == {f"{kind}{i}" for kind in "Wb" for i in (1, 2, 3)}
    torch.testing.assert_close(trained["W2"][0, 0], torch.tensor([0.1, 1.0, -0.1]))
    torch.testing.assert_close(evaluated["W2"][0, 0], torch.tensor([0.0, 1.0, 0.0]))


def test_fedpub_penalties_are_inert_or_live(world: World) -> None:
    """The release's loss is the cross-entropy; the paper's adds the mask norm, and the drift once weights came down."""
    losses = {}
    for variant in ("release", "paper"):
        config = make_config("fedpub", variant, **{"method.l1": 0.01, "method.l2": 0.1})
        clients = make_clients(world, config)
        memory = config.method.remember(clients, 1)
        logits = clients.logits().detach()
        with torch.no_grad():
            clients.params["W2"] += 0.1
        losses[variant] = config.method.loss(clients, logits, memory, 1).detach() - clients.cross_entropy(logits)
    masks = sum(value[0].numel() for name, value in clients.personal.items() if name.startswith("M"))
    assert torch.allclose(losses["release"], torch.zeros(3))
    expected = 0.01 * masks + 0.1 * 0.1**2 * clients.params["W2"][0].numel()
    torch.testing.assert_close(losses["paper"], torch.full((3,), expected), atol=1e-4, rtol=1e-4)


def test_fedpub_parameter_counts() -> None:
    """Weights and masks of the five graphs, as the fact sheet counts them."""
    sizes = {"cora": (1433, 7), "citeseer": (3703, 6), "pubmed": (500, 3), "photo": (745, 8), "computers": (767, 10)}
    printed = {"cora": 200_967, "citeseer": 491_398, "pubmed": 81_027, "photo": 113_032, "computers": 116_106}
    for name, (d, c) in sizes.items():
        single = FedPub().initial(GCN(d, c), torch.Generator().manual_seed(0))
        assert sum(value.numel() for value in single.values()) == printed[name]


def test_local_never_hears_of_others(world: World) -> None:
    """Training one client among three equals training it among strangers with other data, to the last bit."""
    config = make_config("local", "paper", **{"protocol.rounds": 4})
    plain, _, _ = federate(config, world, CPU)
    strange, _, _ = federate(config, tampered(world, client=2), CPU)
    for name, value in plain.last.items():
        assert torch.equal(value[:2], strange.last[name][:2])


def test_base_method_refuses_unknown_variants() -> None:
    with pytest.raises(Exception, match="choose release or paper"):
        configs.override(make_config("fedavg", "paper"), {"method.variant": "draft"})
    assert issubclass(FedPub, Method)
