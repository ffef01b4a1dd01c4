"""Figures: what is drawn stands in the CSV, files repeat to the byte, and what has not run is left blank."""

from __future__ import annotations

import csv
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import artifact, printing, report, results
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import sensitivity
from fgl_repro.tables.load import load
from fgl_repro.tables.results import Stat
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.swept import with_lines
from support import helpers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


def record_all(spec: TableSpec, store: RecordStore, methods: tuple[str, ...] = ()) -> None:
    for number, row in enumerate(spec.rows):
        if methods and row.id not in methods:
            continue
        for cell in (cell for cell in spec.cells() if cell.row == row and cell.panel == spec.panels[0]):
            for seed in spec.seeds:
                values = {p: 0.3 + 0.1 * k + 0.02 * seed + 0.01 * number for k, p in enumerate(helpers.PROBES)}
                curves = {p: [v / 2, v, v - 0.1] for p, v in values.items()} if spec.curves == "all" else None
                store.save(helpers.record(spec.config(cell, "fedlog", seed), probes=values), curves)


@pytest.mark.parametrize("name", ["fig4", "fig5", "fig9"])  # one of each kind
def test_files(name: str, store: RecordStore, tmp_path: Path) -> None:
    spec = load(name)
    record_all(spec, store)
    made = artifact.make(spec, "fedlog", Archive(store, {}))
    assert made.content.done == made.content.wanted == len(list(spec.cells()))
    paths = artifact.write(made, tmp_path / "out")
    assert [path.name for path in paths] == [f"figure_{spec.table}.{kind}" for kind in ("csv", "png", "svg")]
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in paths[2].read_bytes()
    before = [path.read_bytes() for path in paths]
    artifact.write(artifact.make(spec, "fedlog", Archive(store, {})), tmp_path / "out")
    assert [path.read_bytes() for path in paths] == before
    assert len(list((tmp_path / "out").iterdir())) == 3


@pytest.mark.parametrize("name", ["fig1", "fig3", "fig5", "fig7"])
def test_a_figure_of_nothing_can_be_drawn(name: str, tmp_path: Path) -> None:
    made = artifact.make(load(name), "fedlog_matched", Archive(RecordStore(tmp_path / "none"), {}))
    assert made.content.done == 0
    assert all(path.exists() for path in artifact.write(made, tmp_path))


def test_what_did_not_run_is_said_in_the_chart_and_seeds_are_counted(store: RecordStore, tmp_path: Path) -> None:
    spec = load("fig9")
    record_all(replace(spec, seeds=(0,), datasets=spec.datasets[:1]), store)
    artifact.write(artifact.make(spec, "fedlog", Archive(store, {})), tmp_path)
    drawn = (tmp_path / "figure_9.svg").read_text()
    assert drawn.count(">not run<") == len(spec.datasets) - 1
    assert "protocol fedlog, 1 seed<" in drawn


@pytest.mark.parametrize(
    ("counts", "said"), [([], "0 seeds"), ([0, 1], "1 seed"), ([3], "3 seeds"), ([3, 1, 0], "1 to 3 seeds")]
)
def test_range_of_seeds(counts: list[int], said: str) -> None:
    assert printing.seed_range(counts) == said


def test_no_two_series_look_alike() -> None:
    assert len({charts.style(number) for number in range(40)}) == 40
    assert len({charts.style(number)[0] for number in range(12)}) == 12, "as many rows as our largest figures have"
    assert len({charts.style(number)[:2] for number in range(40)}) == 40, "where there are no lines"


