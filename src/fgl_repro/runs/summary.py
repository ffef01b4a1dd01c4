"""A finished run in a few lines of text."""

from __future__ import annotations

from fgl_repro.fl.metrics import Measured
from fgl_repro.fl.protocol import Protocol
from fgl_repro.runs.record import SELECTION_OF, Record

NONE_STORED = "no stored membership for this graph"
"""What ``partitioner=published`` says of parts that were to be published ones and had to be computed."""
BY_TEST = "† chosen by looking at test data, as the protocol asks"
"""What the sign beside a number says."""


def summary(record: Record, focus: str, protocol: Protocol | None = None) -> str:
    """Tell a finished run in a few lines; the probe that was asked for comes first.

    Args:
        protocol: The one it is asked for under, whose name may not be that in the record. Without it nothing is told of
            which of the two rounds tables print.
    """
    names = _probes(record, focus)
    named = names if record.tested else [*names, "validation"]
    first = f"probe ({_unit(record.metrics[named[0]]['best'])})"
    width, columns = max(map(len, [first, *named])) + 2, _columns(record)
    lines = [f"{first:<{width}}" + "".join(f"{head:>{wide}}" for head, wide in columns.values())]
    for name in named:
        numbers = (f"{_number(record.metrics[name][at]):>{wide}}" for at, (_, wide) in columns.items())
        lines.append(f"{name:<{width}}" + "".join(numbers))
    if protocol is not None and len(columns) > 1:
        lines.append(f"protocol {protocol.name} prints the {SELECTION_OF[protocol.selection]} round")
    if record.tested:
        lines.append(BY_TEST)
    if record.config["method"].get("secure"):
        lines.append("secure aggregation (method.secure=true)")
    if has_other_parts(record):
        lines.append(f"parts: {record.partition['source']}")
    return "\n".join(lines)


def in_a_row(record: Record, focus: str) -> tuple[str, str, str]:
    """Return of :func:`summary` the probe that was asked for, with its unit, and its numbers at best and last round."""
    name, mark = [*_probes(record, focus), "validation"][0], " †" if record.tested else ""
    numbers = {at: _number(record.metrics[name][at]) for at in _columns(record)}
    return f"{name}, {_unit(record.metrics[name]['best'])}", numbers["best"] + mark, numbers.get("last", "")


def has_other_parts(record: Record) -> bool:
    """Tell whether its parts were to be published ones and had to be computed."""
    return NONE_STORED in record.partition.get("source", "")


def _probes(record: Record, focus: str) -> list[str]:
    """Name the probes, first the one that was asked for."""
    return sorted((name for name in record.metrics if name != "validation"), key=lambda name: name != focus)


def _columns(record: Record) -> dict[str, tuple[str, int]]:
    """Return heading and width of the measurements that are told.

    They are of two rounds, or of the models after fine-tuning.
    """
    if record.fine_tuned:
        return {"best": (f"fine-tuned, each client's best check{' †' if record.tested else ''}", 44)}
    chosen = f"{'best test †' if record.tested else 'best validation'} (round {record.selection.best_round})"
    return {"best": (chosen, 30), "last": ("last round", 14)}


def _unit(found: Measured) -> str:
    """Say what :func:`_number` writes: an error has the unit of what is predicted."""
    return found.kind.title if found.kind.error else f"{found.kind.title}, %"


def _number(found: Measured) -> str:
    """Write an accuracy in percent, or an error as it is."""
    if found.accuracy is None:
        return "-"
    return f"{found.kind.scale * found.accuracy:.{4 if found.kind.error else 2}f}"
