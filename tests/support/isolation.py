"""Does a client hear of another one before the server mixes? Worlds changed at one client, and first uploads."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch

from fgl_repro import config as configs
from fgl_repro.federation.world import World
from fgl_repro.fl.clients import Clients
from fgl_repro.nn import Views

CPU = torch.device("cpu")


def make_clients(world: World, config: configs.Config) -> Clients:
    model = config.model.build(world.graph.base.num_features, world.graph.base.num_classes)
    return Clients(world, model, config.method, config.protocol, config.seed, Views(CPU))


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


def first_upload(world: World, config: configs.Config) -> dict[str, torch.Tensor]:
    """What clients hold (and send, if the method sends) after local training of the first round."""
    clients, method = make_clients(world, config), config.method
    method.begin(clients)
    memory = method.remember(clients, 0)
    method.fit(clients, memory, 0, 2)
    with torch.no_grad():
        message = method.upload(clients, method.weights(clients.trained, training=False))
    out = {name: value.detach() for name, value in clients.trained.items()}
    for field, value in (vars(message) if message else {}).items():
        for name, tensor in (value or {}).items() if isinstance(value, dict | None) else [("", value)]:
            out[f"{field}.{name}"] = tensor.detach()
    return out
