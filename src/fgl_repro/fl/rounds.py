"""The one run of all methods: the first message, the phases before, then rounds of training, validation and mixing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from fgl_repro.core.device import wait_for
from fgl_repro.core.errors import DivergenceError, UserError
from fgl_repro.core.streams import numpy_rng, torch_rng
from fgl_repro.fl import links
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.messages import FromSome, Ledger, Message
from fgl_repro.fl.method import Method
from fgl_repro.fl.metrics import Measured, accuracy
from fgl_repro.fl.phase import ROUNDS, Curves, Phase, Report, Turn
from fgl_repro.nn.models.model import Params

S = TypeVar("S")


@dataclass
class Trained:
    """What training leaves behind.

    Attributes:
        best: Trained tensors at the best validation round (ties: the later round), after local training.
        last: The same at the last round. Where the protocol fine-tunes, ``best`` and ``last`` are one and the same:
            what clients have after that, which began with the last round whatever round was the best.
        best_round, last_round: The best and the last of the rounds, from 0; fine-tuning has none.
        curves: Per-round lists: ``loss`` (mean over clients), ``validation`` (its probe's accuracy), more if asked for.
        phases: Curves of the phases before the rounds and after them, by phase.
        ledger: Bytes of the clients.
        facts: What the method tells of its state after the last round.
        measured: What a phase of its own has measured, by probe.
    """

    best: Params
    last: Params
    best_round: int
    last_round: int
    ledger: Ledger
    curves: Curves = field(default_factory=dict)
    phases: dict[str, Curves] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, Measured] = field(default_factory=dict)


def train(
    method: Method[S],
    clients: Clients,
    extra: Callable[[Params], dict[str, float]] | None = None,
    report: Report | None = None,
) -> Trained:
    """Run all phases and rounds, and keep the clients' own models at the best validation round and at the last.

    How many, and what follows them, the clients' protocol says. Where it fine-tunes, what clients have after that takes
    the place of both.

    Args:
        extra: Further curves from the trained tensors of a round, for plots; never used to select.
        report: Called after each round of each phase.

    Raises:
        UserError: The loss or the validation is no longer a finite number.
    """
    rules, ledger = clients.protocol, Ledger()
    state, phases = prepare(method, clients, ledger, report)
    work = _Rounds(method, clients, state, extra, ledger)
    curves = Phase(ROUNDS, rules.rounds, work.turn).run(clients.count, ledger, report)
    if rules.fine_tuning:
        if rules.judged != "server":
            ledger.add(ROUNDS, "down", work.incoming)
        work.receive("own", "crosswise")
        phases |= run_phases(method.closing(clients, state), clients.count, ledger, report)
        work.best = work.last = {name: value.detach() for name, value in clients.trained.items()}
    facts = method.facts(clients, state)
    found = Trained(work.best, work.last, work.best_round, rules.rounds - 1, ledger, curves, phases, facts)
    if clients.world.links is not None:
        tuning = links.LinkTuning(clients, work.last)
        found.phases |= run_phases([tuning.phase("link_tuning", rules.link_tuning)], clients.count, ledger, report)
        found.measured["links"] = tuning.tested()
    return found


def prepare(
    method: Method[S], clients: Clients, ledger: Ledger, report: Report | None = None
) -> tuple[S, dict[str, Curves]]:
    """Do all that comes before the rounds; return the method's state and the curves of each phase.

    The server's first message reaches the clients first of all, and counts as the download of round 0.
    """
    state = method.state(clients)
    first = method.publish(clients, state)
    if first is not None:
        ledger.add(ROUNDS, "down", first)
        method.receive(clients, state, first)
    return state, run_phases(method.phases(clients, state), clients.count, ledger, report)


def run_phases(phases: Iterable[Phase], clients: int, ledger: Ledger, report: Report | None) -> dict[str, Curves]:
    """Run one phase after the other; return the curves of those that have some."""
    run, start = {}, time.perf_counter()
    for phase in phases:
        run[phase.name] = phase.run(clients, ledger, report)
        now = time.perf_counter()
        if phase.place == "server":
            ledger.server_seconds += now - start
        start = now
    return {name: curves for name, curves in run.items() if curves}


@dataclass
class _Rounds(Generic[S]):
    """The rounds and what selection keeps of them.

    Where phases follow, what the server makes of the last round comes down, too, and they begin with it.

    A model is judged after its local epochs and before the server mixes, as most papers' code does, or as the client
    has received what the server makes of the uploads of that round, or by the weights of one client for all. Selection
    sees validation rows only. Clients that sit a round out are judged by what they have.
    """

    method: Method[S]
    clients: Clients
    state: S
    extra: Callable[[Params], dict[str, float]] | None
    ledger: Ledger
    last: Params = field(default_factory=dict)
    best_round: int = -1
    best_score: float = -math.inf
    incoming: Message | None = None

    def __post_init__(self) -> None:
        self.best: Params = {name: torch.empty_like(value) for name, value in self.clients.trained.items()}
        self.rules = self.clients.protocol
        self.rng = torch_rng("judged", self.clients.seed)
        self.draws = numpy_rng("participation", self.clients.seed)

    def turn(self, number: int, going: np.ndarray) -> Turn:
        """Receive, train, upload, validate, aggregate."""
        method, clients, state, before = self.method, self.clients, self.state, self.incoming
        present = self._drawn()
        with clients.taking_part(present):
            self.receive("own", "crosswise")
            loss = clients.those_present(method.fit(clients, state, number, self.rules.local_epochs))
            with torch.no_grad():
                upload = method.upload(clients, state)
                if self.rules.judged == "server" and upload is not None:
                    self.incoming = self._aggregated(upload)
                traced = method.trace(clients, state)
        self.receive("server")
        with torch.no_grad():
            trained = clients.trained
            if self.rules.judged == "crosswise":
                k = int(torch.randint(clients.count, (), generator=self.rng))
                trained = trained | {name: w[k : k + 1].expand_as(w) for name, w in clients.params.items()}
            logits = clients.model(trained, clients.validation)
            score = accuracy(logits, clients.validation, clients.world.validation.average, clients.nodes)
            curves = {"loss": loss.mean(), "validation": score, **traced}
            values = _fetched(curves, loss, number)
            if self.extra:
                values |= self.extra(trained)
            # an error counts as its minus here, so that more is better, and is kept as it is measured
            merit, values["validation"] = values["validation"], abs(values["validation"])
            if merit >= self.best_score:
                self.best_round, self.best_score = number, merit
                for name, value in trained.items():
                    self.best[name].copy_(value)
            if upload is not None and self._mixes_after(number):
                with clients.taking_part(present):
                    self.incoming = self._aggregated(upload)
        self.last = {name: value.detach() for name, value in trained.items()}
        down = self.incoming if self.rules.judged == "server" else _of_some(before, present)
        return Turn(values, up=_of_some(upload, present), down=down)

    def _drawn(self) -> np.ndarray | None:
        """Draw who takes part in a round, bool ``[K]``; None: everybody."""
        count = self.clients.count
        if self.rules.participation == 1:
            return None
        present = np.zeros(count, dtype=bool)
        present[self.draws.choice(count, max(round(self.rules.participation * count), 1), replace=False)] = True
        return present

    def _mixes_after(self, number: int) -> bool:
        """Tell whether the server mixes after the models were judged: not where its own are, nor for nobody to take."""
        return self.rules.judged != "server" and (self.rules.fine_tuning > 0 or number + 1 < self.rules.rounds)

    def receive(self, *judged: str) -> None:
        """Let clients take what has come down, if anything has and ``judged`` names whose models are."""
        if self.incoming is not None and self.rules.judged in judged:
            self.method.receive(self.clients, self.state, self.incoming)

    def _aggregated(self, upload: Message) -> Message:
        """Return what the server makes of the uploads."""
        device = self.clients.device
        wait_for(device)
        start = time.perf_counter()
        made = self.method.aggregate(self.clients, self.state, upload)
        wait_for(device)
        self.ledger.server_seconds += time.perf_counter() - start
        if fault := _fault(made, self.clients.trained):
            raise UserError(f"aggregate() of the method {self.method.name} returns {fault}.")
        return made


def _of_some(message: Message | None, present: np.ndarray | None) -> Message | None:
    """Leave of a message what clients that are ``present``, bool ``[K]``, send or receive of it."""
    return message if message is None or present is None else FromSome(message, present)


def _fault(made: object, params: Params) -> str:
    """Tell why clients cannot receive what an ``aggregate`` has returned; empty if they can.

    Args:
        params: All that clients train, ``[K, ...]``.
    """
    if not isinstance(made, Message):
        return f"{type(made).__name__} and no Message, such as Weights: what clients receive"
    for name, value in made.tensors().items():
        own = params.get(name, value)
        if value.shape[1:] != own.shape[1:] or len(value) not in (1, len(own)):
            return f"{name} of shape {list(value.shape)}: give {list(own.shape)}, the clients on the first axis"
    return ""


def _fetched(curves: dict[str, Tensor], loss: Tensor, number: int) -> dict[str, float]:
    """Fetch the numbers of a round in one transfer: a GPU is waited for once a round.

    Args:
        curves: Tensors of one number each, ``loss`` and ``validation`` among them.
        loss: Of each client that took part, ``[K']``.

    Raises:
        DivergenceError: The loss of a client is not finite, or the validation.
    """
    finite = torch.isfinite(loss).all().to(loss.dtype)
    *points, all_finite = torch.stack([*curves.values(), finite]).tolist()
    now: dict[str, float] = dict(zip(curves, points, strict=True))
    if not (all_finite and math.isfinite(now["validation"])):
        what = f"validation is {abs(now['validation'])}" if all_finite else f"training loss is {now['loss']}"
        raise DivergenceError(
            f"the {what} in round {number}: lower protocol.lr or the method's own rates, or check the features."
        )
    return now
