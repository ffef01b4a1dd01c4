"""How much of each table is recorded, without composing the configs of its runs again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fgl_repro.config import Config, key_of, keys_of, override
from fgl_repro.runs import tuning
from fgl_repro.runs.store import Archive
from fgl_repro.tables import needs
from fgl_repro.tables.spec import TableSpec

Keys = dict[str, str]
"""Keys of runs, and which curves (``runtime.curves``) they are wanted with."""


@dataclass(frozen=True)
class Plan:
    """The runs that a table rests on under a protocol.

    Attributes:
        runs: Those that nothing is chosen for.
        tuned: For every tuned cell its candidates: the key of a candidate, and the runs of the cell if it is chosen.
        without: What a table without runs says.
    """

    name: str
    protocol: str
    what: str
    without: str
    runs: Keys
    tuned: Sequence[Sequence[tuple[str, Keys]]]

    def needed(self, archive: Archive) -> Keys:
        """Name the runs that can be named yet, candidates included."""
        found = dict(self.runs)
        for cell in self.tuned:
            curves = next(iter(cell[0][1].values()))
            found |= dict.fromkeys((key for key, _ in cell), curves)
            best = tuning.number_of_best([tuning.outcome(key, archive) for key, _ in cell])
            found |= {} if best is None else cell[best][1]
        return found

    def counts(self, archive: Archive) -> tuple[int, int]:
        """Count its runs that are recorded, or known to diverge, and all that can be named yet."""
        needed = self.needed(archive)
        done = sum(archive.is_done(key, curves) or tuning.diverged(key, archive) for key, curves in needed.items())
        return done, len(needed)


def plan(spec: TableSpec, protocol: str) -> Plan:
    """Name the runs of a table."""
    runs: Keys = {}
    tuned = []
    for config in needs.firsts(spec, protocol):
        if listed := tuning.candidates(config):
            tuned.append(
                [(key_of(candidate.config), _of_cell(config, candidate.overrides, spec)) for candidate in listed]
            )
        else:
            runs |= _of_cell(config, {}, spec)
    without = "no data" if spec.absent else "needs none"
    return Plan(spec.name, protocol, f"{spec.heading}: {spec.title}", without, runs, tuned)


def _of_cell(config: Config, overrides: Mapping[str, Any], spec: TableSpec) -> Keys:
    return dict.fromkeys(keys_of(override(config, overrides), spec.seeds), config.runtime.curves)