def test_a_single_seed_has_no_band_and_no_bar() -> None:
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure

    single, several = [(0, 50.0, None), (1, 60.0, None)], [(0, 50.0, 1.0), (1, 60.0, 0.0), (2, 70.0, None)]
    for points, has_std in ((single, False), (several, True)):
        left, right = Figure().subplots(1, 2)
        charts.band(left, points, 0, "FedAvg")
        reach = [path.vertices[:, 0].max() for found in left.collections for path in found.get_paths()]
        assert reach == ([1] if has_std else [])
        assert len(left.get_lines()[0].get_xdata()) == len(points), "a mark remains"
        charts.spans(right, points, 0, "FedAvg")
        (handle,), (label,) = right.get_legend_handles_labels()
        assert label == "FedAvg"
        assert isinstance(handle, ErrorbarContainer) is has_std
        if has_std:
            ends = [y for path in handle.lines[2][0].get_paths() for y in path.vertices[:, 1]]
            assert ends == pytest.approx([49, 51, 60, 60, nan, nan], nan_ok=True)


def test_drawn_points_are_those_of_the_csv(store: RecordStore, tmp_path: Path) -> None:
    spec = load("fig9")
    record_all(spec, store, ("fedlog-release-threshold=3.0", "fedlog-release-threshold=20.0"))
    made = artifact.make(spec, "fedlog", Archive(store, {}))
    rows = list(csv.DictReader(artifact.write(made, tmp_path)[0].open()))
    drawn = [r for r in rows if r["probe"] == "unseen_node" and r["printed"] == "1"]
    assert [(r["method.threshold"], r["mean"]) for r in drawn] == [
        ("0.0", ""),
        ("3.0", "0.430000"),
        ("5.0", ""),
        ("10.0", ""),
        ("20.0", "0.460000"),
    ]
    lines = _drawn(made)
    unseen = next(line for line in lines if line.get_label() == "Unseen node")
    assert list(unseen.get_xdata()) == [0, 1, 2, 3, 4]
    assert list(unseen.get_ydata()) == pytest.approx([nan, 43.0, nan, nan, 46.0], nan_ok=True), "no line joins them"


def test_a_legend_is_where_several_series_are_asked_for(store: RecordStore) -> None:
    several, whole = load("fig9"), load("fig9").panels
    record_all(several, store)
    for panels in (whole, whole[:1]):
        made = artifact.make(replace(several, panels=panels), "fedlog", Archive(store, {}))
        assert len(_charts(made)[0].get_figure().legends) == (len(panels) > 1)


def test_one_point_of_what_is_swept_is_no_drawing(store: RecordStore, tmp_path: Path) -> None:
    spec = load("fig9")
    record_all(spec, store, ("fedlog-release-threshold=3.0", "fedlog-release-threshold=5.0"))
    artifact.write(artifact.make(spec, "fedlog", Archive(store, {})), tmp_path)
    assert {path.suffix for path in tmp_path.glob("figure_9.*")} == {".csv", ".png", ".svg"}
    few = RecordStore(tmp_path / "few")
    record_all(spec, few, ("fedlog-release-threshold=3.0",))
    artifact.write(artifact.make(spec, "fedlog", Archive(few, {})), tmp_path)
    assert {path.suffix for path in tmp_path.glob("figure_9.*")} == {".csv", ".md"}, "the old drawing is gone, too"


def test_swept_methods_are_a_line_each(store: RecordStore) -> None:
    spec = load("fedvn/figrates")
    for cell in spec.cells():
        if cell.row.method != "fedvn" and (cell.row.method, cell.row.overrides["protocol.lr"]) != ("fedavg", 0.01):
            best = 0.4 + cell.row.overrides["protocol.lr"] + 0.1 * (cell.row.method == "local")
            store.save(helpers.record(spec.config(cell, "fedvn_heldout", 5), best=best))
    made = artifact.make(spec, "fedvn_heldout", Archive(store, {}))
    drawn = {line.get_label(): line for line in _drawn(made)}
    assert set(drawn) == {"Self-training", "FedAvg (release)"}, "FedVN has not run"
    assert list(drawn["FedAvg (release)"].get_xdata()) == [0, 1, 2, 3, 4, 5]
    assert list(drawn["FedAvg (release)"].get_ydata()) == pytest.approx([40.1, 40.3, nan, 43, 50, 70], nan_ok=True)
    assert list(drawn["Self-training"].get_ydata()) == pytest.approx([50.1, 50.3, 51, 53, 60, 80])
    assert [text.get_text() for text in _charts(made)[0].get_xticklabels()][:2] == ["0.001", "0.003"]


