"""The fidelity report, from made-up results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import reference, report, results
from fgl_repro.tables.artifact import Artifact, Content
from fgl_repro.tables.load import load
from fgl_repro.tables.results import Stat
from support import helpers


def filled(name: str, shift: float, rows: int) -> Artifact:
    """A table whose first ``rows`` methods reproduce the paper but for ``shift``; the others have not run."""
    table = results.fill(load(name), "fedlog", Archive(RecordStore("no records"), {}))
    found = {}
    for cell, empty in table.results.items():
        theirs = reference.of(cell)
        ran = table.spec.rows.index(cell.row) < rows and theirs is not None
        stat = Stat(theirs.mean + shift, 0.0, 3) if ran and theirs else None
        found[cell] = replace(empty, best=stat, last=stat)
    return helpers.artifact_of(replace(table, results=found))


def panels(page: str) -> list[str]:
    """Lines of the page from its panels on."""
    return page.split("## Panels")[1].splitlines()


def test_the_papers_own_numbers_agree_with_themselves() -> None:
    page = report.page("fedlog", [filled("table1", 0.0, 5)])
    assert "| 1 Seen graph | fedlog" in page
    line = next(line for line in panels(page) if line.startswith("| 1 Seen graph | fedlog"))
    assert [cell.strip() for cell in line.split("|")[3:8]] == ["75", "75 (100%)", "0.0", "+1.00", "15 of 15"]


def test_verdicts_of_a_panel() -> None:
    """Runs without any scatter: what is printed is met exactly or not at all; chance and misprints tell nothing."""
    page = report.page("fedlog", [filled("table9", 0.0, 3), filled("table9", 0.2, 3)])
    same, off = (line for line in page.split("## Panels")[0].splitlines() if line.startswith("| 9b"))
    cells, reproduced, within, differs, nothing = (int(cell) for cell in same.split("|")[4:9])
    assert (cells, within, differs) == (120, 0, 0)
    assert reproduced + nothing == cells
    assert nothing > 75, "five of eight methods have not run"
    cells, reproduced, within, differs, nothing = (int(cell) for cell in off.split("|")[4:9])
    assert (reproduced, within) == (0, 0)
    assert differs > 30, "all that ran but misprints and the few cells at chance"


def test_a_constant_error_is_a_gap_that_leaves_ranks_alone() -> None:
    page = report.page("fedlog", [filled("table9", -0.3, 3)])
    line = next(line for line in panels(page) if line.startswith("| 9b"))
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


def test_variations_of_one_method_have_cells_and_no_ranks() -> None:
    page = report.page("fedlog", [filled("table3", 0.0, 5), filled("table7", 0.01, 2)])
    line = next(line for line in panels(page) if line.startswith("| 3a Seen graph"))
    assert [cell.strip() for cell in line.split("|")[3:8]] == ["5", "5 (100%)", "0.0", "", ""]
    assert "## Table 7: differences of rows in points" in page
    line = next(line for line in page.splitlines() if line.startswith("| degree-based") and "Seen graph" in line)
    assert [cell.strip() for cell in line.split("|")[2:7]] == ["Cora 3", "Seen graph", "-0.12", "-0.12", "-0.12"]


def test_other_numbers_and_figures_stand_there_once() -> None:
    bytes_, figure = load("table5"), load("fig9")
    contents = [Content([{}], "### Grid\n\nsame", 1, 2), Content([{}], "other", 1, 2)]
    drawn = Content([{}], "numbers", 1, 2, draw=lambda figure: None)
    sheets = [Artifact(bytes_, protocol, contents[0]) for protocol in ("fedlog", "fedlog_matched")]
    page = report.page("fedlog", [*sheets, Artifact(bytes_, "third", contents[1]), Artifact(figure, "fedlog", drawn)])
    assert page.count("## Table 5: Communication") == 1
    assert "Protocol `fedlog`, `fedlog_matched`:\n\n#### Grid\n\nsame" in page
    assert "Protocol `third`:\n\nother" in page
    assert "![Figure 9](fedlog/figure_9.png)" in page
    assert "this is how we read it" in page
    assert "numbers" not in page.split("## Figure 9")[1]


def test_hours_of_recorded_and_missing_runs(tmp_path: Path) -> None:
    spec = load("table1").narrow(["cora"], [3], ["local", "fedavg"])
    store = RecordStore(tmp_path / "records")
    for cell in spec.cells():
        for seed, seconds in enumerate((3600.0, 7200.0)):
            store.save(helpers.record(spec.config(cell, "fedlog", seed), seconds={"total": seconds}))
    tables_ = [results.fill(part, "fedlog", store) for part in (spec, replace(spec, path=Path("fedlog/2.yaml")))]
    page = report.write("fedlog", [*map(helpers.artifact_of, tables_)], tmp_path, store).read_text()
    grid = page.split("## Time")[1].split("Cell by cell")[0].rstrip()
    line = [cell.strip() for cell in grid.splitlines()[-1].split("|")[1:-1]]
    assert line == [
        "1 and 2",
        "fedlog",
        "4 of 6",
        "about 9.0",
        "about 4.5",
    ]  # 3 + 3 hours, and 1.5 for each missing run


def test_means_are_over_the_columns_that_a_protocol_and_print_share() -> None:
    whole, one = filled("table1", 0.0, 9), filled("table1", 0.01, 9)
    grid = one.content.grid
    assert grid is not None
    few = {c: r if (c.dataset, c.clients) == ("cora", 3) else replace(r, best=None) for c, r in grid.results.items()}
    narrow = helpers.artifact_of(replace(grid, protocol="fedlog_tuned", results=few))
    lines = report.page("fedlog", [whole, narrow]).split("## Mean over all columns")[1].splitlines()
    line = next(line for line in lines if "| Local " in line)
    own, single = [cell.strip() for cell in line.split("|")[3:5]]
    assert own.endswith("(15)"), "a protocol with one column leaves the others' means alone"
    assert single == "74.6 / 73.6 (1)"
