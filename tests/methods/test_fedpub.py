"""FED-PUB: masks, penalties, similarities and inputs; what a run of its paper is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.core.streams import torch_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import UnionGraph, World
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.rounds import prepare
from fgl_repro.methods.fedpub import FedPub
from fgl_repro.methods.fedpub.masked import MaskedModel
from fgl_repro.methods.fedpub.method import Upload
from fgl_repro.methods.fedpub.random_graph import SharedGraph, as_graphs, drawn
from fgl_repro.nn.adjacency import gcn_norm
from fgl_repro.nn.models.gcn import GCN
from fgl_repro.nn.models.gin import GIN
from fgl_repro.nn.view import Views
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import make_clients
from support.runs import config_of_graphs, make_config

CPU = torch.device("cpu")


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


@pytest.fixture
def closed(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


@pytest.fixture
def shared(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "overlap", 5)


def test_fedpub_thresholds_masks_in_evaluation_only() -> None:
    network = MaskedModel(GCN(3, 3, 3), threshold=0.1)
    params = {f"W{i}": torch.full((2, 3, 3), 2.0) for i in (1, 2, 3)} | {f"b{i}": torch.ones(2, 3) for i in (1, 2, 3)}
    params |= {f"M{i}": torch.tensor([0.05, -0.5, -0.05]).expand(2, 3, 3).clone() for i in (1, 2, 3)}
    trained, evaluated = network.weights(params, training=True), network.weights(params, training=False)
    assert set(trained) == {f"{kind}{i}" for kind in "Wb" for i in (1, 2, 3)}
    torch.testing.assert_close(trained["W2"][0, 0], torch.tensor([0.1, -1.0, -0.1]))
    torch.testing.assert_close(evaluated["W2"][0, 0], torch.tensor([0.0, -1.0, 0.0]))


def test_fedpub_penalties_are_inert_or_live(closed: World) -> None:
    """The release's loss is the cross-entropy; the paper's adds the mask norm, and the drift once weights came down."""
    losses = {}
    for variant in ("release", "paper"):
        config = make_config("fedpub", variant, **{"method.l1": 0.01, "method.l2": 0.1, "model.dropout": 0.0})
        clients = make_clients(closed, config)
        step = next(clients.steps(1))
        loss = config.method.objective(clients, config.method.state(clients), 1)
        with torch.no_grad():
            clients.params["W2"] += 0.1
        losses[variant] = loss(step).detach() - step.task_loss(clients.logits(step)).detach()
    masks = sum(value[0].numel() for name, value in clients.personal.items() if name.startswith("M"))
    assert torch.allclose(losses["release"], torch.zeros(3))
    expected = 0.01 * masks + 0.1 * 0.1**2 * clients.params["W2"][0].numel()
    torch.testing.assert_close(losses["paper"], torch.full((3,), expected), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("model", "masked"), [("gcn2", {"M1", "M2"}), ("gat", {"M1", "M2"}), ("sage", {"M1", "M2", "M3"})]
)
def test_weight_matrices_of_any_model_have_masks(model: str, masked: set[str], world: World) -> None:
    config = configs.build({"protocol.rounds": 2, "model.hidden": 8}, method="fedpub", model=model, clients=3)
    clients = make_clients(world, config)
    assert set(clients.personal) == masked
    for name in masked:
        assert clients.personal[name].shape == clients.params[f"W{name[1:]}"].shape
    training, _, _ = federate(config, world, CPU)
    assert all((training.last[name] != 1).any() for name in masked), "masks learn"


def test_fedpub_parameter_counts() -> None:
    """Weights and masks of the five graphs, as the fact sheet counts them."""
    sizes = {"cora": (1433, 7), "citeseer": (3703, 6), "pubmed": (500, 3), "photo": (745, 8), "computers": (767, 10)}
    printed = {"cora": 200_967, "citeseer": 491_398, "pubmed": 81_027, "photo": 113_032, "computers": 116_106}
    for name, (d, c) in sizes.items():
        single = FedPub().start(GCN(d, c), 0).weights
        assert sum(value.numel() for value in single.values()) == printed[name]


def test_the_bias_of_a_masked_classifier_is_drawn_as_a_matrix_of_one_row() -> None:
    """Xavier-uniform between -sqrt(6 / (1 + C)) and that; unmasked it has a bound of 1 / sqrt(H)."""
    drawn_ = torch.cat([FedPub().start(GCN(5, 7, 128), seed).weights["b3"] for seed in range(20)])
    assert drawn_.abs().max() <= math.sqrt(6 / 8)
    assert drawn_.abs().max() > 0.7 * math.sqrt(6 / 8)


@pytest.mark.parametrize("variant", FedPub.variants)
@pytest.mark.parametrize(
    ("field", "word"), [(field, word) for field, words in FedPub.choices.items() for word in words[1:]]
)
def test_every_similarity_and_input_runs_and_makes_another_model(
    field: str, word: str, variant: str, shared: World
) -> None:
    tau = {"method.tau": 5.0, "protocol.rounds": 3}
    plain = federate(make_config("fedpub", variant, **tau), shared, CPU)[0]
    other = federate(make_config("fedpub", variant, **tau, **{f"method.{field}": word}), shared, CPU)[0]
    assert np.isfinite(other.curves["loss"]).all()
    assert not torch.equal(plain.last["W1"], other.last["W1"])
    assert set(other.facts) == {"sparsity", "label_correlation"}


@pytest.mark.parametrize("word", FedPub.choices["similarity"])
def test_what_is_compared(word: str, world: World) -> None:
    config = make_config("fedpub", "release", **{"method.similarity": word})
    clients, method = make_clients(world, config), config.method
    assert isinstance(method, FedPub)
    state, _ = prepare(method, clients, Ledger())
    starts = []
    for number in range(2):
        method.receive(clients, state, method.publish(clients, state))
        starts.append(torch.cat([value.detach().flatten(1) for value in clients.params.values()], 1))
        method.fit(clients, state, number, 1)
    with torch.no_grad():
        upload = method.upload(clients, state)
        found = method.compared(state, upload)
    assert isinstance(upload, Upload)
    assert ("embedding" in upload.bytes_by_field()) == (word in ("function", "label"))
    whole = torch.cat([value.detach().flatten(1) for value in clients.params.values()], 1)
    expected = {
        "parameter": whole,
        "gradient": whole - starts[1],
        "updates": whole - starts[0],
        "label": clients.class_counts / clients.class_counts.sum(1, keepdim=True),
    }
    if word in expected:
        torch.testing.assert_close(found, expected[word])
    else:
        assert found.shape == (3, 8)


def test_own_features_as_input_are_the_mean_embedding_of_the_own_graph(world: World) -> None:
    config, ledger = make_config("fedpub", "release", **{"method.random_graph": "feature"}), Ledger()
    clients, method, rows = make_clients(world, config), config.method, np.arange(world.graph.num_nodes)
    assert isinstance(method, FedPub)
    state, _ = prepare(method, clients, ledger)
    assert set(ledger.as_dict()) == {"rounds"}, "nothing is sent before"
    method.fit(clients, state, 0, 3)  # else padding, whose biases are 0, would add nothing
    with torch.no_grad():
        found = method.embedding(clients, state)
        view = clients.model.view(clients.views, world.graph, rows)
        every = clients.model.embed(clients.trained, view).flatten(0, 1)[view.slots]
    assert found is not None
    for k in range(3):
        torch.testing.assert_close(found[k], every[torch.from_numpy(world.graph.owner == k)].mean(0))


def test_of_whole_graphs_the_mean_embedding_of_the_blocks_is_compared() -> None:
    """Against a network that is asked about each block alone; masks are the matrices', and only they."""
    config = config_of_graphs("fedpub", "release")
    clients = make_clients(worlds.of_graphs(worlds.graph_set()), config)
    assert set(clients.personal) == {"M1", "M5", "M6"} | {f"{kind}M{i}" for kind in ("", "inner_") for i in (2, 3, 4)}
    method, network = config.method, clients.model
    assert isinstance(method, FedPub)
    assert isinstance(network, MaskedModel)
    state, _ = prepare(method, clients, Ledger())
    method.fit(clients, state, 0, 2)
    found = method.upload(clients, state).embedding
    assert found is not None
    used = network.weights(clients.trained, training=False)
    blocks = as_graphs(drawn(5, clients.seed))
    assert blocks.sizes["graphs"] == 5
    assert np.all(blocks.links.nonzero()[0] // 100 == blocks.links.nonzero()[1] // 100)
    apart = UnionGraph.induced(blocks, [np.arange(5)] * 3)
    alone = GIN(5, 3, hidden=6, together=4)  # as many graphs share statistics as in the run
    expected = alone.embed(used, alone.view(Views(CPU), apart, np.arange(15)))
    torch.testing.assert_close(found, torch.stack([expected[:, i] for i in range(5)]).mean(0))


def test_embeddings_are_of_the_masked_weights_without_what_is_cut(world: World) -> None:
    """e_k: mean over the random graph of the second convolution with W * mu, 0 where |mu| < l1, by dense matrices."""
    config = make_config("fedpub", "release", **{"method.l1": 0.1, "model.dropout": 0.0})
    clients, method = make_clients(world, config), config.method
    assert isinstance(method, FedPub)
    state, _ = prepare(method, clients, Ledger())
    with torch.no_grad():
        for name, mask in clients.personal.items():
            mask.copy_(torch.rand(mask.shape, generator=torch_rng(name, 0)) * 0.4 - 0.2)  # half of it is cut
        found = method.upload(clients, state).embedding
    assert found is not None
    graph = drawn(clients.model.num_features, clients.seed)
    around, x = torch.from_numpy(gcn_norm(graph.adjacency).toarray()), torch.from_numpy(graph.features.toarray())
    for k in range(3):
        h = x
        for layer in (1, 2):
            mask = clients.personal[f"M{layer}"][k].detach()
            weight = clients.params[f"W{layer}"][k].detach() * mask * (mask.abs() >= 0.1)
            h = around @ h @ weight + clients.params[f"b{layer}"][k].detach()
            h = torch.relu(h) if layer == 1 else h
        torch.testing.assert_close(found[k], h.mean(0), atol=1e-5, rtol=1e-4)


def test_a_client_gets_the_mean_that_its_own_similarities_weigh(world: World) -> None:
    """alpha_ij = softmax over j of tau cos(e_i, e_j), row i for client i; masks that travel change nothing at home."""
    config = make_config("fedpub", "release", **{"method.tau": 2.0})
    clients, method = make_clients(world, config), config.method
    assert isinstance(method, FedPub)
    state, _ = prepare(method, clients, Ledger())
    method.fit(clients, state, 0, 3)
    with torch.no_grad():
        sent = method.upload(clients, state)
        sent.embedding = torch.tensor([[1.0, 0.0], [1.0, 1.0], [-1.0, 0.2]])  # client 1 is near 0, client 2 near none
        before, held = ({n: v.clone() for n, v in part.items()} for part in (clients.params, clients.personal))
        method.receive(clients, state, method.aggregate(clients, state, sent))
    for i, own in enumerate(sent.embedding):
        near = [math.exp(2 * float(torch.cosine_similarity(own, other, dim=0))) for other in sent.embedding]
        for name, value in before.items():
            expected = sum(w * theta for w, theta in zip(near, value, strict=True)) / sum(near)
            torch.testing.assert_close(clients.params[name][i].detach(), expected)
    for name, value in held.items():
        assert torch.equal(clients.personal[name], value)
        assert not torch.equal(value[0], value[1])


def test_input_graphs() -> None:
    sent = {kind: SharedGraph.of(drawn(4, 0, kind), 2, CPU) for kind in ("sbm", "er", "one")}
    assert {kind: graph.features.shape[1] for kind, graph in sent.items()} == {"sbm": 500, "er": 500, "one": 1}
    blocks = sent["sbm"].edges[0] // 100
    assert torch.equal(blocks[0], blocks[1])
    assert (sent["sbm"].edges[0, 0] != sent["sbm"].edges[0, 1]).all()
    assert sent["sbm"].edges.shape[2] == pytest.approx(2 * 2475, rel=0.05), "five times 4950 pairs at 0.1, both ways"
    edges = [graph.edges.shape[2] for graph in sent.values()]
    assert edges[1] == pytest.approx(edges[0], rel=0.1)
    assert edges[2] == 0
    assert not torch.equal(*(sent["er"].edges[0] // 100))


def test_without_masks_uniform_similarity_is_fedavg(world: World) -> None:
    """tau = 0 weighs all clients alike."""
    for variant in FedPub.variants:
        plain_fields = {"method.masks": False, "method.tau": 0.0, "method.l2": 0.0}
        mine = federate(make_config("fedpub", variant, **plain_fields), world, CPU)[0]
        plain = federate(make_config("fedavg", "release"), world, CPU)[0]
        assert mine.last.keys() == plain.last.keys()
        for name, value in plain.last.items():
            torch.testing.assert_close(mine.last[name], value, atol=1e-5, rtol=1e-4)
        assert set(mine.ledger.as_dict()["rounds"]["up"]) == {"weights", "embedding"}


def test_masks_cut_are_counted(world: World) -> None:
    config = make_config("fedpub", "release", **{"method.l1": 0.5})
    clients, method = make_clients(world, config), config.method
    state, _ = prepare(method, clients, Ledger())
    with torch.no_grad():
        clients.personal["M3"].zero_()
    total = sum(value[0].numel() for value in clients.personal.values())
    share = clients.personal["M3"][0].numel() / total
    assert method.trace(clients, state) == {"sparsity": pytest.approx(share)}
    with torch.no_grad():
        clients.personal["M3"].fill_(1)
    assert method.trace(clients, state) == {"sparsity": 0}
    assert method.facts(clients, state)["sparsity"] == pytest.approx(share / 2), "mean over rounds"


def test_records_from_before_the_words_stay_valid() -> None:
    plain = configs.science(configs.build(dataset="cora", method="fedpub"))["method"]
    assert not {"similarity", "random_graph", "masks"} & set(plain)
    assert plain["tau"] == 3.0
    shared = configs.build(dataset="cora", method="fedpub", partitioner="overlap", clients=10, setting="plain")
    assert shared.method.tau == 5.0


def test_the_protocol_on_every_graph() -> None:
    said = {
        name: configs.build(dataset=name, protocol="fedpub", setting="plain").protocol
        for name in ("cora", "photo", "computers")
    }
    assert {name: (p.rounds, p.local_epochs) for name, p in said.items()} == {
        "cora": (100, 1),
        "photo": (200, 2),
        "computers": (200, 3),
    }
    assert said["cora"].split == [0.2, 0.4, 0.4]
    assert said["cora"].average == "clients"


def test_a_shared_node_has_one_role_everywhere(shared: World) -> None:
    """Roles are drawn before the partition, so no client tests on what another trains on."""
    nodes = shared.graph.node
    train, validation, test = (
        set(nodes[rows]) for rows in (shared.train, shared.validation.rows, shared.probes[0].rows)
    )
    assert not train & test
    assert not train & validation
    assert not test & validation
    assert len(nodes) > len(set(nodes)), "clients do share nodes"


def test_the_random_graph_comes_down_once_with_edges_of_two_numbers(world: World) -> None:
    config, ledger = make_config("fedpub", "release"), Ledger()
    clients, width = make_clients(world, config), world.graph.base.num_features
    prepare(config.method, clients, ledger)
    graph = drawn(width, clients.seed)
    sent = {"features": 4 * graph.num_nodes * width, "edges": 2 * 8 * 2 * graph.num_edges}
    assert ledger.as_dict()["setup"]["down"] == sent
