"""A paper's protocol: the rules of optimisation and evaluation that all its methods share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from omegaconf import MISSING

from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import Axis, added, how
from fgl_repro.federation.split import Split


@dataclass
class Protocol(Axis):
    """Optimisation and evaluation rules shared by all methods of a paper; a paper is a yaml of this.

    Attributes:
        split: Shares of training, validation and test nodes.
        split_seed: Seed of the global split and crop; most papers draw one for all run seeds.
        split_source: Who draws the split: ``stream``, ours; ``fedpub``, the released generator; ``opfgl`` or
            ``openfgl``, ours, at each client and for each class; ``partitioner``, it does, with the parts (see
            ``split.py``).
        redraw: Whether every run seed draws split, crop and random parts anew (added to ``split_seed``).
        rounds: Communication rounds R.
        participation: Share of the clients that take part in a round, drawn anew for each, at least one client; the
            others receive nothing, do not train and send nothing in it. Where the server's model is judged, everybody
            receives it.
        local_epochs: Epochs a client trains each round.
        steps: Local steps of an epoch at every client; 0: one on all its training nodes, or as many as its batches.
        batch: Training nodes of a local step, drawn without replacement; 0: all of them.
        remainder: Whether an epoch ends with a smaller batch of the nodes that are left, or leaves them out.
        optimiser: ``adam`` or ``sgd``, one for each client.
        momentum: Share of SGD's last direction that it goes on with; 0 for Adam, which has moments of its own.
        moments: Whether what the optimiser remembers (Adam's moments, SGD's direction) is ``kept`` from round to round,
            begins anew in ``each_round``, or is ``shared``: one optimiser for all clients, who train in turn. A method
            with optimisers of its own (FedLoG) goes on with them.
        lr: The optimiser's learning rate.
        weight_decay: Its coupled L2 factor.
        average: What selects the round and is printed: ``pooled`` over nodes, the plain mean over ``clients``, or their
            mean weighted by all ``nodes`` of each, beside which macro-F1 is measured. It is for what clients are tested
            on of their own; a new client, met by K models, is always a mean over them.
        fine_tuning: Epochs that clients train on after the last round, each for itself, at most: as many whole times
            ``check_every`` as there are in it, and one more, or just so many where it is less than that; 0: none. What
            is tested is then each client's model at its own best check.
        fine_tuning_lr: Learning rate of that (Adam, no weight decay).
        check_every, patience: Epochs between looks at a client's own validation nodes, and looks without gain after
            which it stops, wherever training ends that way.
        link_tuning: Epochs at most that clients are trained on after all else to predict links, where the setting holds
            some back, at the rate ``fine_tuning_lr``.
        judged: Which models are validated and tested: each client's ``own`` after local training, before the server
            mixes, or the ``server``'s, as clients have received it after that (a method without server: the own), or
            ``crosswise``: in each round the weights of one client, drawn for that round, answer for everybody, each
            with the personal tensors (FedLoG's learnable nodes) of its own.
        features, component: Form of the data that the paper uses; the data sets take theirs from here.
        selected_by: Which nodes (or graphs) select the round: those of ``validation``, or of the ``test``, only to do
            as a paper did that has no validation: its tables mark such numbers with a dagger.
        selection: What a table prints: ``best_validation`` or ``last`` (records always hold both).
        ddof: Delta degrees of freedom that the paper's printed stds most likely have, and so ours beside them.
        fitted: Data sets whose printed numbers were seen when a method's settings were chosen: ``{method: [...]}``.
        seeds: Run seeds that its tables ask for; empty: those that each table names.
        tuning: ``{seed: s, candidates: {method: [{dotted override: value}, ...]}}``, or empty.
    """

    axis: ClassVar[str] = "protocol"

    split: list[float] = field(default_factory=lambda: [0.4, 0.3, 0.3])
    split_seed: int = 0
    split_source: str = added("stream")
    redraw: bool = added(False)
    rounds: int = 100
    participation: float = added(1.0)
    local_epochs: int = 1
    steps: int = added(0)
    batch: int = added(0)
    remainder: bool = added(False)
    optimiser: str = added("adam")
    momentum: float = added(0.0)
    moments: str = added("kept")
    lr: float = 0.01
    weight_decay: float = 1e-6
    average: str = added("pooled")
    fine_tuning: int = added(0)
    fine_tuning_lr: float = added(0.01)
    check_every: int = added(100)
    patience: int = added(5)
    link_tuning: int = added(3000)
    judged: str = added("own")
    selected_by: str = added("validation")
    name: str = how(MISSING)
    features: str = how("row")
    component: str = how("largest")
    selection: str = how("best_validation")
    ddof: int = how(0)
    fitted: dict[str, list[str]] = field(default_factory=dict, metadata={"science": False})
    seeds: list[int] = field(default_factory=list, metadata={"science": False})
    tuning: dict[str, Any] = field(default_factory=dict, metadata={"science": False})

    def check(self) -> None:
        self.one_of(
            split_source=("stream", "fedpub", "opfgl", "openfgl", "partitioner"),
            selected_by=("validation", "test"),
            optimiser=("adam", "sgd"),
            moments=("kept", "each_round", "shared"),
            average=("pooled", "clients", "nodes"),
            judged=("own", "server", "crosswise"),
            selection=("best_validation", "last"),
            ddof=(0, 1),
        )
        self.at_least(1, "rounds", "local_epochs", "check_every", "patience", "link_tuning")
        self.at_least(0, "split_seed", "steps", "batch", "lr", "weight_decay", "fine_tuning", "fine_tuning_lr")
        self.more_than(0, "participation")
        self.at_most(1, "participation")
        if self.split[1:2] == [0] and self.selected_by == "validation":
            raise UserError(
                f"protocol.split={list(self.split)} must be three shares (train, validation, test) that sum to 1, with "
                "train and validation above 0."
            )
        if self.selected_by == "test" and (self.tuning or self.fine_tuning):
            what = "tuning chooses settings" if self.tuning else "fine_tuning chooses models"
            raise UserError(
                f"protocol.{what} by what validates, and protocol.selected_by=test makes test rows of that: set "
                "protocol.selected_by=validation."
            )
        if min(self.seeds, default=0) < 0 or len(set(self.seeds)) < len(self.seeds):
            raise UserError(f"protocol.seeds={list(self.seeds)} must be whole numbers from 0 on, each once.")
        self.split_of(0)
        if not 0 <= self.momentum < 1 or (self.momentum and self.optimiser != "sgd"):
            raise UserError(
                f"protocol.momentum={self.momentum} must lie in [0, 1) and is for protocol.optimiser=sgd: set it to 0."
            )

    def split_of(self, seed: int) -> Split:
        """Say how the world of the run with this seed is drawn."""
        drawn = self.split_seed + (seed if self.redraw else 0)
        return Split(tuple(self.split), drawn, self.split_source)  # type: ignore[arg-type]
