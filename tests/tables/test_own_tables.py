"""Tables of a user's own: what a yaml may leave out, and what is said where something is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fgl_repro.config import compose, search, yamls
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import artifact
from fgl_repro.tables.load import parse
from fgl_repro.tables.spec import TableSpec
from support import helpers

OWN = """
title: T
kind: {kind}
datasets: [cora]
clients: [3]
seeds: [0]
partitioner: published
protocols: [fedlog]
rows: [{{name: FedAvg, method: fedavg}}]
panels: {{a: {{title: P, setting: seen_graph, probe: seen_graph}}}}
options: {options}
"""


@pytest.fixture
def conf(tmp_path: Path) -> Iterator[Path]:
    """A folder of one's own yamls, which is searched, too."""
    searched = list(yamls.searched)
    folder = tmp_path / "conf"
    (folder / "table" / "few").mkdir(parents=True)
    search(folder)
    yield folder
    yamls.searched[:] = searched
    compose.forget()


def own_table(conf: Path, kind: str, options: str = "{}", more: str = "") -> TableSpec:
    path = conf / "table" / "few" / "1.yaml"
    path.write_text(OWN.format(kind=kind, options=options) + more)
    return parse(path)


@pytest.mark.parametrize(
    ("kind", "options", "more", "curves"),
    [
        ("curves", "{}", "", "all"),
        ("curves", "{curve: loss, label: loss}", "", "validation"),
        ("curves", "{}", "curves: validation\n", "validation"),
        ("at_rounds", "{rounds: [1]}", "", "all"),
        ("rounds_to", "{target: 0.8}", "", "all"),
        ("alike", "{}", "", "all"),
        ("virtual_nodes", "{curve: decoupling, label: loss}", "", "all"),
        ("costs", "{quantities: [up]}", "", "none"),
    ],
)
def test_a_table_that_does_not_say_its_curves_has_those_of_its_kind(
    kind: str, options: str, more: str, curves: str, conf: Path
) -> None:
    """Else it would be blank, whatever is run."""
    assert own_table(conf, kind, options, more).curves == curves


@pytest.mark.parametrize(
    ("options", "more", "told"),
    [
        ("{}", "", "1 runs were recorded without curves: `fgl-table run few/1 --config-dir "),
        ("{}", "curves: validation\n", "1 runs were recorded without curves: write `curves: all` in "),
        ("{curve: nothing, label: L}", "", "1 runs trace nothing called nothing: correct options.curve in "),
    ],
    ids=["asked for", "the yaml says others", "traced by none"],
)
def test_the_advice_on_runs_without_curves_is_one_that_works(
    options: str, more: str, told: str, conf: Path, tmp_path: Path
) -> None:
    spec, store = own_table(conf, "curves", options, more), RecordStore(tmp_path / "records")
    run = spec.config(next(spec.cells()), "fedlog", 0)
    store.save(helpers.record(run), {"validation": [0.4, 0.5], "loss": [2.0, 1.0]})
    body = artifact.make(spec, "fedlog", Archive(store, {})).content.body
    assert told in body
    assert "--fresh" not in body, "what is recorded here would be found again"
