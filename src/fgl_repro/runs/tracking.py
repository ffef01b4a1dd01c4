"""Weights & Biases: a mirror of the records.

What is logged is a pure function of a record and its curves (:func:`run_args`, :func:`history`, :func:`summary`), so a
run that logs live and an old record that is pushed months later leave the same trace. The JSON record stays the truth:
nothing here is ever read back, and a failure of W&B costs a run its mirror, never its numbers.

``wandb`` is imported only when something is to be logged; ``mode="disabled"`` never imports it.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fgl_repro.core.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from fgl_repro.runs.record import Note

MODES = ("offline", "online", "disabled")
PROJECT = "fgl_repro"
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

_refused: set[str] = set()
"""``online``, once it failed: a sweep must not wait for the same refusal a thousand times."""

log = logging.getLogger(__name__)


def run_args(
    record: Note,
    *,
    project: str = PROJECT,
    tags: Sequence[str] = (),
    job_type: str = "train",
    attempt: int | None = None,
) -> dict[str, Any]:
    """Keyword arguments of ``wandb.init`` that describe a run.

    Args:
        record: A record, or the note with which a run begins.
        project: W&B project.
        tags: Further tags, such as the paper or the table the run belongs to.
        job_type: ``train``, or the name of the table that asked for the run.
        attempt: Number of the mirror of this record; default: the record's own.

    Returns:
        ``project, group, job_type, name, id, tags, config``. The id ends in the attempt because W&B never lets the id
        of a deleted run be used again.
    """
    config = record.config
    method, dataset, world = config["method"]["name"], config["dataset"]["name"], config["setting"]["world"]
    clients, seed, key = config["partitioner"]["clients"], config["seed"], record.key
    if attempt is None:
        attempt = record.wandb["attempt"]
    variant = config["method"].get("variant")
    own = [*tags, config["protocol"].get("name"), method, variant and f"{method}-{variant}", dataset, world]
    return {
        "project": project,
        "group": record.cell[:12],
        "job_type": job_type,
        "name": f"{method}-{dataset}-{clients}c-{world}-s{seed}-{key[:6]}",
        "id": f"{key[:12]}-{attempt}",
        "tags": list(dict.fromkeys(str(tag)[:64] for tag in own if tag)),
        "config": {**_plain(config), "record_key": key, "cell": record.cell, **provenance(record)},
    }


def provenance(record: Note) -> dict[str, Any]:
    """Data, partition, world, versions and code of a run, as far as the record knows them."""
    return {name: _plain(value) for name in _PROVENANCE if (value := getattr(record, name, None)) is not None}


def summary(record: Note) -> dict[str, float | int | str]:
    """The selected numbers of a record under flat names such as ``seen_graph/best/accuracy``.

    Accuracies are fractions, ``bytes/...`` bytes per client over all rounds, ``seconds/...`` wall seconds. Per-client
    vectors stay in the record. Missing values (a probe without rows) are left out.
    """
    content = record.as_json()
    out: dict[str, float | int | str] = {"status": record.status}
    out.update(_flat(content.get("metrics"), ""))
    out.update(_flat(content.get("selection"), "selection/"))
    traffic = _flat(content.get("bytes"), "bytes/")
    out.update(traffic)
    if traffic:
        out["bytes/total"] = sum(traffic.values())
    out.update(_flat(content.get("seconds"), "seconds/"))
    out.update(_flat({"peak_memory_mb": content.get("peak_memory_mb")}, ""))
    return out


def history(curves: Mapping[str, Sequence[Any]]) -> list[dict[str, float | int]]:
    """Rows of the curves, one a round, without the gaps.

    Args:
        curves: Column name to values of equal length; ``round`` is one of the columns, the others are metrics.
    """
    if not curves:
        return []
    if STEP not in curves:
        raise UserError(f"curves need a column called {STEP}: these have {', '.join(curves)}.")
    rows = zip(*curves.values(), strict=True)
    return [_row(int(row[STEP]), row) for row in (dict(zip(curves, values, strict=True)) for values in rows)]


class Live:
    """One W&B run, opened at once and closed whatever happens.

    Use it as a context manager, call :meth:`log` every round and :meth:`finish` with the record at the end. The run
    counts as successful only if a record with status ``ok`` arrived. :attr:`info` is what belongs into
    the records ``wandb``.

    Args:
        record: The note with which the run begins, with ``wandb`` of an earlier attempt if there was one.
        mode: ``offline``, ``online`` or ``disabled``. ``online`` falls back to ``offline`` when W&B cannot be reached.
        project: W&B project.
        entity: W&B user or team; default: the user's own.
        dir: Folder in which W&B makes its folder ``wandb``; default ``WANDB_DIR``, else the working directory.
        tags: See :func:`run_args`.
        job_type: See :func:`run_args`.

    Raises:
        UserError: If ``mode`` is none of the three.
    """

    def __init__(
        self,
        record: Note,
        *,
        mode: str = "offline",
        project: str = PROJECT,
        entity: str | None = None,
        dir: str | Path | None = None,
        tags: Sequence[str] = (),
        job_type: str = "train",
    ) -> None:
        _check(mode)
        self._mode, self._entity, self._dir = mode, entity, _folder(dir)
        self._run: Any = None
        self._ok = False
        before = record.wandb
        self.attempt = before["attempt"] if mode == "disabled" else _next_attempt(record.key, before, self._dir)
        self._args = run_args(record, project=project, tags=tags, job_type=job_type, attempt=self.attempt)
        self._before = before

    @property
    def info(self) -> dict[str, Any]:
        """``{attempt, id, url}`` of the open run; of the previous attempt if nothing is being logged."""
        if self._run is None:
            return dict(self._before)
        url = None if self._run.offline else self._run.url
        return {"attempt": self.attempt, "id": self._args["id"], "url": url}

    @property
    def folder(self) -> Path | None:
        """Folder W&B writes this run to; None if nothing is being logged."""
        return None if self._run is None else Path(self._run.dir).parent

    def __enter__(self) -> Self:
        if self._mode != "disabled":
            self._run = _open(self._mode, self._args, entity=self._entity, dir=self._dir)
            self._try("describe the metrics", _by_round)
        return self

    def log(self, round: int, values: Mapping[str, Any]) -> None:
        """Log the finite ones among ``values`` for communication round ``round``."""
        self._try("log a round", lambda run: run.log(_row(round, values)))

    def finish(self, record: Note) -> None:
        """Write what only the end of a run knows: provenance and the selected numbers."""
        self._ok = record.status == "ok"
        self._try("add the provenance", lambda run: run.config.update(provenance(record), allow_val_change=True))
        self._try("write the summary", lambda run: run.summary.update(summary(record)))

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
            log.warning("W&B could not %s (%s); the run goes on and its record is complete.", doing, _line(error))


def push(
    record: Note,
    curves: Mapping[str, Sequence[Any]] | None = None,
    *,
    mode: str = "offline",
    project: str = PROJECT,
    entity: str | None = None,
    dir: str | Path | None = None,
    tags: Sequence[str] = (),
    job_type: str = "train",
) -> dict[str, Any]:
    """Log a finished record after the fact, as a live run would have.

    A record that already has a mirror, by its own ``wandb`` entry or by a run folder under ``dir``, gets the next
    attempt. Nothing is written to the record.

    Returns:
        ``{attempt, id, url}``, to be stored as the records ``wandb``; unchanged from the record if nothing was logged.
    """
    with Live(record, mode=mode, project=project, entity=entity, dir=dir, tags=tags, job_type=job_type) as live:
        for row in history(curves or {}):
            live.log(int(row[STEP]), row)
        live.finish(record)
        return live.info


def push_table(
    frame: pd.DataFrame,
    name: str,
    *,
    mode: str = "offline",
    project: str = PROJECT,
    entity: str | None = None,
    dir: str | Path | None = None,
    tags: Sequence[str] = (),
) -> str | None:
    """Log a finished table as a ``wandb.Table`` and as an artifact that holds it also as CSV.

    Args:
        frame: The table; levels of a column index are joined by a space, the row index is not logged.
        name: Name of the artifact and of the run, ``table-<paper>-<number>``.
        mode: See :class:`Live`; so are the other arguments.

    Returns:
        Id of the W&B run, or None if nothing was logged.
    """
    _check(mode)
    if mode == "disabled":
        return None
    flat = frame.set_axis([" ".join(map(str, c)).strip() if isinstance(c, tuple) else str(c) for c in frame], axis=1)
    flat = flat.astype(object).where(flat.notna(), None)
    csv = flat.to_csv(index=False)
    key, folder = f"{name}-{hashlib.sha256(csv.encode()).hexdigest()[:8]}", _folder(dir)
    attempt = _next_attempt(key, {"attempt": 0, "id": None}, folder, short=len(key))
    args = {"project": project, "job_type": "table", "name": name, "id": f"{key}-{attempt}", "tags": list(tags)}
    run = _open(mode, args, entity=entity, dir=folder)
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
        log.warning("W&B could not take %s (%s); the CSV in results/ is complete.", name, _line(error))
        run.finish(exit_code=1)
    return str(args["id"])


def _by_round(run: Any) -> None:
    """Plot against rounds, and keep W&B from putting the last round's values where the selected ones belong."""
    run.define_metric(STEP, summary="none")
    run.define_metric("*", step_metric=STEP, summary="none")


