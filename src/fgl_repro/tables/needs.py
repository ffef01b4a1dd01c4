"""The runs that a table needs: before tuning, its candidates, and those it prints once tuning has chosen."""

from __future__ import annotations

from fgl_repro.config import Config, compose_ahead, key_of, keys_of, override
from fgl_repro.core.errors import UserError
from fgl_repro.runs import tuning
from fgl_repro.runs.store import RunSource
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.spec import TableSpec


def compose(spec: TableSpec, protocol: str) -> None:
    """Compose all options that the table needs in one go."""
    named = {
        "dataset": spec.datasets,
        "partitioner": [spec.partitioner],
        "setting": [panel.setting for panel in spec.panels],
        "protocol": [protocol],
        "model": [spec.model, *(row.model for row in spec.rows), *(panel.model for panel in spec.panels)],
        "method": [row.method for row in spec.rows],
    }
    compose_ahead((group, name) for group, names in named.items() for name in names if name)


def firsts(spec: TableSpec, protocol: str) -> list[Config]:
    """Compose the first run of every cell at hand, before tuning."""
    compose(spec, protocol)
    return [_first(spec, cell, protocol) for cell in spec.planned()]


def _first(spec: TableSpec, cell: Cell, protocol: str) -> Config:
    """Compose the first run of a cell, before tuning.

    Raises:
        UserError: A candidate would have another value of what tells the cell's row from others of its method, or the
            protocol's runs do not measure what the cell asks for.
    """
    config = spec.config(cell, protocol, spec.seeds[0])
    if (metric := spec.metric_name(cell.panel)) == "f1" and config.protocol.average != "nodes":
        raise UserError(
            f"panel {cell.panel.name} of {spec.name} asks for metric {metric}, which runs measure under "
            f"protocol.average=nodes alone, and {protocol} has {config.protocol.average}: take another of either."
        )
    tuned = {name for overrides in tuning.candidate_overrides(config) for name in overrides}
    kind = (cell.row.method, cell.row.variant)
    kin = [row for row in (spec.whole or spec).rows if (row.method, row.variant) == kind]
    if len(kin) > 1 and (both := sorted(tuned & set(cell.row.overrides))):
        raise UserError(
            f"protocol {protocol} tunes {', '.join(both)}, which row {cell.row.id} of {spec.name} sets: take the "
            f"protocol out of the table's, or {both[0]} out of the candidates in conf/protocol/{protocol}.yaml."
        )
    return config


def _at_seeds(config: Config, spec: TableSpec) -> list[Config]:
    """Make the runs of a cell."""
    return [override(config, {"seed": seed}) for seed in spec.seeds]


def runs(spec: TableSpec, protocol: str) -> list[Config]:
    """List every run of the table before tuning; panels that share a world name the same run more than once."""
    return [run for config in firsts(spec, protocol) for run in _at_seeds(config, spec)]


def candidate_runs(spec: TableSpec, protocol: str) -> list[Config]:
    """List the first phase of a tuned table; empty otherwise."""
    return [candidate for config in firsts(spec, protocol) for candidate in tuning.candidate_configs(config)]


def chosen_keys(
    spec: TableSpec, cell: Cell, protocol: str, source: RunSource
) -> tuple[list[str], tuning.Candidate | None]:
    """Find the keys of a cell's runs, one a seed, and what tuning chose; no keys while candidates are missing."""
    best = tuning.best_candidate(_first(spec, cell, protocol), source)
    return (keys_of(best.config, spec.seeds) if best else []), best


def chosen_runs(spec: TableSpec, protocol: str, source: RunSource) -> tuple[list[Config], int]:
    """List the second phase: the runs a table prints, and how many cannot be named yet as candidates are missing."""
    found = [tuning.chosen_config(config, source) for config in firsts(spec, protocol)]
    known = [run for config in found if config is not None for run in _at_seeds(config, spec)]
    return known, found.count(None) * len(spec.seeds)


def needed(spec: TableSpec, protocol: str, source: RunSource) -> dict[str, Config]:
    """List every run a table rests on that can be named yet, candidates included: its key, and config at some seed."""
    configs = firsts(spec, protocol)
    found = {key_of(run): run for config in configs for run in tuning.candidate_configs(config)}
    for config in configs:
        if (chosen := tuning.chosen_config(config, source)) is not None:
            found |= dict.fromkeys(keys_of(chosen, spec.seeds), chosen)
    return found
