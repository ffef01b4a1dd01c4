"""A finished run in a few lines of text."""

from __future__ import annotations

from fgl_repro.runs.record import Measured, Record


def summary(record: Record, focus: str) -> str:
    """A finished run in a few lines; the probe that was asked for comes first."""
    names = sorted((n for n in record.metrics if n != "validation"), key=lambda n: n != focus)
    chosen = f"{'best test †' if record.tested else 'best validation'} (round {record.selection.best_round})"
    lines = [f"{'probe':<15}{chosen:>30}{'last round':>14}"]
    for name in names if record.tested else [*names, "validation"]:
        best, last = (_number(record.metrics[name][which]) for which in ("best", "last"))
        lines.append(f"{name:<15}{best:>30}{last:>14}")
    return "\n".join([*lines, *(["† chosen by looking at test data, as the protocol asks"] if record.tested else [])])


def _number(found: Measured) -> str:
    """Percent, or an error as it is."""
    if found.accuracy is None:
        return "-"
    return f"{found.kind.scale * found.accuracy:.{4 if found.kind.error else 2}f}"
