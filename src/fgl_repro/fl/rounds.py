"""The one training loop of all federated methods: receive, train locally, upload, validate, aggregate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fgl_repro.core.errors import UserError
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import Ledger
from fgl_repro.fl.method import Method
from fgl_repro.fl.metrics import accuracy
from fgl_repro.nn.models.model import Params

Report = Callable[[str, int, int, dict[str, float]], None]
"""Told after each round of a phase: the phase's name, the round's number from 0, how many there may be, its curves."""


@dataclass
class Training:
    """What training leaves behind.

    Attributes:
        best: Trained tensors at the best validation round (ties: the later round), after local training.
        last: The same at the last round.
        best_round, last_round: Their numbers, from 0.
        curves: Per-round lists: ``loss`` (mean over clients), ``validation`` (its probe's accuracy), more if asked for.
        ledger: Bytes of one client.
        facts: What the method tells of its state after the last round.
    """

    best: Params
    last: Params
    best_round: int
    last_round: int
    ledger: Ledger
    curves: dict[str, list[float]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


def train(
    method: Method,
    clients: Clients,
    rounds: int,
    local_epochs: int,
    extra: Callable[[Params], dict[str, float]] | None = None,
    report: Report | None = None,
    server: bool = False,
) -> Training:
    """Run all rounds and keep the clients' own models at the best validation round and at the last.

    A model is judged after its local epochs and before the server mixes, as most papers' code does, or as the server
    makes it of the uploads of that round. Selection sees validation rows only.

    Args:
        server: Whether the server's models are judged, where there is a server.
        extra: Further curves from the trained tensors of a round, for plots; never used to select.
        report: Called after each round, see :data:`Report`.

    Raises:
        UserError: The loss is no longer a finite number.
    """
    ledger = Ledger()
    setup = method.begin(clients)
    ledger.add("setup", "up", setup.up)
    ledger.add("setup", "down", setup.down)
    curves: dict[str, list[float]] = {"loss": [], "validation": []}
    best: Params = {name: torch.empty_like(value) for name, value in clients.trained.items()}
    average = clients.world.validation.average
    best_round, best_score, incoming = -1, -1.0, method.publish(clients)
    for number in range(rounds):
        if incoming is not None:
            ledger.add("rounds", "down", incoming)
            method.receive(clients, incoming)
        memory = method.remember(clients, number)
        loss = method.fit(clients, memory, number, local_epochs)
        with torch.no_grad():
            trained = clients.trained
            evaluated = method.weights(trained, training=False)
            upload = method.upload(clients, evaluated)
            ledger.add("rounds", "up", upload)
            if server and upload is not None:
                incoming = method.aggregate(clients, upload)
                trained = trained | incoming.tensors()
                evaluated = method.weights(trained, training=False)
            score = accuracy(clients.model(evaluated, clients.validation), clients.validation, average)
            now = _fetched({"loss": loss.mean(), "validation": score, **method.trace(clients)}, loss, number)
            if extra:
                now |= extra(trained)
            if now["validation"] >= best_score:
                best_round, best_score = number, now["validation"]
                for name, value in trained.items():
                    best[name].copy_(value)
            if not server and upload is not None and number + 1 < rounds:
                incoming = method.aggregate(clients, upload)
        for name, point in now.items():
            curves.setdefault(name, []).append(point)
        if report:
            report("rounds", number, rounds, now)
    last = {name: value.detach() for name, value in trained.items()}
    return Training(best, last, best_round, rounds - 1, ledger, curves, method.facts(clients))


def _fetched(curves: dict[str, Tensor], loss: Tensor, number: int) -> dict[str, float]:
    """The numbers of a round in one transfer: a GPU is waited for once a round.

    Args:
        curves: Tensors of one number each.
        loss: Of each client ``[K]``.

    Raises:
        UserError: The loss of a client is not finite.
    """
    finite = torch.isfinite(loss).all().to(loss.dtype)
    *points, all_finite = torch.stack([*curves.values(), finite]).tolist()
    now: dict[str, float] = dict(zip(curves, points, strict=True))
    if not all_finite:
        raise UserError(
            f"the training loss is {now['loss']} in round {number}: lower protocol.lr, or check the features."
        )
    return now