@pytest.mark.parametrize(
    ("text", "width", "filled"),
    [
        ("Ranks over partitions, Louvain, 10 clients", 60, "Ranks over partitions, Louvain, 10 clients"),
        ("Ranks over partitions, Louvain, 10 clients", 40, "Ranks over partitions,\nLouvain, 10 clients"),
        ("one incomprehensibilities", 10, "one\nincomprehensibilities"),
    ],
)
def test_titles_of_two_lines_are_cut_near_their_middle(text: str, width: int, filled: str) -> None:
    assert charts.wrapped(text, width) == filled


def test_curves_are_means_over_seeds_by_round(store: RecordStore, tmp_path: Path) -> None:
    spec = load("fig5")
    record_all(spec, store, ("fedavg",))
    made = artifact.make(spec, "fedlog", Archive(store, {}))
    rows = [r for r in made.content.rows if r["method"] == "fedavg" and r["probe"] == "seen_graph"]
    number = [row.id for row in spec.rows].index("fedavg")
    top = 0.32 + 0.01 * number
    assert [(r["round"], float(r["mean"])) for r in rows] == [
        (1, pytest.approx(top / 2, abs=1e-6)),
        (2, pytest.approx(top)),
        (3, pytest.approx(top - 0.1)),
    ]
    assert {r["mean"] for r in made.content.rows if r["method"] == "local"} == {""}
    line = next(line for line in _drawn(made) if line.get_label() == "FedAvg")
    assert list(line.get_ydata()) == pytest.approx([50 * top, 100 * top, 100 * top - 10])


def test_a_part_of_a_figure_of_averages_has_the_spread_of_the_whole(store: RecordStore) -> None:
    spec = replace(load("fedlog/fig1"), panels=load("fedlog/fig1").panels[:1])
    rows = [row.id for row in spec.rows if row.overrides["setting.rate"] == 4]
    for number, cell in enumerate(cell for cell in spec.cells() if cell.row.id in rows):
        for seed in spec.seeds:
            value = 0.5 + 0.01 * number + 0.02 * seed
            store.save(helpers.record(spec.config(cell, "fedlog", seed), probes={cell.panel.probe: value}, last=value))
    whole, part = (artifact.make(each, "fedlog", store).content.rows for each in (spec, spec.narrow(methods=rows)))
    kept = [line for line in whole if line["setting.rate"] == 4]
    assert [float(line["std"]) for line in kept] == pytest.approx(len(kept) * [0.02], abs=1e-5)
    assert part == kept


def test_a_seed_counts_in_an_average_where_all_that_is_averaged_has_a_number(store: RecordStore) -> None:
    """Else seeds that lack a hard cell would look better than the others."""
    spec = load("fedlog/fig1")
    table = results.fill(replace(spec, panels=spec.panels[:1]), "fedlog", Archive(store, {}))
    cells = list(table.results)[:2]
    made = [[0.2, 0.4], [0.9, None], [0.6, 0.6]]
    stats = [[None if value is None else Stat(value, None, 1) for value in line] for line in made]
    by_seed = [{c: replace(table.results[c], best=s) for c, s in zip(cells, line, strict=True)} for line in stats]
    found = sensitivity.mean_of(table, cells, by_seed).best
    assert found is not None
    assert (found.mean, found.n) == (pytest.approx((0.3 + 0.6) / 2), 2)


