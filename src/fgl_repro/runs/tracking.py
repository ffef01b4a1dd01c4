"""Weights & Biases: a mirror of the records.

What is logged is a pure function of a record and its curves, so a run that logs live and an old record that is pushed
months later leave the same trace. The JSON record stays the truth: nothing here is ever read back, and a failure of W&B
costs a run its mirror, never its numbers.

``wandb`` is imported only when something is to be logged; ``mode="disabled"`` never imports it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fgl_repro.core.errors import UserError, first_line
from fgl_repro.data.catalog import rebuilt
from fgl_repro.runs.names import mirror_name, row_of

if TYPE_CHECKING:
    import pandas as pd

    from fgl_repro.runs.record import Note, Record

STEP = "round"

_PROVENANCE = ("data", "partition", "world", "versions", "git", "device", "threads")
"""Parts of a record that a dashboard may filter by; known only once the run has been set up."""

_QUIET: dict[str, Any] = {
    "console": "off",
    "silent": True,
    "disable_git": True,
    "save_code": False,
    "init_timeout": 30.0,
    "login_timeout": 20.0,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
}
"""W&B's own probes of the machine are off: they slow short runs down, and the record already holds what matters."""

_MEASURED = ("x_disable_meta", "x_disable_stats", "x_disable_machine_info")

_refused: set[str] = set()
"""``online``, once it failed: a sweep must not wait for the same refusal a thousand times."""

log = logging.getLogger(__name__)


