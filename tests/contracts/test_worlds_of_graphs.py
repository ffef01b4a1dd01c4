"""Every method that can learn of whole graphs does so: it runs, hears of nobody else, and repeats itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.core.errors import UserError
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import first_uploads, tampered_graphs, with_fewer
from support.runs import OF_GRAPHS, config_of_graphs

CPU = torch.device("cpu")
SHARES = [0.6, 0.2, 0.2]
KINDS = ({}, {"molecules": True}, {"molecules": True, "numbers": True})


@pytest.mark.parametrize("kind", KINDS, ids=("classes", "molecules", "numbers"))
@pytest.mark.parametrize(("name", "variant"), OF_GRAPHS)
def test_two_rounds(name: str, variant: str, kind: dict[str, bool]) -> None:
    world = worlds.of_graphs(worlds.graph_set(**kind))
    training, metrics, _ = federate(config_of_graphs(name, variant), world, CPU)
    assert np.isfinite(training.curves["loss"]).all()
    own = np.array(training.curves["validation"])
    best = own.min() if "numbers" in kind else own.max()
    assert metrics["validation"]["best"].accuracy == pytest.approx(best, rel=1e-5)
    assert metrics["seen_graph"]["best"].clients == metrics["validation"]["best"].clients  # chosen by test rows
    assert metrics["seen_graph"]["last"].metric == ("mae" if "numbers" in kind else None)


@pytest.mark.parametrize(("name", "variant"), OF_GRAPHS)
def test_a_clients_upload_depends_on_its_own_graphs_only(name: str, variant: str) -> None:
    """Bit for bit, with statistics of batches and dropout in play."""
    world, config = worlds.of_graphs(worlds.graph_set()), config_of_graphs(name, variant)
    before, after = (first_uploads(w, config) for w in (world, tampered_graphs(world, 0)))
    for field, tensor in before.items():
        assert torch.equal(tensor[1:], after[field][1:]), f"{field} of an untouched client changed"
    assert [field for field in before if not torch.equal(before[field][0], after[field][0])]


@pytest.mark.parametrize(("name", "variant"), OF_GRAPHS)
def test_a_clients_upload_does_not_depend_on_how_many_graphs_another_one_has(name: str, variant: str) -> None:
    """But for rounding, which FedVN magnifies (in double precision nothing is left), and for the places of dropout."""
    world, config = worlds.of_graphs(worlds.graph_set()), config_of_graphs(name, variant, **{"model.dropout": 0})
    before, after = (first_uploads(w, config) for w in (world, with_fewer(world, 0)))
    bound = {"fedvn": 5e-2, "gcflplus": 1e-3}.get(name, 1e-4)
    for field, tensor in before.items():
        torch.testing.assert_close(tensor[1:], after[field][1:], rtol=bound, atol=bound, msg=field)
    assert max(float((before[field][0] - after[field][0]).abs().max()) for field in before) > 4 * bound


@pytest.mark.parametrize(("name", "variant"), OF_GRAPHS)
def test_same_seed_same_numbers(name: str, variant: str) -> None:
    world, config = worlds.of_graphs(worlds.graph_set()), config_of_graphs(name, variant)
    first, second = (federate(config, world, CPU) for _ in range(2))
    assert first[1] == second[1]
    assert first[0].curves == second[0].curves
    other = federate(configs.override(config, {"seed": 1}), world, CPU)
    assert other[0].curves["loss"] != first[0].curves["loss"]


def test_a_probe_finds_what_it_finds_alone() -> None:
    """Validation and test graphs are not normalised together: a record has the accuracy that chose its round."""
    world = worlds.of_graphs(worlds.graph_set())
    shares = {"protocol.selected_by": "validation", "protocol.split": SHARES, "protocol.rounds": 4}
    config = config_of_graphs("fedavg", "release", **shares)
    training, metrics, _ = federate(config, world, CPU)
    for at, number in (("best", training.best_round), ("last", training.last_round)):
        assert metrics["validation"][at].accuracy == pytest.approx(training.curves["validation"][number], rel=1e-6)
    alone = federate(config, replace(world, validation=replace(world.validation, rows=world.validation.rows[:3])), CPU)
    assert alone[1]["seen_graph"]["last"] == metrics["seen_graph"]["last"]


@pytest.mark.parametrize(("name", "variant"), OF_GRAPHS)
def test_runs_with_all_curves_tell_how_alike_embeddings_are(name: str, variant: str) -> None:
    world, asked = worlds.of_graphs(worlds.graph_set()), {"runtime.curves": "all"}
    training, _, _ = federate(config_of_graphs(name, variant, **asked), world, CPU)
    alike = np.array(training.facts["alike"], dtype=float)
    classes, clients = world.graph.base.num_classes, world.num_clients
    assert alike.shape == (classes, clients, clients)
    np.testing.assert_allclose(alike, alike.transpose(0, 2, 1))
    assert np.nanmax(np.abs(alike)) <= 1 + 1e-5
    numbers = worlds.of_graphs(worlds.graph_set(molecules=True, numbers=True))
    assert "alike" not in federate(config_of_graphs(name, variant, **asked), numbers, CPU)[0].facts


@pytest.mark.parametrize(("name", "variant"), OF_GRAPHS)
def test_a_client_without_test_graphs_counts_nothing(name: str, variant: str) -> None:
    world = worlds.of_graphs(worlds.graph_set())
    few = world.probes[0].rows[world.graph.owner[world.probes[0].rows] != 1]
    for rows in (few, few[:0]):
        empty = replace(world, probes=(replace(world.probes[0], rows=rows),))
        config = config_of_graphs(name, variant, **{"protocol.selected_by": "validation", "protocol.split": SHARES})
        _, metrics, _ = federate(config, empty, CPU)
        assert metrics["seen_graph"]["last"].clients[1] is None


CORA = {"dataset": "cora", "partitioner": "louvain"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"dataset": "cora"}, "dataset=cora asks about nodes, which partitioner=environment is not for: choose part"),
        (CORA | {"model": "gin"}, "model=gin predicts something about a graph, dataset=cora asks about a node"),
        (CORA | {"method": "fedvn"}, "asks about nodes, which method=fedvn is not for: choose method from coboost, "),
        ({"partitioner": "metis"}, "asks about graphs, which partitioner=metis is not for: .*, environment, "),
        ({"setting": "unseen_node"}, "which setting=unseen_node is not for: choose setting=plain"),
        (
            {"method": "fedgta", "setting": "unseen_node"},
            "which method=fedgta and setting=unseen_node are not for: choose method from .*; setting=plain",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(change: dict[str, str], told: str) -> None:
    choice = {"dataset": "motif_basis", "partitioner": "environment", "setting": "plain", "method": "fedavg"}
    with pytest.raises(UserError, match=told):
        configs.build(clients=3, protocol="fedvn", **choice | change)
