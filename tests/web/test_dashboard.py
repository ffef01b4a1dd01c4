"""W&B workspaces and reports of tables, as files."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from fgl_repro.cli.table import main
from fgl_repro.core.errors import UserError
from fgl_repro.runs import tracking
from fgl_repro.runs.folders import RunFolders
from fgl_repro.web import dashboard

RESULTS = Path(__file__).parents[2] / "results"
CORNER = ("fedlog/1", "--protocol", "fedlog_matched", "--datasets", "cora", "--clients", "3,5")


def written(folder: Path, *more: str) -> dict[str, str]:
    pytest.importorskip("wandb_workspaces")
    out = ["--results", str(RESULTS), "--records", str(folder.parent), "--out", str(folder)]
    assert main(["dashboard", *CORNER, *out, *more]) == 0
    files = sorted((folder / "fedlog" / "fedlog_matched").iterdir())
    assert [path.name for path in files] == ["table_1.report.json", "table_1.workspace.json"]
    return {path.name.split(".")[1]: path.read_text(encoding="utf-8") for path in files}


def panels(found: object) -> list[dict]:
    """Every chart in a piece of JSON."""
    if isinstance(found, dict):
        own = [found] if "viewType" in found and "config" in found else []
        return own + [panel for part in found.values() for panel in panels(part)]
    return [panel for part in found for panel in panels(part)] if isinstance(found, list) else []


def test_the_report_stands_print_beside_ours_and_charts_each_column(tmp_path: Path) -> None:
    report = json.loads(written(tmp_path)["report"])
    texts = [block["content"] for block in report["spec"]["blocks"] if block["type"] == "markdown-block"]
    assert len(texts) == 2
    assert re.search(r"\| FedAvg .*82\.68 ± 1\.35 .*84\.16 ± 0\.44", texts[0])
    grids = [block for block in report["spec"]["blocks"] if block["type"] == "panel-grid"]
    filters = [json.dumps(grid["metadata"]["runSets"]) for grid in grids]
    assert len(filters) == 2
    assert all("fedlog/1" in text for text in filters)
    assert '"Cora, 3 clients"' in filters[0] and '"Cora, 5 clients"' in filters[1]  # noqa: PT018
    assert {panel["config"].get("groupBy") for panel in panels(report)} - {None} == {"row.value"}


def test_charts_ask_for_what_is_logged(tmp_path: Path) -> None:
    workspace = json.loads(written(tmp_path)["workspace"])
    runs, rounds, _ = RunFolders(tmp_path / "none", RESULTS).published("fedlog")
    record = next(runs[key] for key in rounds if runs[key].config["setting"]["world"] == "closed_set")
    summary, names = tracking.flat_numbers(record), set(rounds[record.key])
    asked = [metric for panel in panels(workspace) for metric in panel["config"].get("metrics", [])]
    assert asked
    for metric in asked:
        word = metric.removeprefix("summary_metrics.")
        assert word in (summary if word != metric else names), metric
    regex = [panel["config"]["metricRegex"] for panel in panels(workspace) if panel["config"].get("metricRegex")]
    assert any(re.match(regex[0], name) for name in names)
    assert {panel["config"].get("groupBy") for panel in panels(workspace)} - {None} == {"cell_name.value"}
    assert tracking.run_args(record, 0, tags=[])["config"]["row"].startswith(record.config["method"]["name"])


def test_the_same_table_gives_the_same_files(tmp_path: Path) -> None:
    assert written(tmp_path / "a") == written(tmp_path / "b")


def test_added_rows_are_in_it_and_a_table_about_data_has_none(tmp_path: Path, capsys) -> None:
    pytest.importorskip("wandb_workspaces")
    places = ["--results", str(RESULTS), "--records", str(tmp_path), "--out", str(tmp_path)]
    assert main(["dashboard", *CORNER, "--add", "fedgta", *places]) == 0
    report = tmp_path / "fedlog+fedgta" / "fedlog_matched" / "table_1.report.json"
    assert "| FedGTA " in report.read_text(encoding="utf-8")
    assert main(["dashboard", "fedlog/12", *places]) == 2
    told = "fedlog/12 has no runs to read: it is about data; 'fgl-table list' shows which tables have some.\n"
    assert capsys.readouterr().err == f"fgl-table: {told}"


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb_workspaces", None)
    with pytest.raises(UserError, match=r"wandb-workspaces.*\[dashboards\]"):
        dashboard.check()


def test_a_refusal_of_wandb_is_a_sentence(tmp_path: Path, monkeypatch, capsys) -> None:
    pytest.importorskip("wandb_workspaces")

    def refuse(*_: object) -> None:
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(dashboard, "workspace", refuse)
    words = ["--results", str(RESULTS), "--records", str(tmp_path), "--entity", "team"]
    assert main(["dashboard", *CORNER, *words]) == 2
    assert "W&B did not take the dashboard (no route)" in capsys.readouterr().err
