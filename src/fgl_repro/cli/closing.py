"""What stands at the end of a sweep: its jobs in a table, and how many came to what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fgl_repro.cli.jobs import TrainJob
from fgl_repro.runs.summary import BY_TEST, in_a_row
from fgl_repro.tables.printing import grid_text

HEADS = ["job", "run", "status", "probe", "best round", "last round"]
PROBE = HEADS.index("probe")


def closing(jobs: Sequence[TrainJob]) -> str:
    """Tell jobs in a table, in the order of their numbers; words and probe that they share stand above it once.

    A terminal is narrow, and at the end of a row's words stands what tells it from the next one.
    """
    jobs = sorted(jobs, key=lambda job: job.number or 0)
    given = [word for word in jobs[0].words if all(word in job.words for job in jobs)]
    names = [job.label.split() if job.config else [word for word in job.words if word not in given] for job in jobs]
    numbers = [("", "", "") if job.record is None else in_a_row(job.record, job.focus) for job in jobs]
    shared, probes = _shared(jobs), {probe for probe, *_ in numbers if probe}
    runs = [" ".join([word for word in name if word not in shared] or name) for name in names]
    grid = [[str(job.number), run, job.status, *of] for job, run, of in zip(jobs, runs, numbers, strict=True)]
    lines = [f"all jobs: {' '.join(shared)}"] if shared else []
    heads = HEADS
    if len(probes) == 1:
        lines.append(f"numbers: {probes.pop()}")
        heads, *grid = [[*row[:PROBE], *row[PROBE + 1 :]] for row in [HEADS, *grid]]
    lines += ["", grid_text(heads, grid, numbers_from=len(heads) - 2)]
    if any(job.record is not None and job.record.tested for job in jobs):
        lines.append(BY_TEST)
    counts = Counter(job.status for job in jobs)
    told = ", ".join(f"{counts[status]} {status}" for status in ("done", "found", "failed") if counts[status])
    return "\n".join(["", *lines, f"{len(jobs)} jobs: {told}."])


def _shared(jobs: Sequence[TrainJob]) -> list[str]:
    """List the words that name every run; jobs whose words were refused have no name."""
    first, *others = [job.label.split() for job in jobs if job.config is not None] or [[]]
    return [word for word in first if all(word in name for name in others)] if others else []
