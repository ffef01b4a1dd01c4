"""From Python, for notebooks: the runs of ``fgl-train`` and the tables of ``fgl-table`` as objects and data frames.

Nothing here computes in a way of its own: a run has the key, the record and the folder that the command line gives it,
so each finds what the other has done. Mistakes are a :class:`~fgl_repro.core.errors.UserError`, in one sentence.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from fgl_repro.config import AXES, Config, build, key_of, options, search, unchecked
from fgl_repro.config.own import announce
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError, as_user_error
from fgl_repro.runs import frames, obtain, tuning
from fgl_repro.runs.finished import Run, Sweep
from fgl_repro.runs.folders import RunFolders, default_records, default_results, folder_named
from fgl_repro.runs.names import label
from fgl_repro.runs.provenance import advice_on_edit, mixed_graphs
from fgl_repro.runs.record import SELECTION_OF, Record
from fgl_repro.runs.store import PREFIX
from fgl_repro.tables import artifact, compare, needs, printing
from fgl_repro.tables import results as tables
from fgl_repro.tables.added import with_rows
from fgl_repro.tables.entries import ACCURACY
from fgl_repro.tables.load import load
from fgl_repro.tables.request import narrowed

__all__ = ["Run", "Sweep", "announce", "find", "records", "run", "search", "sweep", "table"]

Folder = str | Path | None
"""Where records lie, or what is published; None: where the command line looks."""

HEAD = (
    *("paper", "table", "panel", "protocol", "dataset", "clients", "method", "name", "variant"),
    *("chosen_on", "rebuild"),
)
WORDS = (
    *("paper", "table", "figure", "panel", "protocol", "dataset", "method", "name", "variant", "label", "note"),
    "chosen_on",
)
"""Columns of tables that hold words, also where they look like numbers."""


def run(
    method: str = "fedavg",
    dataset: str = "cora",
    clients: int | None = None,
    seed: int = 0,
    *,
    setting: str | None = None,
    protocol: str | None = None,
    partitioner: str | None = None,
    model: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    curves: str = "validation",
    fresh: bool = False,
    records: Folder = None,
    results: Folder = None,
) -> Run:
    """Return one run. It is computed only if it is neither recorded here nor published; where the protocol tunes, its
    candidates run first.

    Args:
        method: With its variant where it has several, as in ``fedpub:paper``.
        clients: None: the partitioner's own number. So with all that is None: as ``fgl-train`` has it.
        overrides: Dotted keys as on the command line, ``{"protocol.lr": 0.01, "runtime.device": "cuda:1"}``.
        curves: ``all`` keeps every probe in every round.
        fresh: What is only published does not count.
        records, results: Folders of the records and of what is published.

    Raises:
        UserError: An option does not exist, options do not go together, or the run cannot be done; or an announced data
            set gives another graph than its runs rest on.
    """
    choices = {"method": method, "dataset": dataset, "clients": clients, "seed": seed, "setting": setting}
    choices |= {"protocol": protocol, "partitioner": partitioner, "model": model}
    _refuse_several(choices)
    folders = _folders(records, results, fresh)
    config = _config(choices, _dotted(overrides), curves, folders)
    _refuse_changed_data([config])
    with as_user_error():
        obtain.obtain_tuned(config, folders)
    found = _found(config, folders, choices, _dotted(overrides))
    assert found is not None
    return found


def sweep(
    method: str | Iterable[str] = "fedavg",
    dataset: str | Iterable[str] = "cora",
    clients: int | Iterable[int] | None = None,
    seed: int | Iterable[int] = 0,
    *,
    setting: str | Iterable[str] | None = None,
    protocol: str | Iterable[str] | None = None,
    partitioner: str | Iterable[str] | None = None,
    model: str | Iterable[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    curves: str = "validation",
    fresh: bool = False,
    jobs: int = 1,
    records: Folder = None,
    results: Folder = None,
) -> Sweep:
    """Run every combination of what is given as a list; of ``overrides`` a list is several values, a tuple is one.

    A run that fails does not stop the others; runs that are recorded or published are found.

    Args:
        jobs: Runs at a time. One computes in this process; more start processes, for which a script (not a notebook)
            needs its ``if __name__ == "__main__":``.

    Raises:
        UserError: A combination can never run, a list is empty, or as of ``run`` an announced data set; said before
            anything has run.
    """
    folders = _folders(records, results, fresh)
    axes = {"method": method, "dataset": dataset, "clients": clients, "seed": seed, "setting": setting}
    axes |= {"protocol": protocol, "partitioner": partitioner, "model": model}
    listed = {name: _listed(value) for name, value in axes.items()}
    swept = {name: value if isinstance(value, list) else [value] for name, value in _dotted(overrides).items()}
    if empty := [name for name, values in [*listed.items(), *swept.items()] if not values]:
        raise UserError(f"{empty[0]} is an empty list, and the sweep would have no run: give at least one value.")
    asked = [
        (dict(zip(listed, chosen, strict=True)), dict(zip(swept, values, strict=True)))
        for chosen in product(*listed.values())
        for values in product(*swept.values())
    ]
    configs = [_config(*each, curves, folders) for each in asked]
    _refuse_changed_data(configs)
    failed = obtain.obtain_all(configs, jobs, folders)
    found = [_found(config, folders, *each) for config, each in zip(configs, asked, strict=True)]
    runs = tuple(run for run in found if run is not None)
    if mixed := mixed_graphs(run.record for run in runs):
        warnings.warn(mixed, stacklevel=2)
    return Sweep(runs, tuple(failed))


def find(key: str, *, records: Folder = None, results: Folder = None) -> Run:
    """Return the run whose key begins with ``key``, recorded here or, where none is, published (see
    :meth:`RunFolders.find`).

    Its probe is the first that its world has.

    Raises:
        UserError: There is none, or more than one.
    """
    folders = _folders(records, results, there=True)
    record = folders.find(key)
    world = registry.options("setting").get(record.config["setting"]["world"])
    probe = world.probes[0] if world is not None else next(iter(record.metrics))
    known = record.protocol in options("protocol")
    selection = unchecked(None, protocol=record.protocol).protocol.selection if known else "best_validation"
    return _as_run(record, probe, selection, folders)


def records(*, records: Folder = None, results: Folder = None) -> pd.DataFrame:
    """Return every run that is recorded here or published: a line for each of its probes at each of the two rounds.

    ``source`` is ``local``, or the paper with whose results a run is published; where it is both, the local one stands.
    """
    folders = _folders(records, results, there=True)
    store = folders.store
    files = {path.stem for path in store.files()}
    found = {record.key: (record, frames.LOCAL) for record in store.all(strict=False)}
    if unread := files - {key[:PREFIX] for key in found}:
        sentence = (
            f"{len(unread)} of {len(files)} records in {store.folder} could not be read: 'fgl-table check' says why."
        )
        warnings.warn(sentence, stacklevel=2)
    for paper, runs in folders.everything_published().items():
        found |= {key: (record, paper) for key, record in runs.items() if key not in found}
    lines = [line for record, source in found.values() for line in frames.scores(record, source)]
    return pd.DataFrame(lines, columns=frames.SCORES)


def table(
    name: str,
    *,
    protocol: str | None = None,
    datasets: Collection[str] = (),
    clients: Collection[int] = (),
    methods: Collection[str] = (),
    seeds: Collection[int] = (),
    add: Collection[str] = (),
    fill: bool = False,
    jobs: int = 1,
    records: Folder = None,
    results: Folder = None,
) -> pd.DataFrame:
    """Return a table or figure of a paper from the runs there are: ours, the printed number, the gap, the verdict.

    A grid of accuracies has a line a cell: ``mean`` and ``std`` over ``n_seeds`` runs at the round that the protocol
    prints, ``paper_mean`` and ``paper_std``, all as fractions (errors as they are); ``gap`` and ``half``, half the
    width of the 95 % interval around our mean, in points (of errors in percent of the printed number). Other tables
    and figures have the columns of their CSV.

    Args:
        name: As ``fgl-table list`` prints it: ``fedlog/1``, ``fedlog/fig9``.
        protocol: None: the table's first.
        datasets, clients, methods, seeds: Keep only these; empty: all.
        add: Methods, or ``method:variant``, that are further rows.
        fill: Do the runs that are missing, of added rows alone if there are some; otherwise nothing is run.
        jobs: As for ``sweep``.

    Raises:
        UserError: There is no such table, it lacks what it is narrowed to, or a run failed.
    """
    folders = _folders(records, results, there=not fill)
    kept = {"datasets": datasets, "clients": clients, "methods": methods, "seeds": seeds}
    wanted = narrowed(with_rows(load(name), _listed(add)), protocol, {axis: _listed(has) for axis, has in kept.items()})
    own = replace(folders, paper=wanted.spec.paper)
    _refuse_changed_data(needs.firsts(wanted.part, wanted.protocol))
    if fill and (failed := obtain.obtain_all(needs.runs(wanted.to_run, wanted.protocol), jobs, own)):
        raise UserError(f"{len(failed)} runs failed; {': '.join(failed[0])}")
    archive = own.done
    runs = needs.needed(wanted.part, wanted.protocol, archive)
    found = {key: record for key in runs if (record := archive.load(key)) is not None}
    for key, record in found.items():
        _refuse_other_data(record, runs[key])
    if mixed := mixed_graphs(found.values()):
        warnings.warn(mixed, stacklevel=2)
    if wanted.spec.kind != ACCURACY:
        return _frame(artifact.make(wanted.part, wanted.protocol, archive).content.rows)
    grid = tables.fill(wanted.part, wanted.protocol, archive)
    return _frame([_printed(line) for line in compare.rows(grid)])


# --- what these share -------------------------------------------------------------------------------------------------


def _listed(value: Any) -> list[Any]:
    return list(value) if _is_several(value) else [value]


def _is_several(value: Any) -> bool:
    """Tell whether a choice is several."""
    return isinstance(value, Iterable) and not isinstance(value, str)


def _refuse_several(choices: Mapping[str, Any]) -> None:
    """Refuse lists where a single run is asked for."""
    for name, value in choices.items():
        if _is_several(value):
            raise UserError(f"{name}={value!r:.80} gives several values: fgl_repro.sweep does a run for each of them.")


def _folders(records: Folder, results: Folder, fresh: bool = False, *, there: bool = False) -> RunFolders:
    """Find where runs are looked for, records ``there`` alone or made; a checkout's own results answer everywhere."""
    ours = folder_named(records, there=there) if records else folder_named(default_records())
    return RunFolders(ours, folder_named(results, there=True) if results else default_results(), fresh)


