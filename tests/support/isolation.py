"""Does a client hear of another one before the server mixes? Worlds changed at one client, and what is uploaded."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch

from fgl_repro import config as configs
from fgl_repro.data.graphset import GraphSet
from fgl_repro.federation.world import World
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Ledger, Message
from fgl_repro.fl.rounds import prepare
from fgl_repro.nn.view import Views

CPU = torch.device("cpu")


def make_clients(world: World, config: configs.Config) -> Clients:
    model = config.model.of_data(world.graph.base)
    return Clients(config.method, model, world, config.protocol, config.seed, Views(CPU))


def tampered(world: World, client: int, features: bool = True) -> World:
    """The same world, but every node of one client has another class and, if wanted, other features."""
    base = world.graph.base
    graph = copy.copy(base)
    own = world.graph.node[world.graph.ptr[client] : world.graph.ptr[client + 1]]
    words = base.features.tolil(copy=True)
    if features:
        words[own] = np.roll(base.features[own].toarray(), 3, axis=1) * 2
    labels = base.labels.copy()
    labels[own] = (labels[own] + 1) % base.num_classes
    graph = replace(base, features=words.tocsr().astype(np.float32), labels=labels)
    return replace(world, graph=replace(world.graph, base=graph))


def tampered_graphs(world: World, client: int) -> World:
    """The same world, but all graphs of one client have other classes or numbers, and other features inside."""
    base = world.graph.base
    assert isinstance(base, GraphSet)
    own = world.graph.node[world.graph.ptr[client] : world.graph.ptr[client + 1]]
    inside = np.isin(np.repeat(np.arange(base.num_nodes), np.diff(base.ptr)), own)
    inner = base.inner.tolil(copy=True)
    inner[inside] = np.roll(base.inner[inside].toarray(), 1, axis=1) * 2
    labels, targets = base.labels.copy(), base.targets
    labels[own] = (labels[own] + 1) % base.num_classes
    if targets is not None:
        targets = targets.copy()
        targets[own] += 1
    graph = replace(base, inner=inner.tocsr().astype(np.float32), labels=labels, targets=targets)
    return replace(world, graph=replace(world.graph, base=graph))


def with_fewer(world: World, client: int, count: int = 3) -> World:
    """The same world, but one client trains on fewer rows."""
    own = world.graph.owner[world.train] == client
    return replace(world, train=world.train[~own | (np.cumsum(own) > count)])


class Listener(Ledger):
    """A ledger that keeps every upload as it was sent, by phase, number and field."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: dict[str, torch.Tensor] = {}

    def add(self, phase: str, direction: str, message: Message | None) -> None:
        super().add(phase, direction, message)
        if direction == "up" and message is not None:
            self.keep(f"{phase}/{len(self.heard)}", message)

    def keep(self, name: str, message: Message) -> None:
        for field, value in vars(message).items():
            if isinstance(value, np.ndarray):
                self.heard[f"{name}/{field}"] = torch.from_numpy(value.copy())
            elif value is not None:
                for part, tensor in (value if isinstance(value, dict) else {"": value}).items():
                    self.heard[f"{name}/{field}.{part}"] = tensor.detach().clone()


def first_uploads(world: World, config: configs.Config) -> dict[str, torch.Tensor]:
    """All uploads of the phases before the rounds and of the first round; and what clients hold after training."""
    clients, method, ledger = make_clients(world, config), config.method, Listener()
    state, _ = prepare(method, clients, ledger)
    method.fit(clients, state, 0, 2)
    with torch.no_grad():
        message = method.upload(clients, state)
    if message is not None:
        ledger.keep("rounds", message)
    return ledger.heard | {name: value.detach() for name, value in clients.trained.items()}
