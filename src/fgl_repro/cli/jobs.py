"""The jobs of one ``fgl-train``: what each was asked for, and what has become of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fgl_repro.config import AXES, Config, science
from fgl_repro.runs.names import label
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
        fresh: Whether it was computed.
        busy: What says that another process computes it, or a tuning candidate of it.
    """

    words: list[str]
    number: int | None
    plain: bool
    config: Config | None = None
    record: Record | None = None
    fresh: bool = False
    busy: BusyError | None = None

    @property
    def which(self) -> str:
        """It begins a sentence about one job of several."""
        return "" if self.number is None else f"job {self.number} ({' '.join(self.words)}): "

    @property
    def label(self) -> str:
        """It names the run, or repeats the words that could not be read."""
        return " ".join(self.words) if self.config is None else label_of(self.config, self.words)

    @property
    def status(self) -> str:
        """It is ``done``, ``found`` or, without a record, ``failed``."""
        return "failed" if self.record is None else "done" if self.fresh else "found"

    @property
    def focus(self) -> str:
        """It is the probe that was asked for."""
        return "" if self.config is None else self.config.setting.focus

    def check_free(self) -> None:
        """Raise that another process computes it, as long as it does."""
        if self.busy is not None and self.config is not None:
            if RecordStore(self.config.paths.records).is_claimed(self.busy.key):
                raise self.busy
            self.busy = None


def label_of(config: Config, words: Sequence[str]) -> str:
    """Name a run, with ``published seen_graph fedlog`` and what else of science the words have set, as they have it."""
    names = {"method": config.method.name, "dataset": config.dataset.name, "partitioner": config.partitioner.name}
    names |= {"setting": config.setting.option_name, "protocol": config.protocol.name}
    already_named = {f"{key}={name}" for key, name in names.items()} | {f"method.variant={config.method.variant}"}
    already_named |= {f"partitioner.clients={config.partitioner.clients}"}
    parts = {*AXES, "experiment", "debug"}
    given = [word for word in (word.lstrip("+") for word in words) if re.split("[.=]", word)[0] in parts]
    more = [word for word in given if word not in already_named]
    return label(science(config), " ".join([names["partitioner"], names["setting"], names["protocol"], *more]))
