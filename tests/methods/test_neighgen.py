"""FedSage+'s generators: what they make of a node, which losses move them, and what is hung with dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.optim import StackedAdam
from fgl_repro.methods.fedsageplus.generators import FGEN, GeneratorGroup, GeneratorTraining
from fgl_repro.methods.fedsageplus.method import FedSagePlus
from fgl_repro.nn.ragged import ClientStreams
from support import worlds
from support.isolation import make_clients
from support.runs import make_config


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("plain", toy_graph, "metis", 3)


def make_group(world: World, name: str, variant: str, **own: Any) -> GeneratorGroup:
    config = make_config(name, variant, **{f"method.{field}": value for field, value in own.items()})
    assert isinstance(config.method, FedSagePlus)
    return GeneratorGroup(GeneratorTraining(config.method, make_clients(world, config), np.zeros((4, 2))), range(3))


def test_a_neighbour_is_made_of_noise_around_its_parent(world: World) -> None:
    """fGen node by node: tanh F3(ReLU F2(ReLU F1(z + N(0, 1)))) of the first slots, noise by a client's own stream."""
    group = make_group(world, "fedsageplus", "release")
    net, local, w = group.net, group.impaired.local, group.params
    z = torch.rand(len(local.nodes), net.latent)
    counts = torch.tensor([0, 2, 1]).repeat(len(z))[: len(z)]
    streams = ClientStreams([torch.Generator().manual_seed(k) for k in range(3)])
    pool = net.generate(w, local, z, counts, streams, drop=False, sample=False)
    expected: dict[int, list[torch.Tensor]] = {}
    for k in range(3):
        nodes = [v for v in range(local.ptr[k], local.ptr[k + 1]) if counts[v]]
        noise = torch.randn(len(nodes), net.latent, generator=torch.Generator().manual_seed(k))
        for v, eps in zip(nodes, noise, strict=True):
            h = torch.relu((z[v] + eps) @ w["F1"][k] + w["f1"][k])
            h = torch.relu(h @ w["F2"][k] + w["f2"][k])
            expected[v] = [torch.tanh(h @ w["F3"][k, slot] + w["f3"][k, slot]) for slot in range(int(counts[v]))]
    assert len(pool.parent) == int(counts.sum())
    for v, made in expected.items():
        torch.testing.assert_close(pool.features[pool.parent == v], torch.stack(made), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("variant", "home", "slope"),
    [
        ("release", True, 1 + 3 * 10),
        ("release", False, (1 + 3 * 10 + 2 * 5 * 100) / 3),
        ("paper", True, 1 + 3 * 10),
        ("paper", False, 1 + 2 * 5 * 100),
    ],
)
def test_losses_are_weighed_as_the_variant_says(
    variant: str, home: bool, slope: float, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With b = 2, c = 3, alpha = 5 and losses by fGen's first bias of slope 1 (home), 10 (labels), 100 (others)."""
    group = make_group(world, "fedsageplus", variant, b=2.0, c=3.0, alpha=5.0, warmup=1)
    bias, seen = group.params["f1"], list[list[torch.Tensor]]()

    def of_slope(number: float) -> torch.Tensor:
        return (number * bias).sum(1)

    monkeypatch.setattr(group, "home_loss", lambda pool, estimate: of_slope(1))
    monkeypatch.setattr(group, "label_loss", lambda pool, streams: of_slope(10))
    monkeypatch.setattr(group, "drawn_loss", lambda pool: of_slope(100))
    back = [torch.full_like(group.params[name], 100.0 * (name == "f1")) for name in FGEN]
    monkeypatch.setattr(group, "returned_gradients", lambda pool: back)
    monkeypatch.setattr(StackedAdam, "step", lambda self, grads: seen.append(grads))
    group.epoch(0 if home else group.rules.epochs_at_home)
    (place,) = [i for i, value in enumerate(group.adam.params) if value is bias]
    (grads,) = seen
    torch.testing.assert_close(grads[place], torch.full_like(bias, slope))


@pytest.mark.parametrize(
    ("name", "variant", "dropped"),
    [("fedsageplus", "release", True), ("fedsageplus", "paper", False), ("locsageplus", "release", False)],
)
def test_only_the_release_of_fedsageplus_hangs_with_dropout(
    name: str, variant: str, dropped: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of its card: fGen's dropout stays on there; encoder and counts are without it everywhere."""
    group = make_group(world, name, variant)
    group.params["d1"].data.fill_(2.0)  # some counts of every variant are positive
    seen: list[torch.Size] = []
    monkeypatch.setattr(ClientStreams, "dropout", lambda self, x, p, ptr: seen.append(x.shape) or x)
    parents, _ = group.mend()
    assert len(parents)
    assert [shape[1] for shape in seen] == ([group.net.trunk[1]] if dropped else [])
