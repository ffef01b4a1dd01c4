"""Every model trains with every method that takes it, and keeps clients apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fgl_repro import config as configs
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import first_uploads, tampered
from support.runs import make_config, methods_of

MODELS = sorted({name for name, cls in registry.options("model").items() if cls.unit == "node"} - {"auto", "fleet"})


def sorted_out() -> tuple[list[tuple[str, str]], dict[tuple[str, str], str]]:
    """Give methods with models beside their own, those of the contract tests that run every method, and what is said.

    Returns:
        Pairs that go together, and of those that do not the refusal.
    """
    carried, refused = [], {}
    for method, cls in methods_of("node").items():
        for model in MODELS:
            try:
                configs.build({"model.fanout": 0} if "halves" in model else {}, method=method, model=model)
            except UserError as error:
                refused[method, model] = str(error)
                continue
            if model != (cls.models or ("gcn",))[0]:
                carried.append((method, model))
    return carried, refused


PAIRS, REFUSED = sorted_out()


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


def config_of(method: str, model: str) -> configs.Config:
    small = make_config(method, registry.options("method")[method].variants[0])
    chosen = registry.option("model", model)(hidden=8, dropout=0.5)
    whole = configs.Config(**{**vars(small), "model": chosen})
    configs.check(whole)
    small.model = whole.model
    return small


@pytest.mark.parametrize(("method", "model"), PAIRS)
def test_two_rounds_on_a_toy_graph(method: str, model: str, world: World) -> None:
    training, metrics, _ = federate(config_of(method, model), world, torch.device("cpu"))
    assert np.isfinite(training.curves["loss"]).all()
    assert metrics["new_client"]["last"].accuracy is not None


@pytest.mark.parametrize(("method", "model"), REFUSED)
def test_what_does_not_go_together_is_refused_in_a_sentence(method: str, model: str) -> None:
    assert REFUSED[method, model].startswith(f"model={model} cannot carry method={method}: ")


def test_many_models_are_carried_and_many_refused() -> None:
    assert len(PAIRS) > 50
    assert len(REFUSED) > 50


@pytest.mark.parametrize("model", MODELS)
def test_a_clients_weights_depend_on_its_own_data_only(model: str, world: World) -> None:
    config = config_of("fedavg", model)
    before, after = (first_uploads(w, config) for w in (world, tampered(world, client=0)))
    for name, tensor in before.items():
        assert torch.equal(tensor[1:], after[name][1:]), name
    assert any(not torch.equal(tensor[0], after[name][0]) for name, tensor in before.items())
