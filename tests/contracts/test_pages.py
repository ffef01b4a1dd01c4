"""The pages about results: each is what its template and the packed runs make, and no result is typed by hand."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fgl_repro.core import registry
from fgl_repro.data.graph import Graph
from fgl_repro.fl.metrics import METRICS
from fgl_repro.runs import curves
from fgl_repro.runs.packed import Packed, PackedDiverged
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import columns, findings, report, scoreboard
from fgl_repro.tables import reference as printed_numbers
from fgl_repro.tables.artifact import make
from fgl_repro.tables.kinds import common
from fgl_repro.tables.load import load, names, papers
from fgl_repro.tables.published import all_published

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PUBLISHED = [paper for paper in papers() if (RESULTS / paper).exists()]
TEMPLATES = [RESULTS / paper / "findings.md.in" for paper in PUBLISHED]
PROSE = [*TEMPLATES, RESULTS / "README.md.in", ROOT / "README.md"]
CODE = re.compile(r"```.*?```|`[^`]*`|^ {4}.*?$|\]\([^)]*\)", re.DOTALL | re.MULTILINE)
DECIMAL = re.compile(r"(?<![\w.])\d*\.\d+(?:\.\d+)*(?!\w)")
SETTINGS = {
    *("0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03", "0.05", "0.1", "0.3", "0.5", "0.7", "0.9"),
    *("2.13", "3.11", "5.1.0"),  # torch, Python, METIS
}
COUNTED = ("agrees", "differs")
VERDICT = re.compile(r"\*\*Verdict: (found|ruled out|undecided|reproduced|differs)\.\*\*")


def typed(text: str) -> list[str]:
    """Decimals outside placeholders, code and links that are no known setting."""
    return [
        number for number in DECIMAL.findall(findings.PLACEHOLDER.sub("", CODE.sub("", text))) if number not in SETTINGS
    ]


@cache
def packed(paper: str) -> Packed:
    """A paper's packed runs, each read and checked once for all tests."""
    return Packed(RESULTS / paper / "runs.csv")


def test_every_page_is_what_its_template_and_the_packed_runs_make() -> None:
    pages = findings.pages(RESULTS)
    whole = {RESULTS / f"{name}.md" for name in ("README", "CAUSES", "COLUMNS", "PICTURES")}
    assert {*whole, *(path.with_name("FINDINGS.md") for path in TEMPLATES)} == set(pages)
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.relative_to(ROOT)}: run fgl-table publish"


def test_the_scoreboard_is_a_page() -> None:
    assert len((RESULTS / "README.md").read_text(encoding="utf-8").splitlines()) < 50


def test_the_scoreboard_has_the_tables_of_which_most_printed_cells_have_run() -> None:
    board = (RESULTS / "README.md").read_text(encoding="utf-8")
    compared = sorted(RESULTS.glob("*/*/compare_*.csv"))
    assert compared
    for path in compared:
        with open(path, encoding="utf-8", newline="") as file:
            ran = [line["n_seeds"] != "0" for line in csv.DictReader(file) if line["paper_mean"]]
        link = path.with_suffix(".md").relative_to(RESULTS).as_posix()
        spec = load(f"{path.parts[-3]}/{path.stem.removeprefix('compare_')}")
        assert (f"({link})" in board) == (sum(ran) > len(ran) / 2 and not spec.repeats), link


def test_a_printed_number_counts_once_on_the_scoreboard() -> None:
    counted: dict[tuple[object, ...], str] = {}
    for paper, _, tables in scoreboard.scores(all_published(RESULTS)):
        for spec in (load(f"{paper}/{table}") for table in tables):
            for cell in spec.cells():
                if (place := printed_numbers.where(cell)) is not None:
                    number = (paper, cell.panel.reference, cell.panel.probe, place)
                    assert counted.setdefault(number, spec.name) == spec.name, number
    assert counted


def test_every_column_of_what_is_published_is_in_the_dictionary() -> None:
    """Under one kind of file each, so that the page tells of all of them."""
    files = [path for _, pattern in columns.FILES for path in columns.of_kind(RESULTS, pattern)]
    assert sorted(files) == sorted(set(RESULTS.rglob("*.csv")) - set(RESULTS.glob("records/*")))  # a user's own runs
    assert [name for name in columns.heads(files) if not columns.meaning(name)] == []