def run_args(
    note: Note, attempt: int, *, tags: Sequence[str], labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Make the keyword arguments of ``wandb.init`` that say which run it is.

    The id ends in the attempt because W&B never lets the id of a deleted run be used again. The row is method and
    variant, unless ``labels``, further entries of the config, say what a table calls it.
    """
    config = note.config
    row, key = row_of(config), note.key
    method, dataset, world = config["method"]["name"], config["dataset"]["name"], config["setting"]["world"]
    own = [*tags, method, row, dataset, *(["rebuild"] if rebuilt(dataset) else []), world]
    return {
        "group": note.cell[:12],
        "name": mirror_name(config, key),
        "id": f"{key[:12]}-{attempt}",
        "tags": list(dict.fromkeys(str(tag)[:64] for tag in own if tag)),
        "config": {**config, "row": row, "record_key": key, "cell": note.cell, **provenance(note), **(labels or {})},
    }


def provenance(note: Note) -> dict[str, Any]:
    """Collect data, partition, world, versions and code of a run, as far as its note, or its record, knows them."""
    found = {name: getattr(note, name) for name in _PROVENANCE if hasattr(note, name)}
    plain: dict[str, Any] = json.loads(json.dumps(found))  # W&B shows anything else as one blob
    return plain


def flat_numbers(record: Record) -> dict[str, float | int | str]:
    """Collect the selected numbers of a record under flat names such as ``seen_graph/best/accuracy``.

    Accuracies are fractions, ``bytes/...`` bytes per client over all rounds, ``seconds/...`` wall seconds. Of the
    vector over clients there are the ends and the std, as ``seen_graph/best/client_lowest``; the rest stays in the
    record. Missing values (a probe without rows) are left out. What test rows selected is called ``test``.
    """
    content = record.as_json()
    parts = {name: content[name] for name in ("selection", "bytes", "seconds", "peak_memory_mb")}
    numbers = _flat({**content["metrics"], **parts})
    for probe, rounds in record.metrics.items():
        for at, found in rounds.items():
            numbers |= {f"{probe}/{at}/client_{word}": value for word, value in _spread(found.clients).items()}
    total = sum(number for name, number in numbers.items() if name.startswith("bytes/"))
    return {"status": record.status, **_called_test(numbers, record), "bytes/total": total}


def _called_test(numbers: Mapping[str, Any], note: Note) -> dict[str, Any]:
    """Call what selects the round by its name: where test rows do it, ``validation`` becomes ``test``."""
    if not note.tested:
        return dict(numbers)
    return {re.sub(r"^(selection/)?validation", r"\1test", name): value for name, value in numbers.items()}


def _spread(values: Sequence[float | None]) -> dict[str, float]:
    """Measure how far apart clients are; nothing of fewer than two that were tested."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return {}
    return {"lowest": min(known), "highest": max(known), "std": statistics.pstdev(known)}


def history(curves: Mapping[str, Sequence[Any]]) -> list[dict[str, float | int]]:
    """List the rows of the curves (``round`` is one of them), one a round, without the gaps."""
    return [_flat(dict(zip(curves, values, strict=True))) for values in zip(*curves.values(), strict=True)]


class Live:
    """One W&B run, opened at once and closed whatever happens.

    Use it as a context manager, call :meth:`log` every round and :meth:`finish` with the record at the end. The run
    counts as successful only if a record with status ``ok`` arrived.

    Args:
        note: With which the run begins, with ``wandb`` of an earlier attempt if there was one.
        mode: ``offline``, ``online`` or ``disabled``. ``online`` falls back to ``offline`` when W&B cannot be reached.
        fall_back: Whether it does so; else a :class:`UserError` says it when the run is opened.
        entity: W&B user or team; default: the user's own.
        dir: Folder in which W&B makes its folder ``wandb``; default ``WANDB_DIR``, else the working directory.
        tags: Further tags, such as the paper or the table the run belongs to.
        job_type: ``train``, or the name of the table that asked for the run.
        system: Whether W&B measures the machine meanwhile (processor, memory, GPU).
        labels: What the table that asked for the run calls it, as entries of the config.
    """

    def __init__(
        self,
        note: Note,
        *,
        mode: str = "offline",
        project: str = "fgl_repro",
        entity: str | None = None,
        dir: str | Path | None = None,
        tags: Sequence[str] = (),
        job_type: str = "train",
        system: bool = False,
        labels: Mapping[str, str] | None = None,
        fall_back: bool = True,
    ) -> None:
        self._system, self._fall_back = system, fall_back
        self._mode, self._dir, self._before, self._note = mode, folder_of_wandb(dir), note.wandb, note
        self._run: Any = None
        self._ok = False
        self._attempt = 0 if mode == "disabled" else _next_attempt(note.key[:12], self._dir, note.wandb)
        about = {"project": project, "entity": entity, "job_type": job_type}
        self._args = about | run_args(note, self._attempt, tags=tags, labels=labels)

    @property
    def info(self) -> dict[str, Any]:
        """What the record's ``wandb`` should be: of the open run, or of the attempt before if nothing is logged."""
        if self._run is None:
            return dict(self._before)
        url = None if self._run.offline else self._run.url
        return {"attempt": int(self._run.id.rpartition("-")[2]), "id": self._run.id, "url": url}

    def __enter__(self) -> Self:
        if self._mode != "disabled":
            self._run = _open(self._mode, self._args, self._dir, self._system, self._fall_back)
            self._try("describe the metrics", _by_round)
        return self

    def log(self, round: int, values: Mapping[str, Any]) -> None:
        """Log the finite ones among ``values`` for communication round ``round``."""
        self._try("log a round", lambda run: run.log(_called_test(_flat({**values, STEP: round}), self._note)))

    def finish(self, record: Record) -> None:
        """Write what only the end of a run knows: provenance and the selected numbers."""
        self._ok = record.status == "ok"
        self._try("add the provenance", lambda run: run.config.update(provenance(record), allow_val_change=True))
        self._try("write the summary", lambda run: run.summary.update(flat_numbers(record)))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        code = 0 if self._ok and kind is None else 1
        self._try("close the run", lambda run: run.finish(exit_code=code))

    def _try(self, doing: str, action: Callable[[Any], object]) -> None:
        """Do something with the open run, if there is one; an error of W&B becomes one sentence."""
        if self._run is None:
            return
        try:
            action(self._run)
        except Exception as error:
            log.warning("W&B could not %s (%s); the run goes on and its record is complete.", doing, first_line(error))


def push(record: Record, curves: Mapping[str, Sequence[Any]], **options: Any) -> dict[str, Any]:
    """Log a finished record after the fact, as a live run would have, by the ``options`` of :class:`Live`.

    A record that already has a mirror, by its own ``wandb`` entry or by a run folder, gets the next attempt.

    Returns:
        ``{attempt, id, url}``, to be stored as the record's ``wandb``; unchanged from the record if nothing was logged.

    Raises:
        UserError: W&B is to be logged to online, and cannot be reached: every try would leave another copy here.
    """
    with Live(record, fall_back=False, **options) as live:
        for row in history(curves):
            live.log(int(row[STEP]), row)
        live.finish(record)
        return live.info


def push_table(
    frame: pd.DataFrame,
    name: str,
    *,
    mode: str = "offline",
    project: str = "fgl_repro",
    entity: str | None = None,
    dir: str | Path | None = None,
    tags: Sequence[str] = (),
    group: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> str | None:
    """Log a finished table as a ``wandb.Table`` and as an artifact that holds it also as CSV.

    Args:
        frame: The table; levels of a column index are joined by a space, the row index is not logged.
        name: Name of the artifact and of the run, ``table-<paper>-<number>``.
        mode: As of :class:`Live`; so are ``project``, ``entity``, ``dir`` and ``tags``.
        group: W&B's group of the run.
        config: Which table it is, and what it was narrowed to.

    Returns:
        Id of the W&B run, or None if nothing was logged.

    Raises:
        UserError: As of :func:`push`.
    """
    if mode == "disabled":
        return None
    flat = frame.set_axis([" ".join(map(str, c)).strip() if isinstance(c, tuple) else str(c) for c in frame], axis=1)
    flat = flat.astype(object).where(flat.notna(), None)
    csv = flat.to_csv(index=False)
    key, folder = f"{name}-{hashlib.sha256(csv.encode()).hexdigest()[:8]}", folder_of_wandb(dir)
    run_id = f"{key}-{_next_attempt(key, folder)}"
    args: dict[str, Any] = {"project": project, "entity": entity, "group": group, "config": dict(config or {})}
    args |= {"job_type": "table", "name": name, "id": run_id, "tags": list(tags)}
    run = _open(mode, args, folder, fall_back=False)
    if run is None:
        return None
    try:
        import wandb

        rows: list[Any] = flat.to_numpy().tolist()
        table = wandb.Table(columns=[str(column) for column in flat], data=rows, allow_mixed_types=True)
        run.log({name: table})
        artifact = wandb.Artifact(name, type="table", metadata={"rows": len(flat)})
        artifact.add(table, "table")
        with artifact.new_file(f"{name}.csv", mode="w") as file:
            file.write(csv)
        run.log_artifact(artifact)
        run.finish(exit_code=0)
    except Exception as error:
        log.warning("W&B could not take %s (%s); the CSV in results/ is complete.", name, first_line(error))
        with suppress(Exception):
            run.finish(exit_code=1)
        return None
    return run_id


def _by_round(run: Any) -> None:
    """Plot against rounds, and keep W&B from putting the last round's values where the selected ones belong."""
    run.define_metric(STEP, summary="none")
    run.define_metric("*", step_metric=STEP, summary="none")


def _open(mode: str, args: Mapping[str, Any], folder: Path, system: bool = False, fall_back: bool = True) -> Any:
    """Open a W&B run; None, after a warning, if nothing works.

    Where online is impossible it is offline or, without ``fall_back``, a :class:`UserError`.
    """
    _tell_mode(mode, os.environ.get("WANDB_MODE"))
    stem, _, attempt = str(args["id"]).rpartition("-")
    free = int(attempt)
    for choice in dict.fromkeys([mode, "offline"] if fall_back else [mode]):
        if choice in _refused and fall_back:
            continue
        try:
            import wandb

            folder.mkdir(parents=True, exist_ok=True)
            quiet = {name: value for name, value in _QUIET.items() if name in wandb.Settings.model_fields}
            measured = dict.fromkeys(_MEASURED, False) if system else {}
            settings = wandb.Settings(**{**quiet, **measured, "mode": choice})
            own = {**args, "id": f"{stem}-{free}", "dir": str(folder)}
            return wandb.init(**own, reinit="create_new", settings=settings)
        except Exception as error:
            if choice == "online" and not fall_back:
                reason = first_line(error)
                raise UserError(f"W&B is out of reach ({reason}): wandb login first, or --mode offline.") from error
            free += 1  # W&B keeps the id of a run that it could not send
            sentence = "W&B is off for this run (%s); its record is complete."
            if choice == "online":
                _refused.add(choice)
                sentence = "W&B online is out of reach (%s): logging offline; send it later by: wandb sync."
            log.warning(sentence, first_line(error))
    return None


@cache
def _tell_mode(mode: str, asked: str | None) -> None:
    """Say once that W&B's own variable is not read where it asks for something else."""
    if asked and asked != mode:
        log.warning("WANDB_MODE=%s is not read: logger (of a push --mode) decides, and says %s.", asked, mode)


def _next_attempt(stem: str, folder: Path, before: Mapping[str, Any] | None = None) -> int:
    """Find the first attempt whose id was used neither by the record nor by a run folder on this machine.

    The folders matter: a run that was killed left one behind but no record, and syncing two folders with one id
    would replace the first by the second.
    """
    attempt = int(before["attempt"]) + (before["id"] is not None) if before else 0
    while next((folder / "wandb").glob(f"*run-*-{stem}-{attempt}"), None) is not None:
        attempt += 1
    return attempt


def folder_of_wandb(dir: str | Path | None = None) -> Path:
    """Tell in which folder W&B makes its own, ``wandb``."""
    return Path(dir or os.environ.get("WANDB_DIR") or ".")


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, float | int]:
    """Collect the finite numbers at the leaves of nested mappings, named by their path.

    What is missing is a gap, not a zero.
    """
    out: dict[str, float | int] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            out |= _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and math.isfinite(value):
            out[f"{prefix}{name}"] = value
    return out