def _dotted(overrides: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Check overrides, in Python no words of a command line; NumPy's numbers and arrays become Python's own."""
    if overrides is None:
        return {}
    if not isinstance(overrides, Mapping) or not all(isinstance(key, str) for key in overrides):
        raise UserError(f'overrides={overrides!r:.80}: give dotted keys and values, as in {{"protocol.lr": 0.01}}.')
    if "paths.records" in overrides:
        raise UserError("overrides cannot move the records: give records=FOLDER.")
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in overrides.items()}


def _config(choices: Mapping[str, Any], overrides: Mapping[str, Any], curves: str, folders: RunFolders) -> Config:
    given = {name: value for name, value in choices.items() if value is not None}
    method, _, variant = str(given.get("method", "")).partition(":")
    given |= {"method": method} if method else {}
    dotted = {"method.variant": variant} if variant else {}
    return build({**dotted, "runtime.curves": curves, "paths.records": str(folders.records), **overrides}, **given)


def _refuse_changed_data(configs: Iterable[Config]) -> None:
    """Ask announced data sets for their graphs, each once, before anything is found or run, and refuse other ones.

    Their text is part of keys, and not the data that it refers to.
    """
    asked = {(config.paths.cache, repr(config.dataset)): config for config in configs if config.dataset.announced}
    for config in asked.values():
        config.dataset.refuse_change(Path(config.paths.cache))


def _refuse_other_data(record: Record, config: Config) -> None:
    """Refuse a run of an announced data set that was made on another graph: the cached one may be gone since."""
    if config.dataset.announced:
        config.dataset.refuse_other_graph(record.data["fingerprint"], Path(config.paths.cache))


def _options(choices: Mapping[str, Any], overrides: Mapping[str, Any]) -> str:
    """Write what of science was asked for and is no part of a run's usual name."""
    more = {name: choices[name] for name in ("setting", "protocol", "partitioner", "model")} | _of_science(overrides)
    return " ".join(f"{name}={value}" for name, value in more.items() if value is not None)


def _of_science(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the overrides that say what is run, not how or where."""
    return {name: value for name, value in overrides.items() if value is not None and name.partition(".")[0] in AXES}


def _found(config: Config, folders: RunFolders, choices: Mapping[str, Any], overrides: Mapping[str, Any]) -> Run | None:
    """Look up what was asked for, if it is there: of a protocol that tunes, the run that was chosen."""
    archive = folders.done
    chosen = tuning.chosen_config(config, archive)
    if chosen is None or not archive.is_done(key := key_of(chosen), chosen.runtime.curves):
        return None
    record = archive.load(key)
    assert record is not None
    _refuse_other_data(record, chosen)
    if archive.is_local(key) and (told := advice_on_edit(record, chosen, 'overrides={"runtime.force": True}')):
        warnings.warn(f"{label(record.config)}: {told}", stacklevel=3)
    run = _as_run(record, config.setting.focus, config.protocol.selection, folders)
    return replace(run, options=_options(choices, overrides), overrides=_of_science(overrides))


def _as_run(record: Record, probe: str, selection: str, folders: RunFolders) -> Run:
    curves = pd.DataFrame(folders.done.curves(record.key))
    curves = curves.astype({"round": int}).set_index("round") if "round" in curves else curves
    source = next((paper for paper, runs in folders.everything_published().items() if record.key in runs), frames.LOCAL)
    source = frames.LOCAL if folders.store.path(record.key).exists() else source
    return Run(record, curves, source, probe, SELECTION_OF[selection])


def _printed(line: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the columns of a comparison at the round that the protocol prints."""
    at = line["printed_selection"]
    ours = {name: line[f"{at}_{name}"] for name in ("mean", "std")} | {
        name: line[name] for name in ("n_seeds", "wanted")
    }
    theirs = {name: line[name] for name in ("paper_mean", "paper_std", "note")}
    beside = {"gap": line[f"{at}_points"], "half": line[f"{at}_half"]}
    beside["verdict"] = line[f"{at}_silent"] or line[f"{at}_verdict"]
    head = {name: line[name] for name in HEAD}
    return head | {"selection": at, "draws": line["draws"]} | ours | theirs | beside


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Read lines of a CSV with numbers as numbers; a blank is NaN, or an empty word."""
    words = [name for name in rows[0] if name in WORDS]
    text = io.StringIO(printing.csv_text(rows))
    found = pd.read_csv(text, dtype=dict.fromkeys(words, str), keep_default_na=False, na_values=[""])
    return found.fillna(dict.fromkeys(words, ""))
