"""FedAvg on nodes, twice: by the stacked engine and by the textbook loop, from the same weights."""

from __future__ import annotations

import torch

from benchmarks import textbook
from fgl_repro import config as configs
from fgl_repro import data
from fgl_repro.core.files import cache_folder
from fgl_repro.federation.partitioners.metis import PublishedPartition
from fgl_repro.federation.settings.plain import Plain
from fgl_repro.federation.split import Split
from fgl_repro.federation.world import World
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.rounds import train
from fgl_repro.nn.models.gcn import GCN
from fgl_repro.nn.view import Views

MODEL = "128-128-linear GCN"
BLOCK = 5
"""Rounds that are timed together."""


def world_of(dataset: str, clients: int) -> World:
    """Plain METIS parts: no class removed, so that every client count that is stored can be used."""
    graph = data.load(dataset, cache_folder())
    return Plain().build(graph, PublishedPartition(clients), Split((0.4, 0.3, 0.3), 0))


class Stacked:
    """The engine under test; ``rounds(n)`` advances n rounds and returns their losses and validation accuracies."""

    def __init__(self, world: World, dataset: str, dropout: float) -> None:
        base, views = world.graph.base, Views(torch.device("cpu"))
        config = configs.build(dataset=dataset, method="fedavg", clients=world.num_clients)
        model = GCN(base.num_features, base.num_classes, config.model.hidden, dropout)
        self.clients = Clients(config.method, model, world, config.protocol, config.seed, views)
        self.config = config

    def rounds(self, number: int) -> list[tuple[float, float]]:
        self.clients.protocol.rounds = number
        curves = train(self.config.method, self.clients).curves
        return list(zip(curves["loss"], curves["validation"], strict=True))


class Textbook:
    """The yardstick, from the same initial weights and with the same client shares."""

    def __init__(self, world: World, dataset: str, dropout: float) -> None:
        ours = Stacked(world, dataset, dropout)
        protocol, hidden = ours.config.protocol, ours.config.model.hidden
        initial = ours.config.method.start(ours.clients.model, ours.config.seed).weights
        self.clients = textbook.make_clients(world, initial, hidden, dropout, protocol.lr, protocol.weight_decay)
        self.share = torch.full((world.num_clients,), 1 / world.num_clients)

    def rounds(self, number: int) -> list[tuple[float, float]]:
        return [textbook.round_of_fedavg(self.clients, self.share)[:2] for _ in range(number)]


def check(world: World, dataset: str) -> float:
    """Largest difference of the losses of three rounds without dropout."""
    ours, theirs = Stacked(world, dataset, 0.0).rounds(3), Textbook(world, dataset, 0.0).rounds(3)
    return max(abs(a[0] - b[0]) for a, b in zip(ours, theirs, strict=True))
