"""Records as lines of data frames: one line a number, the same columns for every run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fgl_repro.fl.metrics import Measured
from fgl_repro.runs.record import Record

SCORES = (
    *("key", "cell", "source", "dataset", "partitioner", "clients", "world"),
    *("protocol", "model", "method", "variant", "seed"),
    *("probe", "selection", "accuracy", "pooled", "clients_mean", "macro", "rows", "metric"),
    *("best_round", "bytes", "seconds", "written"),
)
"""Columns of runs. Runs of one ``cell`` differ in nothing but the seed; ``selection`` is the ``best`` round or the
``last``; ``bytes`` are of one client, both ways, over all phases; ``metric`` is ``mae`` where the numbers are errors.
All else is what records call so."""

LOCAL = "local"
"""The ``source`` of a run that is recorded here; of one that is only published it is the paper."""

CLIENTS = ("probe", "selection", "client", "accuracy", "rows")
SENT = ("phase", "direction", "field", "bytes")


def scores(record: Record, source: str) -> list[dict[str, Any]]:
    """Return a line for each probe and round.

    Args:
        source: Where the record is from.
    """
    config = record.config
    run: dict[str, Any] = {"key": record.key, "cell": record.cell, "source": source}
    run |= {"dataset": config["dataset"]["name"], "world": config["setting"]["world"]}
    run |= {"partitioner": config["partitioner"]["name"], "clients": config["partitioner"]["clients"]}
    run |= {"protocol": record.protocol, "model": config["model"]["name"], "method": config["method"]["name"]}
    run |= {"variant": config["method"].get("variant", ""), "seed": config["seed"]}
    run |= {"best_round": record.selection.best_round, "seconds": record.seconds["total"], "written": record.written}
    run |= {"bytes": sum(line["bytes"] for line in sent(record))}
    names = ("accuracy", "pooled", "clients_mean", "macro")
    return [
        run
        | {"probe": probe, "selection": at, "rows": sum(found.counts), "metric": found.metric or "accuracy"}
        | {name: getattr(found, name) for name in names}
        for probe, at, found in _measured(record)
    ]


def clients(record: Record) -> list[dict[str, Any]]:
    """Return a line for each probe, round and client."""
    return [
        {"probe": probe, "selection": at, "client": k, "accuracy": accuracy, "rows": rows}
        for probe, at, found in _measured(record)
        for k, (accuracy, rows) in enumerate(zip(found.clients, found.counts, strict=True))
    ]


def sent(record: Record) -> list[dict[str, Any]]:
    """Return a line for each phase, direction and field of a message."""
    return [
        {"phase": phase, "direction": direction, "field": name, "bytes": count}
        for phase, directions in record.bytes.items()
        for direction, fields in directions.items()
        for name, count in fields.items()
    ]


def _measured(record: Record) -> Iterator[tuple[str, str, Measured]]:
    for probe, rounds in record.metrics.items():
        yield from ((probe, at, found) for at, found in rounds.items())
