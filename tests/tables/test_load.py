"""Tables by name, and what is said where there is none, or where a yaml names what nothing describes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgl_repro.core.errors import UserError
from fgl_repro.tables.load import _read, load, parse

OWN = """
title: Mine
rows: [fedavg]
datasets: [cora]
clients: [3]
seeds: [0]
panels: {"1": seen_graph}
"""


@pytest.mark.parametrize("shared", [None, "name: Mine"])
def test_without_a_paper_yaml_rows_and_panels_are_written_out(tmp_path: Path, shared: str | None) -> None:
    path = tmp_path / "mine" / "1.yaml"
    path.parent.mkdir()
    if shared:
        (path.parent / "_paper.yaml").write_text(shared)
    path.write_text(OWN)
    said = r"rows has fedavg, and no _paper\.yaml says what that is: write \{name: \.\.\., method: fedavg\}\.$"
    with pytest.raises(UserError, match=said):
        parse(path)
    path.write_text(OWN.replace("[fedavg]", "[{name: FedAvg, method: fedavg}]"))
    said = r"panel 1 is like seen_graph, and no _paper\.yaml says what that is: write \{title: \.\.\., setting: "
    parse.cache_clear()
    _read.cache_clear()
    with pytest.raises(UserError, match=said):
        parse(path)


def test_a_row_that_the_paper_does_not_know_may_be_written_out(tmp_path: Path) -> None:
    path = tmp_path / "mine" / "1.yaml"
    path.parent.mkdir()
    (path.parent / "_paper.yaml").write_text("rows: {local: {name: Local, method: local}}")
    path.write_text(OWN)
    said = r"rows has fedavg, which _paper\.yaml does not know: choose from local, or write \{name: "
    with pytest.raises(UserError, match=said):
        parse(path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fedvn", "fedvn is a paper: choose one of fedvn's tables, fedvn/1, fedvn/1_size,"),
        ("FedVN", "FedVN is a paper: choose one of fedvn's tables, fedvn/1,"),
        ("fedvn/99", "there is no table fedvn/99: choose one of fedvn's tables, fedvn/1, fedvn/1_size,"),
        ("fedvnn/3", "there is no table fedvnn/3 (did you mean fedvn/3?): 'fgl-table list' shows those of fedlog,"),
    ],
)
def test_a_table_that_there_is_not(name: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        load(name)
    assert str(caught.value).startswith(said)
