"""What a sweep asks of those who do its runs, be they processes of this machine or tasks of a cluster."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from fgl_repro.runs.worker import Answer, Job, Round


@dataclass
class Running:
    """A job that was handed out. ``since``: by ``time.monotonic()``; None while it waits for its turn elsewhere."""

    job: Job
    since: float | None = None
    round: Round | None = None


class Workers(Protocol):
    """Workers, who claim and record what they do; the sweep keeps the books.

    Attributes:
        size: How many runs they do at a time.
    """

    size: int

    def assign(self, pending: deque[Job]) -> None:
        """Take from the left of ``pending`` what there is room for."""

    def listen(self) -> list[tuple[Job, Answer]]:
        """Return the jobs that ended, after waiting half a second at most if there are none."""

    def running(self) -> list[Running]:
        """Return the jobs that were handed out and have not ended."""

    def close(self) -> None:
        """Send idle workers home and stop busy ones, which leave no claim behind where that can be helped."""
