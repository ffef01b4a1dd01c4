"""The jobs of one ``fgl-train``: what each was asked for, and what has become of it."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_repro.config import Config
from fgl_repro.runs.obtain import BusyError
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RecordStore


@dataclass
class TrainJob:
    """A run that the command line asks for.

    Attributes:
        words: Its overrides.
        number: Which job of a sweep it is; None: it is the only one.
        plain: Whether jobs run one after the other in this process and nobody reads what they return.
        config: What the words come to; None where they have not been read, or were refused.
        record: What was computed or found; None as long as there is none.
        busy: What says that another process computes it, or a tuning candidate of it.
    """

    words: list[str]
    number: int | None
    plain: bool
    config: Config | None = None
    record: Record | None = None
    busy: BusyError | None = None

    @property
    def which(self) -> str:
        """It begins a sentence about one job of several."""
        return "" if self.number is None else f"job {self.number} ({' '.join(self.words)}): "

    def check_free(self) -> None:
        """Raise that another process computes it, as long as it does."""
        if self.busy is not None and self.config is not None:
            if RecordStore(self.config.paths.records).is_claimed(self.busy.key):
                raise self.busy
            self.busy = None
