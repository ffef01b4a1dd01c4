"""Does the proposed method win: counted over columns, from made-up results."""

from __future__ import annotations

from dataclasses import replace

from fgl_repro.tables import printing, report, results
from fgl_repro.tables.load import load
from fgl_repro.tables.report import in_print, wins
from fgl_repro.tables.results import Grid, Result, Stat
from support import helpers


def filled(values: dict[str, list[float | None]], last: float = 0.0) -> Grid:
    """Table 1 on Cora; per row id, means for 3, 5 and 10 clients (at the last round ``last`` more)."""
    spec = load("table1").narrow(datasets=["cora"])
    rows = tuple(row for row in spec.rows if row.id in values)
    spec = replace(spec, rows=rows)
    found = {}
    for cell in spec.cells():
        mean = values[cell.row.id][spec.clients.index(cell.clients)]
        bonus = last if cell.row.method == "fedlog" else 0.0
        best, late = (None if mean is None else Stat(mean + more, 0.0, 3) for more in (0.0, bonus))
        found[cell] = Result(best, late, 3, "complete")
    return Grid(spec, "fedlog", "best", 0, found)


ROWS = {"local": [0.5, 0.7, 0.6], "fedavg": [0.6, 0.6, 0.6], "fedlog-release": [0.61, 0.7, 0.65]}


def test_a_tie_is_no_lead_and_each_round_counts_for_itself() -> None:
    table = filled(ROWS, last=-0.02)
    (best,), (last,) = (wins(table, table.spec.panels[0], s) for s in ("best", "last"))
    assert (best.columns, best.above, best.best) == (3, 2, "FedLoG (release)")
    assert (last.columns, last.above) == (3, 1)


def test_variants_are_counted_apart_and_never_against_each_other() -> None:
    table = filled({**ROWS, "fedlog-paper": [0.9, 0.1, None]})
    release, paper = wins(table, table.spec.panels[0], "best")
    assert (release.above, release.columns) == (2, 3)
    assert (paper.above, paper.columns, paper.best) == (1, 2, "Local")


def test_columns_where_nothing_stands_against_it_do_not_count() -> None:
    table = filled({"local": [0.5, None, None], "fedlog-release": [0.6, 0.6, None]})
    (lead,) = wins(table, table.spec.panels[0], "best")
    assert (lead.columns, lead.above) == (1, 1)
    table = filled({"local": [0.5, 0.5, 0.5], "fedlog-release": [None, None, None]})
    assert wins(table, table.spec.panels[0], "best")[0].columns == 0


def test_in_print() -> None:
    spec = load("table1")
    assert in_print(spec, spec.panels[0]) == (13, 15)  # all but Cora, 10 clients and CiteSeer, 5 clients
    spec = load("table9")
    assert in_print(spec, spec.panels[0]) == (11, 15)
    assert in_print(replace(spec, proposed=""), spec.panels[0]) == (0, 0)


def test_the_report_says_so() -> None:
    page = report.page("fedlog", [helpers.artifact_of(filled(ROWS, last=-0.02))])
    line = next(line for line in page.splitlines() if "FedLoG (release)" in line and "of 3" in line)
    assert [cell.strip() for cell in line.split("|")[3:9]] == [
        "FedLoG (release)",
        "2 of 3",
        "2 of 3",
        "yes",
        "1 of 3",
        "yes",
    ]
    nothing = filled({"local": [0.5, 0.5, 0.5], "fedavg": [0.5, 0.5, 0.5]})
    assert "It has not run." in report.page("fedlog", [helpers.artifact_of(nothing)])


def test_differences_of_rows_are_taken_from_means() -> None:
    spec = load("table7")
    half, degree = spec.rows
    found = {
        cell: Result(Stat(0.5 if cell.row == half else 0.525, 0.0, 3), None, 3, "complete") for cell in spec.cells()
    }
    table = Grid(spec, "fedlog", "best", 0, found)
    (line,) = spec.differences.values()
    assert printing.signed(results.row_gap(table, line, spec.panels[0], "cora", 3, "best")) == "+2.50"
    assert results.row_gap(table, line, spec.panels[0], "cora", 3, "last") is None
    part = table.narrowed(spec.narrow(methods=[degree.id]))
    assert results.row_gap(part, line, spec.panels[0], "cora", 3, "best") is None