def _open(mode: str, args: Mapping[str, Any], *, entity: str | None, dir: Path) -> Any:
    """An open W&B run; offline if online is impossible; None, after a warning, if nothing works."""
    try:
        import wandb

        dir.mkdir(parents=True, exist_ok=True)
    except (ImportError, OSError) as error:
        log.warning("W&B is off for this run (%s); its record is complete.", _line(error))
        return None
    quiet = {name: value for name, value in _QUIET.items() if name in wandb.Settings.model_fields}
    for choice in dict.fromkeys([mode, "offline"]):
        if choice in _refused:
            continue
        try:
            settings = wandb.Settings(**{**quiet, "mode": choice})
            return wandb.init(**args, entity=entity, dir=str(dir), reinit="create_new", settings=settings)
        except Exception as error:
            if choice == "online":
                _refused.add(choice)
                log.warning(
                    "W&B online is out of reach (%s): logging offline; send it later by: wandb sync.", _line(error)
                )
            else:
                log.warning("W&B is off for this run (%s); its record is complete.", _line(error))
    return None


def _next_attempt(key: str, before: Mapping[str, Any], folder: Path, short: int = 12) -> int:
    """First attempt whose id was used neither by the record nor by a run folder on this machine.

    The folders matter: a run that was killed left one behind but no record, and syncing two folders with one id
    would replace the first by the second.
    """
    attempt = int(before["attempt"]) + (before["id"] is not None)
    while next((folder / "wandb").glob(f"*run-*-{key[:short]}-{attempt}"), None) is not None:
        attempt += 1
    return attempt


