"""Ranks of added rows among the paper's, on made-up records."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import ttest_1samp

from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import leaderboard, results
from fgl_repro.tables.added import with_rows
from fgl_repro.tables.figures import charts
from fgl_repro.tables.load import load
from fgl_repro.tables.results import Stat
from support import helpers

MEANS = {("local", 3): 0.6, ("local", 5): 0.9, ("fedavg", 3): 0.7, ("fedavg", 5): 0.7, ("fedgta", 3): 0.8}
"""Accuracies of Cora, by method and clients; FedGTA, which is added, has one of two columns at first."""


def grid(folder: Path, means: dict[tuple[str, int], float]) -> results.Grid:
    spec = with_rows(load("fedlog/1"), ["fedgta"]).narrow(["cora"], [3, 5], ["local", "fedavg", "fedgta"])
    store = RecordStore(folder)
    for cell in spec.cells():
        for seed, aside in zip(spec.seeds, (-0.01, 0.0, 0.01), strict=True):
            if (mean := means.get((cell.row.method, cell.clients))) is not None:
                store.save(helpers.record(spec.config(cell, "fedlog", seed), best=mean + aside, last=0.1))
    return results.fill(spec, "fedlog", Archive(store, {}))


def test_ranks_of_a_column_and_how_sure_its_means_are(tmp_path: Path) -> None:
    table = grid(tmp_path, MEANS)
    found = leaderboard.standings(table, table.spec.panels[0], "cora", 3)
    assert [(each.cell.row.method, each.rank) for each in found] == [("fedgta", 1), ("fedavg", 2), ("local", 3)]
    assert [each.behind for each in found] == pytest.approx([0, 10, 20])
    assert found[0].half == pytest.approx(4.3027 * 0.01 / 3**0.5, rel=1e-4)
    assert leaderboard._half(Stat(0.5, None, 1), 1) is None


def test_average_ranks_are_over_columns_that_the_added_row_has(tmp_path: Path) -> None:
    table = grid(tmp_path / "some", MEANS)
    found = leaderboard.averages(table, table.spec.panels[0])
    assert found["rank"].to_dict() == {"FedGTA": 1, "FedAvg": 2, "Local": 3}
    assert found["columns"].tolist() == [1] * 3
    table = grid(tmp_path / "all", MEANS | {("fedgta", 5): 0.7})
    found = leaderboard.averages(table, table.spec.panels[0])
    assert found["rank"].to_dict() == {"FedGTA": 1.75, "Local": 2.0, "FedAvg": 2.25}
    assert found["std"]["Local"] == pytest.approx(2**0.5)
    assert found["firsts"].to_dict() == {"FedGTA": 1, "Local": 1, "FedAvg": 0}
    text = leaderboard.markdown(table)
    assert "Over 2 columns" in text
    assert "Added to the paper's rows: FedGTA." in text
    assert "it wants 5 seeds, and this protocol has 3 (fedlog_splits has 5)." in text
    assert "There is no column yet" in leaderboard.markdown(grid(tmp_path / "none", {("local", 3): 0.5}))


def test_the_interval_of_a_mean_is_students_whichever_std_is_printed() -> None:
    runs = [0.71, 0.74, 0.72, 0.79]
    inside = ttest_1samp(runs, 0).confidence_interval(0.95)
    for ddof in (0, 1):
        assert leaderboard._half(results.stat(runs, ddof), ddof) == pytest.approx((inside.high - inside.low) / 2)


def test_a_row_that_lacks_a_column_has_no_average_rank(tmp_path: Path) -> None:
    """FedGTA has both columns, Local one, where it is the best: a rank over that one alone would be its average."""
    means = {("fedgta", 3): 0.7, ("fedgta", 5): 0.7, ("fedavg", 3): 0.6, ("fedavg", 5): 0.8, ("local", 3): 0.9}
    table = grid(tmp_path, means)
    found = leaderboard.averages(table, table.spec.panels[0])
    assert found["rank"].to_dict() == {"FedGTA": 1.5, "FedAvg": 1.5}
    assert found["firsts"].to_dict() == {"FedGTA": 1, "FedAvg": 1}


def test_means_of_equal_counts_share_a_rank(tmp_path: Path) -> None:
    """463, 459 and 464 right ones of 560 are as many as 456, 470 and 460; their means differ in the last bit."""
    counts = {"fedgta": (463, 459, 464), "fedavg": (456, 470, 460), "local": (400, 400, 400)}
    means = {name: sum(n / 560 for n in three) / 3 for name, three in counts.items()}
    assert means["fedgta"] != means["fedavg"]
    table = grid(tmp_path, {(name, clients): mean for name, mean in means.items() for clients in (3, 5)})
    found = leaderboard.standings(table, table.spec.panels[0], "cora", 3)
    assert [standing.rank for standing in found] == [1.5, 1.5, 3]
    assert leaderboard.averages(table, table.spec.panels[0])["rank"].to_dict()["FedAvg"] == 1.5


def test_it_is_drawn(tmp_path: Path) -> None:
    table = grid(tmp_path, MEANS)
    [path] = charts.save(lambda figure: leaderboard.draw(figure, table), "title", tmp_path, "board", ("svg",))
    drawn = path.read_text()
    assert "rank, mean and std over columns" in drawn
    assert leaderboard.ADDED.lower() in drawn.lower()
