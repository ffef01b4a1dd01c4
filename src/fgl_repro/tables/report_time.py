"""What tables cost: hours of computing, from the seconds that records hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fgl_repro.runs.progress import Costs
from fgl_repro.runs.store import Source
from fgl_repro.tables import results as tables
from fgl_repro.tables.results import Grid, grid_text

if TYPE_CHECKING:
    from fgl_repro.config import Config

CORES = 2


def hours(runs: Sequence[tuple[dict[str, Any], float | None]]) -> float:
    """Hours one core needs for runs, given as science config and recorded seconds (None: not run, so estimated)."""
    costs = Costs((config, seconds) for config, seconds in runs if seconds is not None)
    return sum(costs.seconds(config) if seconds is None else seconds for config, seconds in runs) / 3600


def time_grid(filled: Sequence[Grid], source: Source) -> str:
    """A line for each set of tables that rest on the same runs, under each protocol."""
    from fgl_repro.config import science

    groups: dict[tuple[str, frozenset[str]], list[str]] = {}
    configs: dict[str, Config] = {}
    for table in filled:
        needed = tables.needed(table.spec, table.protocol, source)
        configs |= needed
        groups.setdefault((table.protocol, frozenset(needed)), []).append(table.spec.table)
    body = []
    for (protocol, keys), names in groups.items():
        runs = []
        for key in sorted(keys):
            record = source.load(key)
            runs.append((science(configs[key]), None if record is None else record.seconds["total"]))
        recorded = sum(seconds is not None for _, seconds in runs)
        total = hours(runs)
        about = "" if recorded == len(runs) else "about "
        line = [" and ".join(dict.fromkeys(names)), protocol, f"{recorded} of {len(runs)}"]
        body.append([*line, f"{about}{total:.1f}", f"{about}{total / CORES:.1f}"])
    heads = ["table", "protocol", "runs recorded", "hours, one core", f"hours, {CORES} cores"]
    told = (
        "Sum of the seconds in the records, a run on one core; runs still to do (`about`) as long as those most alike. "
    )
    told += "Tuning candidates are counted."
    return f"{told}\n\n{grid_text(heads, body, numbers_from=2)}"