def published(paper: str, pattern: str, *columns: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and lines of a paper's published files that have certain columns."""
    for path in sorted((RESULTS / paper).glob(pattern)):
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        yield from ((path.name, row) for row in rows if set(columns) <= set(row))


@pytest.mark.parametrize("paper", PUBLISHED)
def test_all_that_is_published_is_made_again_from_the_packed_runs(
    paper: str, real_graph: Callable[..., Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every table, comparison and CSV of every protocol, and the report, to the byte; drawings have their numbers in a
    CSV. Skipped where a graph is missing, as some tables describe graphs; some were not there when they were made.
    """
    specs = [spec for spec in map(load, names()) if spec.paper == paper]
    absent = {"arxiv"}.union(*(spec.absent for spec in specs))
    nodes = {name for spec in specs for name in spec.datasets if registry.option("dataset", name).unit == "node"}
    for name in nodes - absent:
        real_graph(name)
    known = common.graph_of
    monkeypatch.setattr(common, "graph_of", lambda own, cache: None if own.name in absent else known(own, cache))
    folder = RESULTS / paper
    rounds = curves.read_packed(folder / "curves.csv")
    lost = PackedDiverged(folder / "diverged.csv")
    source = Archive(RecordStore(folder / "no local records"), packed(paper), rounds, diverged=lost)
    made = [make(spec, protocol, source) for each in specs for spec, protocol in each.by_protocol()]
    filled = [item for item in made if item.has_numbers]
    texts = {RESULTS / item.folder / name: text for item in filled for name, text in item.texts.items()}
    texts[folder / "README.md"] = report.page(paper, filled, source)
    assert {path for path in texts if path.parent != folder} == {
        path
        for path in folder.glob("*/*")
        if path.suffix in (".csv", ".md") and path.parent.name != "notes" and path.name != "splits.csv"
    }
    for path, text in texts.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.relative_to(ROOT)}: run fgl-table publish"


@pytest.mark.parametrize("paper", PUBLISHED)
def test_published_tables_are_those_of_the_packed_runs(paper: str) -> None:
    """Mean and std of every published accuracy, computed again from the packed runs that its line names."""
    by_name = {key[:8]: record for key, record in packed(paper).items()}
    cells = 0
    for name, row in published(paper, "*/*.csv", "runs", "probe", "selection"):
        if row.get("setting.target") == "mean":  # a mean over rows that are checked themselves
            continue
        runs = [by_name[key] for key in row["runs"].split()]
        entry = METRICS[row["metric"]].entry
        found = [getattr(run.at(row["probe"], row["selection"]), entry, None) for run in runs]
        values = [value for value in found if value is not None]
        for config in (run.config for run in runs):
            assert config["method"]["name"] == row["method"], (name, row)
            assert config["dataset"]["name"] == row["dataset"], (name, row)
            assert config["method"]["variant"] == row["variant"] or not row["variant"], (name, row)
        assert len(values) == int(row["n_seeds"]), (name, row)
        assert row["mean"] == (f"{np.mean(values):.6f}" if values else ""), (name, row)
        assert row["std"] == (f"{np.std(values, ddof=int(row['ddof'])):.6f}" if len(values) > 1 else ""), (name, row)
        cells += bool(values)
    assert cells


@pytest.mark.parametrize("paper", PUBLISHED)
def test_published_comparisons_are_those_of_the_tables_and_of_print(paper: str) -> None:
    """Numbers, difference and verdict of every comparison, computed again from the table and the printed numbers."""
    axes = ("protocol", "panel", "dataset", "clients", "method", "name", "variant")
    ours = {
        tuple(row[axis] for axis in (*axes, "selection")): row
        for _, row in published(paper, "*/table_*.csv", *axes, "selection")
    }
    reference = Path(findings.__file__).parent / "reference" / paper
    lines = [row for path in reference.glob("*.csv") for row in csv.DictReader(path.read_text("utf-8").splitlines())]
    printed = {
        (row["dataset"].lower(), float(row["value"]) / (100 if row["unit"] == "percent" else 1))
        for row in lines
        if row.get("value")
    }
    cells = 0
    for name, row in published(paper, "*/compare_*.csv", *axes, "paper_mean"):
        mean, std = (float(row[f"paper_{part}"] or "nan") for part in ("mean", "std"))
        if row["paper_mean"]:
            named = printed_numbers.names(row["dataset"])
            assert any(dataset in named and abs(value - mean) < 1e-6 for dataset, value in printed), (name, row)
        for selection in ("best", "last"):
            found = ours[*(row[axis] for axis in axes), selection]
            assert (row[f"{selection}_mean"], row[f"{selection}_std"]) == (found["mean"], found["std"]), (name, row)
            if not (row["paper_mean"] and found["mean"]):
                assert row[f"{selection}_old_rule"] in ("not printed", "not run"), (name, row)
                continue
            whole = mean if METRICS[found["metric"]].error else 1.0
            gap = (float(found["mean"]) - mean) / whole
            stds = [std for std in (std, float(found["std"] or "nan")) if not math.isnan(std)] or [0.0]
            pooled = math.sqrt(sum(std**2 for std in stds) / len(stds)) / whole
            agrees = "agrees" if abs(gap) <= max(0.02, 2 * pooled) + 1e-9 else "differs"
            assert row[f"{selection}_old_rule"] == ("suspect" if row["suspect"] == "1" else agrees), (name, row)
            assert float(row[f"{selection}_points"]) == pytest.approx(100 * gap, abs=0.0051), (name, row)
            cells += 1
    assert cells


@pytest.mark.parametrize("paper", PUBLISHED)
def test_panels_of_the_report_are_those_of_the_comparisons(paper: str) -> None:
    """Cells, agreements and gap of every panel, protocol and round, counted again from the comparisons."""
    text = (RESULTS / paper / "README.md").read_text(encoding="utf-8")
    compared = [row for _, row in published(paper, "*/compare_*.csv", "panel")]
    panels = {(row["panel"], row["protocol"]) for row in compared if row["best_old_rule"] in COUNTED}
    both = text.split("\n## Panels, ")[1:]  # the better round first, whatever it is called
    for selection, part in zip(("best", "last"), both, strict=True):
        section = part.split("\n## ")[0]
        lines = [[word.strip() for word in line.split("|")[1:-1]] for line in section.splitlines() if "%)" in line]
        assert {(line[0].split()[0], line[1]) for line in lines} >= panels
        for panel, protocol, cells, agree, gap, *_ in lines:
            if (place := (panel.split()[0], protocol)) not in panels:
                continue  # the report has it, but no table of it is published
            own = [row for row in compared if (row["panel"], row["protocol"]) == place]
            own = [row for row in own if row[f"{selection}_old_rule"] in COUNTED]
            agreeing = sum(row[f"{selection}_old_rule"] == "agrees" for row in own)
            assert (int(cells), int(agree.split()[0])) == (len(own), agreeing), (panel, protocol)
            mean = np.mean([abs(float(row[f"{selection}_points"])) for row in own])
            assert float(gap) == pytest.approx(mean, abs=0.06), (panel, protocol)


@pytest.mark.parametrize("path", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_result_is_typed(path: Path) -> None:
    assert not typed(path.read_text(encoding="utf-8"))


def test_typed_results_are_noticed() -> None:
    text = "accuracy of 82.7, printed .297 or 81.5. {cell clients=3 digits=1.5} at 0.01, `protocol.lr=0.02`"
    assert typed(text) == ["82.7", ".297", "81.5"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.parent.name)
def test_every_finding_has_a_verdict_and_a_command_or_a_note(path: Path) -> None:
    found = path.read_text(encoding="utf-8").split("\n### ")[1:]
    assert found
    for finding in found:
        title, _, body = finding.partition("\n")
        body = body.split("\n## ")[0]
        assert len(VERDICT.findall(body)) == 1, title
        assert re.search(r"`(fgl-|make |scripts/)", body) or "](notes/" in body, title


def test_notes_that_findings_link_exist_and_name_their_commit() -> None:
    for path in TEMPLATES:
        linked = {path.parent / name for name in re.findall(r"\]\((notes/[^)#]*)\)", path.read_text(encoding="utf-8"))}
        assert linked == set((path.parent / "notes").glob("*.md"))
    for note in RESULTS.glob("*/notes/*.md"):
        assert re.search(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7}\b", note.read_text(encoding="utf-8")), note


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.parent.name)
def test_commands_name_tables_that_exist(path: Path) -> None:
    named = re.findall(r"`fgl-table (?:show|compare|run|test) ([^\s`]+)", path.read_text(encoding="utf-8"))
    assert named
    assert set(named) <= {*names(), *papers()}
    text = "".join(page.read_text(encoding="utf-8") for page in [path, *path.parent.glob("notes/*.md")])
    for script in re.findall(r"scripts/\w+\.py", text):
        assert (ROOT / script).exists(), script
