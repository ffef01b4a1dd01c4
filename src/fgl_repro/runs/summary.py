"""A finished run in a few lines of text."""

from __future__ import annotations

from fgl_repro.runs.record import Measured, Record


def summary(record: Record, focus: str) -> str:
    """A finished run in a few lines; the probe that was asked for comes first."""
    names = sorted((n for n in record.metrics if n != "validation"), key=lambda n: n != focus)
    chosen = f"{'best test †' if record.tested else 'best validation'} (round {record.selection.best_round})"
    named = names if record.tested else [*names, "validation"]
    width = max(map(len, named)) + 2
    lines = [f"{'probe':<{width}}{chosen:>30}{'last round':>14}"]
    for name in named:
        best, last = (_number(record.metrics[name][which]) for which in ("best", "last"))
        lines.append(f"{name:<{width}}{best:>30}{last:>14}")
    if record.tested:
        lines.append("† chosen by looking at test data, as the protocol asks")
    if record.config["method"].get("secure"):
        lines.append("secure aggregation (method.secure=true)")
    return "\n".join(lines)


def _number(found: Measured) -> str:
    """Percent, or an error as it is."""
    if found.accuracy is None:
        return "-"
    return f"{found.kind.scale * found.accuracy:.{4 if found.kind.error else 2}f}"
