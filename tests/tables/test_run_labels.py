"""What runs are called where they are pushed: bars and curves of a dashboard average nothing but seeds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from fgl_repro.config import cell_of
from fgl_repro.runs.folders import RunFolders
from fgl_repro.tables import needs
from fgl_repro.tables.load import load, names
from fgl_repro.tables.run_labels import COLUMN, PLACED, ROW, labels, named

RESULTS = Path(__file__).parents[2] / "results"


def of_table(name: str) -> dict[str, dict[str, str]]:
    """Labels of the cells of a table before tuning."""
    spec = load(name)
    firsts = needs.firsts(spec, spec.protocols[0])
    return named(zip(spec.planned(), [[cell_of(config)] for config in firsts], strict=True), len(spec.panels))


@pytest.mark.parametrize("name", names())
def test_no_two_cells_share_a_group(name: str) -> None:
    groups = defaultdict(set)
    for cell, own in of_table(name).items():
        groups[own[COLUMN], own[ROW]].add(cell)
        groups[own[PLACED]].add(cell)
    assert all(len(cells) == 1 for cells in groups.values())


def test_panels_are_told_where_they_have_runs_of_their_own() -> None:
    assert {own[ROW] for own in of_table("fedlog/1").values()} == {row.id for row in load("fedlog/1").rows}
    rows = {own[ROW] for own in of_table("opfgl/19").values()}
    assert {"dense (19a, 19b)", "dense (19c, 19d)", "dense (19e, 19f)"} <= rows


def test_a_part_calls_its_runs_as_the_whole_does() -> None:
    folders = RunFolders(Path("nowhere"), RESULTS)
    spec, archive = load("fedlog/fig4"), folders.archive("fedlog")
    whole = labels(spec, spec.protocols[0], archive)
    part = spec.narrow(datasets=spec.datasets[:1], methods=[spec.rows[-1].id], seeds=spec.seeds[:1])
    found = labels(part, spec.protocols[0], archive)
    assert found
    assert found.items() <= whole.items()


def test_rows_that_are_the_same_run_are_told_together() -> None:
    spec = load("fedlog/1")
    cell = next(spec.cells())
    twin = replace(cell, row=replace(cell.row, id="twin"))
    assert named([(cell, ["a", "b"]), (twin, ["a", "b"])], 1)["b"][ROW] == f"{cell.row.id} = twin"