def _folder(dir: str | Path | None) -> Path:
    return Path(dir or os.environ.get("WANDB_DIR") or ".")


def _check(mode: str) -> None:
    if mode not in MODES:
        raise UserError(f"logger.mode={mode} is unknown: choose {', '.join(MODES)}.")


def _row(round: int, values: Mapping[str, Any]) -> dict[str, float | int]:
    """One round's finite numbers; a missing one is a gap in the curve, not a zero."""
    named = {name: _number(value) for name, value in values.items() if name != STEP}
    return {STEP: int(round), **{name: value for name, value in named.items() if value is not None}}


def _number(value: Any) -> float | int | None:
    """A finite Python number, from NumPy scalars and text (a CSV's) too; None for anything else."""
    if isinstance(value, bool | int):
        return int(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _flat(tree: Any, prefix: str) -> dict[str, float | int]:
    """Numbers at the leaves of nested mappings, named by their path; lists and missing values are left out."""
    if not isinstance(tree, Mapping):
        return {}
    out: dict[str, float | int] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            out.update(_flat(value, f"{prefix}{name}/"))
        elif not isinstance(value, list | tuple | str) and (number := _number(value)) is not None:
            out[f"{prefix}{name}"] = number
    return out


def _plain(value: Any) -> Any:
    """Nested plain containers with text keys: W&B shows anything else as one blob."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
