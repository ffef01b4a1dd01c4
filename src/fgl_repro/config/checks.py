"""What can never run, refused in one sentence before anything is loaded."""

from __future__ import annotations

import math

from fgl_repro.core.errors import UserError
from fgl_repro.core.schema import Config

PROTOCOL_WORDS = {
    "split_source": ("stream", "fedpub"),
    "optimiser": ("adam", "sgd"),
    "moments": ("kept", "each_round"),
    "average": ("pooled", "clients"),
    "judged": ("own", "server"),
    "selection": ("best_validation", "last"),
}
"""Fields of a protocol that take one of a few words."""


def check(config: Config) -> Config:
    """Refuse what can never run, in one sentence."""
    if config.partitioner.clients < 1:
        raise UserError(
            f"partitioner.clients={config.partitioner.clients} is not a federation: give at least one client."
        )
    split = config.protocol.split
    if len(split) != 3 or min(split) < 0 or abs(sum(split) - 1) > 1e-6:
        raise UserError(f"protocol.split={split} must be three shares (train, validation, test) that sum to 1.")
    if config.protocol.rounds < 1 or config.protocol.local_epochs < 1:
        raise UserError("protocol.rounds and protocol.local_epochs must be at least 1.")
    for name, known in PROTOCOL_WORDS.items():
        if (value := getattr(config.protocol, name)) not in known:
            raise UserError(f"protocol.{name}={value} is unknown: choose {' or '.join(known)}.")
    momentum = config.protocol.momentum
    if not 0 <= momentum < 1 or (momentum and config.protocol.optimiser != "sgd"):
        raise UserError(
            f"protocol.momentum={momentum} must lie in [0, 1) and is for protocol.optimiser=sgd: set it to 0."
        )
    if config.protocol.batch < 0:
        raise UserError(f"protocol.batch={config.protocol.batch} is negative: give a number of nodes, or 0 for all.")
    if config.protocol.batch and not config.method.batched:
        raise UserError(f"protocol.batch is not for method={config.method.name}, which draws its own: leave it at 0.")
    for name in ("lr", "weight_decay"):
        value = getattr(config.protocol, name)
        if not (math.isfinite(value) and value >= 0):
            raise UserError(f"protocol.{name}={value} must be a finite number, zero or more.")
    if config.model.name not in config.method.models:
        raise UserError(
            f"model.name={config.model.name} cannot carry method={config.method.name}: "
            f"choose model={' or '.join(config.method.models)}."
        )
    if config.model.hidden < 1:
        raise UserError(f"model.hidden={config.model.hidden} leaves no units: give at least 1.")
    for name in ("fanout", "test_fanout"):
        if (fan := getattr(config.model, name)) < 0 or (fan and config.model.name == "gcn"):
            raise UserError(
                f"model.{name}={fan} is not for model.name={config.model.name}: give a number of neighbours that a "
                "GraphSAGE draws of each node, or 0 for all."
            )
    if config.model.fanout and not config.protocol.batch:
        batches = "give protocol.batch a number of nodes, or " if config.method.batched else ""
        raise UserError(
            f"model.fanout={config.model.fanout} is for the protocol's mini-batches, and protocol.batch=0 has none: "
            f"{batches}set model.fanout=0."
        )
    if config.model.name == "sage_halves" and config.model.hidden % 4:
        raise UserError(f"model.hidden={config.model.hidden} cannot be halved twice: give a multiple of 4.")
    config.method.check()
    if not 0 <= config.model.dropout < 1:
        raise UserError(f"model.dropout={config.model.dropout} must lie in [0, 1).")
    if config.runtime.curves not in ("validation", "all"):
        raise UserError(f"runtime.curves={config.runtime.curves} is unknown: choose validation or all.")
    if config.runtime.threads < 1:
        raise UserError(f"runtime.threads={config.runtime.threads} computes nothing: give at least 1.")
    if config.logger.mode not in ("offline", "online", "disabled"):
        raise UserError(f"logger.mode={config.logger.mode} is unknown: choose offline, online or disabled.")
    return config
