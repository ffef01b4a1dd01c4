"""One run, top to bottom: data, partition, world, rounds, selection, probes, record."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch

from fgl_repro.config import Config
from fgl_repro.core import memory
from fgl_repro.core.device import pick_device, prepare
from fgl_repro.federation.world import Average, World
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.metrics import Measured
from fgl_repro.fl.phase import Curves, Report
from fgl_repro.fl.probing import Prober
from fgl_repro.fl.rounds import Trained, train
from fgl_repro.nn.view import Views
from fgl_repro.runs.provenance import gpu_of, note_of
from fgl_repro.runs.record import Record, Selection


@dataclass
class Outcome:
    """A record and the per-round curves that go with it."""

    record: Record
    curves: Curves


def execute(config: Config, report: Report | None = None, slot: int = 0) -> Outcome:
    """Compute one run. Writes nothing: storing the outcome is the caller's business.

    Args:
        report: Called after each round of each phase with its curves, see :data:`fgl_repro.fl.phase.Report`.
        slot: Number of this worker; ``runtime.device=auto`` spreads workers over the GPUs.

    Raises:
        UserError: Something the user can mend (data, sizes, device, a diverged loss).
    """
    start = time.perf_counter()
    device = pick_device(config.runtime.device, slot)
    prepare(device, config.runtime.threads, config.runtime.deterministic)
    resting = memory.begin(device)
    graph = config.dataset.load(Path(config.paths.cache), split_drawn=config.split.source != "partitioner")
    world = config.setting.build(graph, config.partitioner, config.split)
    ready = time.perf_counter()
    training, metrics, probing = federate(config, world, device, report)
    done = time.perf_counter()
    seconds = {"setup": ready - start, "train": done - ready - probing, "probes": probing, "total": done - start}
    seconds["server"] = training.ledger.server_seconds
    validation = training.curves["validation"]
    note = note_of(config)
    record = Record(
        **vars(note.changed(status="ok", versions=note.versions | gpu_of(device, config.runtime.deterministic))),
        data={"fingerprint": graph.fingerprint},
        partition=world.facts,
        world={
            "missing": [list(m) for m in world.missing],
            "train_nodes": world.class_counts.sum(1).tolist(),
            "validation_nodes": metrics["validation"]["last"].counts,
        },
        selection=Selection(
            training.best_round,
            training.last_round,
            validation[training.best_round],
            validation[training.last_round],
        ),
        metrics=metrics,
        facts=training.facts,
        phases=training.phases or None,
        bytes=training.ledger.as_dict(),
        seconds={name: round(value, 3) for name, value in seconds.items()},
        peak_memory_mb=memory.peak(device),
        resting_memory_mb=resting,
        device=str(device),
        threads=config.runtime.threads,
    )
    return Outcome(record, training.curves)


def federate(
    config: Config, world: World, device: torch.device, report: Report | None = None
) -> tuple[Trained, dict[str, dict[str, Measured]], float]:
    """Train ``config.method`` in ``world`` and measure every probe.

    Returns:
        What training left, ``{probe: {"best": measured, "last": measured}}``, and the seconds spent on the probes,
        those of every round among them where all curves are kept.
    """
    world = world if config.protocol.selected_by == "validation" else world.selected_by_test()
    world = world.averaged(cast(Average, config.protocol.average))
    model = config.model.of_data(world.graph.base)
    clients = Clients(config.method, model, world, config.protocol, config.seed, Views(device))
    prober = Prober(clients)
    training = train(
        config.method,
        clients,
        prober.accuracies if config.runtime.curves == "all" else None,
        report,
    )
    metrics = prober.both(training)
    metrics |= {name: {"best": found, "last": found} for name, found in training.measured.items()}
    if config.runtime.curves == "all":
        training.facts |= prober.alike(training.last) | config.method.details(training.last)
    return training, metrics, prober.seconds
