"""Dashboards of Weights & Biases as code: a workspace and a report of a table, from its spec.

The workspace charts the runs of the table as ``fgl-table push`` logs them, by row with bands over seeds; the report
stands the printed numbers beside ours and has the same charts for each column. Both are plain data, which are written
as files, or saved at W&B where an entity is named.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgl_repro.core.errors import UserError, first_line
from fgl_repro.core.extras import missing
from fgl_repro.core.files import write_atomic
from fgl_repro.tables import compare
from fgl_repro.tables.entries import place
from fgl_repro.tables.results import ROUND_NAMES, Grid, round_name, rules
from fgl_repro.tables.run_labels import COLUMN, PLACED, ROW
from fgl_repro.tables.spec import TableSpec

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2 import Report
    from wandb_workspaces.workspaces import Workspace

SPREAD = ("lowest", "highest")
"""Of the accuracies of single clients, as the summary of a logged run has them."""


def check() -> None:
    """Refuse to begin without the package.

    Raises:
        UserError: It says how to install it.
    """
    if find_spec("wandb_workspaces") is None:
        raise missing("wandb-workspaces", "dashboards", "a dashboard")


def _asked(spec: TableSpec) -> list[tuple[str, str]]:
    """List probe and entry of a measurement that the table's panels print, each once."""
    return list(dict.fromkeys((panel.probe, spec.metric_of(panel).entry) for panel in spec.panels))


def _panels(spec: TableSpec, protocol: str, group: str) -> dict[str, list[Any]]:
    """Make charts by the name of their section: means of runs that are alike in ``group``, with a band of one std."""
    from wandb_workspaces.reports import v2

    chooser = rules(spec, protocol).selected_by  # what the curve of the choosing rows is called
    tested = chooser == "test"
    by_row: dict[str, Any] = {"groupby": v2.Config(group), "groupby_aggfunc": "mean", "groupby_rangefunc": "stddev"}

    def curve(metric: str) -> Any:
        return v2.LinePlot(title=metric, x="round", y=[metric], title_x="round", max_runs_to_show=100, **by_row)

    def bar(title: str, metric: str) -> Any:
        metrics = [v2.SummaryMetric(metric)]
        return v2.BarPlot(title=title, metrics=metrics, orientation="h", max_runs_to_show=100, **by_row)

    asked = _asked(spec)
    names = list(dict.fromkeys(probe for probe, _ in asked))
    sections = {
        "Selected numbers": [
            bar(f"{p}, {entry}, {round_name(at, tested)}", f"{p}/{at}/{entry}")
            for p, entry in asked
            for at in ROUND_NAMES
        ],
        "Curves": [curve(name) for name in (chooser, "loss", *names)],
        "Clients": [bar(f"{p}: {word} client", f"{p}/best/client_{word}") for p in names for word in SPREAD],
        "Cost": [
            bar("bytes of a client", "bytes/total"),
            bar("seconds", "seconds/total"),
            bar("MB of memory, Python and torch included", "peak_memory_mb"),
        ],
    }
    each = v2.LinePlot(title=f"{chooser}, client by client", x="round", metric_regex=f"^{chooser}/[0-9]+$")
    sections["Clients"].append(each)
    for name, panels in sections.items():
        for panel in panels:
            panel._id = _digest(spec.name, name, panel.title)  # W&B's own would differ from call to call
    return sections


def _digest(*words: object) -> str:
    return hashlib.sha256("|".join(map(str, words)).encode()).hexdigest()[:11]


def workspace(spec: TableSpec, protocol: str, entity: str, project: str) -> Workspace:
    """Make the workspace of a table: a section for selected numbers, curves, clients and cost."""
    from wandb_workspaces import expr, workspaces

    parts = _panels(spec, protocol, PLACED)
    sections = [workspaces.Section(name=name, panels=own, is_open=name != "Cost") for name, own in parts.items()]
    return workspaces.Workspace(
        entity=entity,
        project=project,
        name=f"{spec.name}, {protocol}",
        sections=sections,
        runset_settings=workspaces.RunsetSettings(
            filters=expr.And(expr.Metric("JobType") == spec.name, expr.Tags().isin([protocol])),
            groupby=[expr.Config(COLUMN), expr.Config(ROW)],
            pinned_columns=[f"summary:{probe}/best/{entry}" for probe, entry in _asked(spec)],
        ),
    )


def report(table: Grid, entity: str, project: str) -> Report:
    """Write the report of a filled table: ours beside print, then each column's charts."""
    from wandb_workspaces.reports import v2

    spec = table.spec
    blocks: list[Any] = [v2.P(text) for text in filter(None, (spec.note, spec.blank))]
    found = compare.verdicts_of(table, table.selection)
    for dataset, clients in spec.places:
        beside = {panel: compare.beside(table, panel, dataset, clients, found) for panel in spec.panels}
        if not any(beside.values()):
            continue
        blocks.append(v2.H2(place(dataset, clients)))
        for panel, text in beside.items():
            blocks += [v2.H3(panel.title), v2.MarkdownBlock(text)] if text else []
        runset = v2.Runset(
            entity=entity,
            project=project,
            name=place(dataset, clients),
            filters=_filter(spec, table.protocol, dataset, clients),
            groupby=[f"config.{ROW}"],
        )
        runset._id = _digest(spec.name, runset.name)
        panels = [panel for section in _panels(spec, table.protocol, ROW).values() for panel in section]
        blocks.append(v2.PanelGrid(runsets=[runset], panels=_placed(panels)))
    title = f"{spec.full_title}, {table.protocol}"[:128]
    return v2.Report(
        entity=entity, project=project, title=title, description=spec.measure, blocks=blocks, width="fluid"
    )


def _filter(spec: TableSpec, protocol: str, dataset: str, clients: int) -> str:
    return (
        f"Metric('JobType') = '{spec.name}' and Tags() in ['{protocol}'] and "
        f"Config('{COLUMN}') = '{place(dataset, clients)}'"
    )


def _placed(panels: Sequence[Any]) -> list[Any]:
    """Place the panels, three in a row of W&B's 24 columns."""
    from wandb_workspaces.reports import v2

    for number, panel in enumerate(panels):
        panel.layout = v2.Layout(x=8 * (number % 3), y=6 * (number // 3), w=8, h=6)
    return list(panels)


def write(table: Grid, folder: Path, project: str) -> list[Path]:
    """Write both as JSON, as W&B would store them; returns the files."""
    built: dict[str, Any] = {
        "workspace": workspace(table.spec, table.protocol, "", project),
        "report": report(table, "", project),
    }
    files = []
    for name, item in built.items():
        content = json.loads(item._to_model().model_dump_json(by_alias=True, exclude_none=True))
        path = folder / f"{table.spec.stem}.{name}.json"
        write_atomic(path, json.dumps(content, indent=1) + "\n")
        files.append(path)
    return files


def save(table: Grid, entity: str, project: str) -> list[str]:
    """Save both at W&B; returns their addresses.

    Raises:
        UserError: W&B cannot be reached, or refuses.
    """
    try:
        found = [workspace(table.spec, table.protocol, entity, project).save(), report(table, entity, project).save()]
    except Exception as error:
        reason = first_line(error)
        raise UserError(f"W&B did not take the dashboard ({reason}): wandb login, or leave --entity out.") from error
    return [item.url for item in found]
