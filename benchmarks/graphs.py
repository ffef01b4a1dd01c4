"""FedAvg on whole graphs, twice: by the stacked engine and by the textbook loop, from the same weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch

from benchmarks import textbook_graphs
from fgl_repro import config as configs
from fgl_repro.config import Config
from fgl_repro.core.files import cache_folder
from fgl_repro.federation.world import World
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.rounds import train
from fgl_repro.nn.models.gin import GIN
from fgl_repro.nn.view import Views

MODEL = "3-layer GIN of width 100, batches of 32 graphs"
BLOCK = 1
"""Rounds that are timed together."""


def config_of(dataset: str, clients: int) -> Config:
    """FedVN's protocol."""
    return configs.build(
        dataset=dataset, method="fedavg", clients=clients, partitioner="environment", setting="plain", protocol="fedvn"
    )


def world_of(dataset: str, clients: int, drawn: bool = False) -> World:
    """A client an environment, 800 graphs to train and 200 to test each; with ``drawn`` features if asked."""
    config = config_of(dataset, clients)
    graph = config.dataset.load(cache_folder())
    if drawn:
        inner = np.random.default_rng(0).normal(size=(graph.inner.shape[0], 4)).astype(np.float32)
        graph = replace(
            graph, inner=sp.csr_matrix(inner), features=sp.csr_matrix((graph.num_nodes, 4), dtype=np.float32)
        )
    return config.setting.build(graph, config.partitioner, config.split).selected_by_test()


class Stacked:
    """The engine under test; ``rounds(n)`` advances n rounds and returns their losses and test accuracies.

    Args:
        together: Graphs of a step and of a batch norm in tests; 0: as the protocol says.
    """

    def __init__(self, world: World, dataset: str, dropout: float, together: int = 0) -> None:
        self.config = config_of(dataset, world.num_clients)
        self.config.protocol.batch = together or self.config.protocol.batch
        network = self.config.model.of_data(world.graph.base)
        assert isinstance(network, GIN)
        self.model = replace(network, dropout=dropout, together=together or network.together)
        views = Views(torch.device("cpu"))
        self.clients = Clients(self.config.method, self.model, world, self.config.protocol, self.config.seed, views)

    def rounds(self, number: int) -> list[tuple[float, float]]:
        self.clients.protocol.rounds = number
        curves = train(self.config.method, self.clients).curves
        return list(zip(curves["loss"], curves["validation"], strict=True))


class Textbook:
    """The yardstick, from the same initial weights; its loaders shuffle by draws of their own."""

    def __init__(self, world: World, dataset: str, dropout: float, together: int = 0) -> None:
        ours = Stacked(world, dataset, dropout, together)
        initial = ours.config.method.start(ours.model, ours.config.seed).weights
        self.lr = ours.config.protocol.lr
        sizes = ours.config.protocol.batch, ours.model.together
        self.clients = textbook_graphs.make_clients(world, initial, ours.model.hidden, dropout, *sizes)

    def rounds(self, number: int) -> list[tuple[float, float]]:
        return [textbook_graphs.round_of_fedavg(self.clients, self.lr) for _ in range(number)]


def check(world: World, dataset: str) -> float:
    """Largest difference of the losses of three rounds of one step on everything, without dropout.

    The features are drawn: Motif's nodes all have the same one, which makes the columns of a first layer multiples of
    each other and lets rounding grow a thousandfold in a few steps.
    """
    world, every = world_of(dataset, world.num_clients, drawn=True), len(world.train)
    ours, theirs = (one(world, dataset, 0.0, every).rounds(3) for one in (Stacked, Textbook))
    return max(abs(a[0] - b[0]) for a, b in zip(ours, theirs, strict=True))