def test_facts_over_two_axes_beside_the_paper(store: RecordStore, tmp_path: Path) -> None:
    spec = load("fedpubfig1")
    recorded = ("fedpub-0.3-0.001", "fedpub-0.7-0.001", "fedpub-0.7-1.0")
    for number, cell in enumerate(cell for cell in spec.cells() if cell.row.id in recorded):
        for seed in spec.seeds:
            more = {"best": 0.7 + 0.01 * number, "facts": {"sparsity": 0.4 + 0.1 * number + 0.01 * seed}}
            store.save(helpers.record(spec.config(cell, "fedpub", seed), **more))
    made = artifact.make(spec, "fedpub", Archive(store, {}))
    paths = artifact.write(made, tmp_path / "out")
    assert [path.name for path in paths] == [f"figure_1.{kind}" for kind in ("csv", "md", "png", "svg")]
    assert "70.00 |  79.620 | 41.00 ± 0.82 |  28.930 |" in paths[1].read_text()
    charts = _charts(made)
    assert [chart.get_ylabel() for chart in charts] == ["accuracy (%)", "", "sparsity (%)", ""]
    assert [chart.get_xlabel() for chart in charts] == ["", "", "λ₁ (λ₂ = 0.001)", "λ₂ (λ₁ = 0.7)"]
    assert [text.get_text() for text in charts[3].get_xticklabels()] == ["0.001", "0.01", "0.1", "1.0"]
    drawn = [{line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in c.lines} for c in charts]
    assert [lines["paper"] for lines in drawn[:2]] == [
        ([0, 1, 2, 3], [79.62, 79.42, 78.68, 77.36]),
        ([0, 1, 2, 3], [78.68, 78.56, 79.46, 79.31]),
    ]
    ours = [[70, nan, 71, nan], [71, nan, nan, 72], [41, nan, 51, nan], [51, nan, nan, 61]]
    assert [lines["ours"] for lines in drawn] == [([0, 1, 2, 3], pytest.approx(y, nan_ok=True)) for y in ours]
    assert charts[0].get_ylim()[0] > 60, "accuracies that lie close together fill their chart"


def test_a_report_shows_printed_numbers_below_their_drawing(tmp_path: Path) -> None:
    nothing = Archive(RecordStore(tmp_path / "none"), {})
    printed, bare = (
        artifact.make(load(name), protocol, nothing)
        for name, protocol in (("fedpubfig1", "fedpub"), ("fig4", "fedlog"))
    )
    for made, shown in ((printed, True), (bare, False)):
        page = report.page("x", [made])
        assert f"![Figure {made.spec.table}]({made.protocol}/{made.spec.stem}.png)" in page
        assert ("#### Cora" in page) is shown


def _charts(made: artifact.Artifact) -> list[Axes]:
    from matplotlib.figure import Figure

    figure = Figure()
    assert made.content.draw is not None
    made.content.draw(figure)
    return figure.axes


def _drawn(made: artifact.Artifact) -> list:
    chart = _charts(made)[0]
    assert chart.get_ylabel()
    return chart.get_lines()


def test_a_figure_around_a_middle_draws_nothing_that_leaves_it_elsewhere(store: RecordStore) -> None:
    spec = load("fig9")
    values = {"protocol.lr": [0.001, 0.01, 0.1], "protocol.weight_decay": [0.0, 0.5]}
    line, middle = spec.lines[0], {"protocol.lr": 0.01, "protocol.weight_decay": 0.0}
    options = {"axis": "protocol.lr", "label": "learning rate"}
    spec = replace(spec, sweep=values, around=middle, options=options, rows=(), lines=(), kind="sensitivity")
    spec = with_lines(replace(spec, datasets=spec.datasets[:1], clients=spec.clients[:1]), [line])
    assert len(spec.rows) == 4
    record_all(spec, store)
    points = sensitivity.along(results.fill(spec, "fedlog", store))
    cells = [cell for cell in points.results if cell.panel == spec.panels[0]]
    assert {tuple(cell.row.overrides[name] for name in values) for cell in cells} == {
        (r, 0.0) for r in values["protocol.lr"]
    }
    made = artifact.make(spec, "fedlog", Archive(store, {}))
    assert len(made.content.rows) == 2 * len(list(spec.cells())), "the CSV has every cell once"
    assert "weight_decay = 0.5" not in made.content.body
