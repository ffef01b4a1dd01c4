"""The old rule: agreement of one number, ranks of a column."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fgl_repro.tables import agreement, reference
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.load import load
from fgl_repro.tables.reference import Reference
from fgl_repro.tables.results import Grid, Result, Stat


def ours(mean: float, std: float | None = 0.0) -> Stat:
    return Stat(mean, std, 3)


@pytest.mark.parametrize(
    ("theirs", "mine", "points", "stds", "old_rule"),
    [
        (Reference(0.80, 0.0, ""), ours(0.82), 2.0, None, "agrees"),
        (Reference(0.80, 0.0, ""), ours(0.8201), 2.01, None, "differs"),
        (Reference(0.80, 0.03, ""), ours(0.74, 0.03), -6.0, -2.0, "agrees"),
        (Reference(0.80, 0.03, ""), ours(0.739, 0.03), -6.1, -2.0333333, "differs"),
        (Reference(0.80, 0.05, ""), ours(0.87, 0.0), 7.0, 1.979899, "agrees"),
        (Reference(0.80, None, ""), ours(0.83, 0.02), 3.0, 1.5, "agrees"),  # the one std that there is
        (Reference(0.80, None, ""), ours(0.841, 0.02), 4.1, 2.05, "differs"),
        (Reference(0.80, 0.02, ""), ours(0.83, None), 3.0, 1.5, "agrees"),
        (Reference(0.80, None, ""), ours(0.83, None), 3.0, None, "differs"),
        (Reference(0.80, 0.0, "suspect: copied"), ours(0.80), 0.0, None, "suspect"),
        (Reference(0.80, 0.0, ""), None, None, None, "not run"),
        (None, ours(0.8), None, None, "not printed"),
    ],
)
def test_verdicts(theirs, mine, points, stds, old_rule) -> None:
    found = agreement.difference(theirs, mine)
    assert found.old_rule == old_rule
    assert found.points == (None if points is None else pytest.approx(points))
    assert found.stds == (None if stds is None else pytest.approx(stds))


def test_what_rests_on_the_ddof_of_print_is_counted() -> None:
    """Three runs of 0.72, 0.75 and 0.78 have a std of 3.0 points with ddof 1 and 2.4 with ddof 0."""
    spec = load("table1").narrow(["cora"], [3], ["local"])
    (cell,) = spec.cells()
    printed = reference.of(cell)
    assert printed is not None
    assert (printed.mean, printed.std) == (0.7357, 0.0030)
    for gap, changes in ((0.0190, 0), (0.0385, 1), (0.0450, 0)):  # two pooled stds: 4.26 and 3.49 points
        result = Result(Stat(printed.mean + gap, 0.03, 3), None, 3, "complete")
        table = Grid(spec, "fedlog", "best", 1, {cell: result})
        assert agreement.resting_on_ddof(table, [cell]) == changes
        assert agreement.resting_on_ddof(replace(table, results={cell: replace(result, best=None)}), [cell]) == 0


def test_a_method_has_one_place_in_a_column_however_many_variants_it_has() -> None:
    spec = load("fedsage/2")
    first, second = (row for row in spec.rows if row.name == "FedSage+")
    (panel, *_), (place, *_) = spec.panels, spec.places
    means = {"FedSage": 0.85, "FedSage+": 0.9, "LocSage": 0.7, "LocSage+": 0.75, "GlobSage": 0.8}
    found = {
        cell: Result(Stat(means[cell.row.name], 0.01, 5), None, 5, "complete")
        for cell in (Cell(panel, row, *place) for row in spec.rows)
    }
    blank = Result(None, None, 5, "not run")
    table = Grid(replace(spec, datasets=place[:1], clients=place[1:], panels=(panel,)), "fedsage", "best", 0, found)
    (column,) = agreement.columns(table, "best")
    assert column.methods == len({row.name for row in spec.rows}) < len(spec.rows)
    other = {Cell(panel, second, *place): Result(Stat(0.1, 0.01, 5), None, 5, "complete")}
    (again,) = agreement.columns(replace(table, results=found | other), "best")
    assert again == column
    (moved,) = agreement.columns(replace(table, results=found | other | {Cell(panel, first, *place): blank}), "best")
    assert moved.methods == column.methods
    assert (moved.tau or 0) < (column.tau or 0)


def test_ranks() -> None:
    assert agreement.tau([(1, 1), (2, 2), (3, 3)]) == pytest.approx(1)
    assert agreement.tau([(1, 3), (2, 2), (3, 1)]) == pytest.approx(-1)
    assert agreement.tau([(1, 1), (2, 3), (3, 2)]) == pytest.approx(1 / 3)
    assert agreement.tau([(1, 1), (2, 2), (2, 3)]) == pytest.approx(2 / 6**0.5)  # tau-b, with a tie on one side
    assert agreement.tau([(1, 1), (1, 2)]) is None  # the paper's side is constant
    assert agreement.tau([(1, 1)]) is None
    assert agreement.tau([(1, 0.1 + 0.2), (2, 0.3), (3, 0.4)]) == pytest.approx(2 / 6**0.5)  # one number, two floats
    assert agreement.same_winner([(0.5, 0.1), (0.4, 0.9)]) is False
    assert agreement.same_winner([(0.5, 0.9), (0.4, 0.1)]) is True
    assert agreement.same_winner([(0.5, 0.1), (0.5, 0.9)]) is True  # tied in the paper
    assert agreement.same_winner([(0.5, 0.1)]) is None
