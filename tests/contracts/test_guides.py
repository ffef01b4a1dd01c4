"""What the guide shows as a whole does what it says of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fgl_repro.core import registry
from fgl_repro.data.graph import Graph
from fgl_repro.federation.split import Split
from fgl_repro.federation.world import UnionGraph
from fgl_repro.nn.ops import stack
from fgl_repro.nn.view import Views
from fgl_repro.runs.execute import federate
from support import worlds
from support.runs import config_of_graphs, make_config

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "adding.md"
CPU = torch.device("cpu")


def shown(name: str) -> type[Any]:
    """Run the one block of the guide that defines a class of this name."""
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), flags=re.M | re.S)
    (code,) = [block for block in blocks if f"class {name}(" in block]
    found: dict[str, Any] = {}
    exec(compile(code, str(GUIDE), "exec", dont_inherit=True), found)
    kind: type[Any] = found[name]
    return kind


@pytest.mark.parametrize("name", ["FedShrunk", "FedAlike", "FedGoesOn"])
def test_methods_of_the_guide_learn_of_nodes_and_of_graphs(name: str, toy_graph: Graph) -> None:
    nodes, graphs = worlds.build("plain", toy_graph, "metis", 3), worlds.of_graphs(worlds.graph_set())
    for config, world in ((make_config("fedavg", "release"), nodes), (config_of_graphs("fedavg", "release"), graphs)):
        training, metrics, _ = federate(replace(config, method=shown(name)()), world, CPU)
        assert np.isfinite(training.curves["loss"]).all()
        assert sum(metrics["seen_graph"]["last"].counts) == len(world.probes[0].rows) > 0


def test_who_predicts_alike_gets_alike_models_and_pays_for_the_predictions(toy_graph: Graph) -> None:
    world = worlds.build("plain", toy_graph, "metis", 3)
    config = replace(make_config("fedavg", "release"), method=shown("FedAlike")())
    config.protocol.judged = "server"
    training, _, _ = federate(config, world, CPU)
    assert not torch.equal(training.last["W1"][0], training.last["W1"][1])
    classes = toy_graph.num_classes
    assert training.ledger.as_dict()["rounds"]["up"]["predicted"] == 2 * 4 * classes**2


def test_a_server_of_the_guide_goes_on_with_its_last_step(toy_graph: Graph) -> None:
    """Its first step is FedAvg's, its second one is longer: by a share of the first."""
    world, average, goes_on = worlds.build("plain", toy_graph, "metis", 3), shown("FedShrunk")(), shown("FedGoesOn")()
    average.shrink = 1.0
    config = make_config("fedavg", "release")
    config.protocol.judged = "server"
    found = []
    for rounds in (1, 2):
        config.protocol.rounds = rounds
        both = [federate(replace(config, method=method), world, CPU)[0].last["W1"] for method in (average, goes_on)]
        found.append(torch.equal(*both))
    assert found == [True, False]


def test_a_readout_of_the_guide_sums_where_ours_averages() -> None:
    graphs = worlds.graph_set()
    clients, rows = [np.arange(0, 6), np.arange(8, 16)], np.array([0, 2, 6, 9])
    ours, summed = registry.option("model", "gin")().of_data(graphs), shown("GinOfSums")().of_data(graphs)
    params = stack(ours.init(torch.Generator().manual_seed(0)), 2)
    view = ours.view(Views(CPU), UnionGraph.induced(graphs, clients), rows)
    sizes = view.inside.unsqueeze(2)
    torch.testing.assert_close(summed.embed(params, view), ours.embed(params, view) * sizes)
    assert sizes.max() > 1


def test_a_split_of_ones_own_is_taken_as_it_is(toy_graph: Graph, tmp_path: Path) -> None:
    """Roles are those of the raw graph's nodes, of which a component may have been left out."""
    kept = replace(toy_graph, original_id=2 * toy_graph.original_id + 1)
    roles = np.random.default_rng(0).integers(0, 3, 2 * toy_graph.num_nodes)
    np.savez(tmp_path / "mine.npz", roles=roles)
    partitioner = shown("GivenRoles")(3, file=str(tmp_path / "mine.npz"))
    world = registry.option("setting", "plain")().build(kept, partitioner, Split((0.4, 0.3, 0.3), 0, "partitioner"))
    nodes = {0: world.train, 1: world.validation.rows, 2: world.probes[0].rows}
    for role, rows in nodes.items():
        assert sorted(world.graph.node[rows]) == np.flatnonzero(roles[1::2] == role).tolist()
