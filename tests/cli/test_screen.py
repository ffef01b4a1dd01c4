"""Tables that are wider than a terminal are shown in parts that lose no number."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_repro.cli import screen
from fgl_repro.tables.printing import grid_text

WORDS = st.text(alphabet="abcd xyz0.5±", min_size=1, max_size=14).map(str.strip).filter(bool)


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("|")]


@given(st.data(), st.integers(2, 7), st.integers(1, 4), st.integers(36, 90))
def test_every_number_is_shown_once_beside_the_name_of_its_row(
    data: st.DataObject, columns: int, count: int, width: int
) -> None:
    heads = [f"h{at}" for at in range(columns)]
    cells = st.lists(WORDS, min_size=columns - 1, max_size=columns - 1)
    rows = [[f"row {at}", *data.draw(cells)] for at in range(count)]
    shown = screen.cut_to_width(grid_text(heads, rows), width)
    assert all(len(line) <= width for line in shown.splitlines())
    found: dict[tuple[str, str], str] = {}
    for part in shown.split("\n\n"):
        (_, *here), _, *lines = rows_of(part)
        for name, *cells in lines:
            for head, cell in zip(here, cells, strict=True):
                assert (name, head) not in found
                found[name, head] = cell
    assert found == {(row[0], head): cell for row in rows for head, cell in zip(heads[1:], row[1:], strict=True)}


def test_a_name_that_leaves_no_room_for_numbers_is_shortened() -> None:
    what = "Clients that differ by the size of graphs, at three times the rate"
    table = grid_text(["what", "runs"], [[what, "3 of 5"]])
    shown = screen.cut_to_width(table, 40)
    assert rows_of(shown)[2] == ["Clients that differ by the…", "3 of 5"]
    assert {len(line) for line in shown.splitlines()} == {40}


def test_where_too_little_of_a_name_would_be_left_the_first_column_names_rows_alone() -> None:
    rows = [["fedvn/figrates", "fedvn_heldout", "165 of 165"]]
    table = grid_text(["table", "protocol", "runs"], rows, numbers_from=2)
    first, second = screen.cut_to_width(table, 36).split("\n\n")
    assert rows_of(first)[0] == ["table", "protocol"]
    assert rows_of(second)[2] == ["fedvn/figrates", "165 of 165"]


def test_text_and_tables_that_fit_stay_as_they_are() -> None:
    text = "A long line | of prose that no terminal has room for\n\n" + grid_text(["a", "b"], [["1", "2"]]) + "\n\nEnd."
    assert screen.cut_to_width(text, 20) == text


def test_tables_are_cut_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = grid_text(["a", "b", "c"], [["x" * 15, "y" * 15, "z" * 15]])
    monkeypatch.setenv("COLUMNS", "40")
    screen.write(table)
    assert capsys.readouterr().out == table + "\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    screen.write(table)
    assert capsys.readouterr().out == screen.cut_to_width(table, 40) + "\n" != table + "\n"
