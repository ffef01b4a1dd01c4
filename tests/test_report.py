"""The fidelity report, from made-up results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fgl_repro import compare, report, tables, tablespec
from fgl_repro.tables import Stat, Table


def filled(name: str, shift: float, rows: int) -> Table:
    """A table whose first ``rows`` methods reproduce the paper but for ``shift``; the others have not run."""

    class Nothing:
        def load(self, key: str) -> None:
            return None

        def load_failed(self, key: str) -> None:
            return None

    table = tables.fill(tablespec.load(name), "fedlog", Nothing())
    results = {}
    for cell, empty in table.results.items():
        theirs = compare.printed(cell)
        ran = table.spec.rows.index(cell.row) < rows and theirs is not None
        stat = Stat(theirs.mean + shift, 0.0, 3) if ran and theirs else None
        results[cell] = replace(empty, best=stat, last=stat)
    return replace(table, results=results)


def test_the_papers_own_numbers_agree_with_themselves() -> None:
    page = report.text("fedlog", [filled("table1", 0.0, 5)])
    assert "| 1 Seen graph | fedlog" in page
    line = next(line for line in page.splitlines() if line.startswith("| 1 Seen graph | fedlog"))
    assert [cell.strip() for cell in line.split("|")[3:8]] == ["75", "75 (100%)", "0.0", "+1.00", "15 of 15"]


def test_a_constant_error_is_a_gap_that_leaves_ranks_alone() -> None:
    page = report.text("fedlog", [filled("table9", -0.3, 3)])
    line = next(line for line in page.splitlines() if line.startswith("| 9b"))
    cells, agree, gap, tau, _ = [cell.strip() for cell in line.split("|")[3:8]]
    assert cells == "43", "three methods, fifteen columns, two cells are misprints"
    assert agree.startswith("0 ") or int(agree.split()[0]) < 10
    assert gap == "30.0"
    assert tau == "+1.00"


def test_what_has_not_run_is_left_out(tmp_path: Path) -> None:
    path = report.write("fedlog", [filled("table1", 0.0, 0), filled("table2", 0.0, 2)], tmp_path)
    page = path.read_text()
    assert "| 1 Seen graph" not in page
    assert "| 2c New client" in page
