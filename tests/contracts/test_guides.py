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


@pytest.mark.parametrize("name", ["FedShrunk", "FedAlike"])
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
