"""Tables of a user's own: what a yaml may leave out, and what is said where something is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fgl_repro.config import compose, search, yamls
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import artifact, kinds, needs
from fgl_repro.tables.kinds import common, gamma
from fgl_repro.tables.load import KINDS, parse
from fgl_repro.tables.spec import TableSpec
from support import helpers

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "adding.md"
FILES = Path(kinds.__file__).parent

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


def test_f1_is_asked_for_only_where_runs_measure_it(conf: Path) -> None:
    """Said before anything has run."""
    spec = own_table(conf, "accuracy", more="metric: f1\n")
    told = "panel a of few/1 asks for metric f1, which runs measure under protocol.average=nodes alone, and fedlog has"
    with pytest.raises(UserError, match=told):
        needs.runs(spec, "fedlog")
    assert needs.runs(replace(spec, protocols=("opfgl",)), "opfgl")


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


@pytest.mark.parametrize(
    ("kind", "options"),
    [("alike", "{}"), ("virtual_nodes", "{curve: decoupling, label: loss}")],
)
def test_the_advice_on_runs_that_do_not_tell_names_the_folder_too(
    kind: str, options: str, conf: Path, tmp_path: Path
) -> None:
    spec, store = own_table(conf, kind, options), RecordStore(tmp_path / "records")
    store.save(helpers.record(spec.config(next(spec.cells()), "fedlog", 0)), {"decoupling": [0.1]})
    assert f"`fgl-table run few/1 --config-dir {conf}" in artifact.make(spec, "fedlog", Archive(store, {})).content.body


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("bytes", "{}"),
        ("rounds_to", "{target: 0.8}"),
        ("at_rounds", "{rounds: [1]}"),
        ("facts", "{facts: {accuracy: accuracy}}"),
        ("one_client", "{client: 0, classes: {0: first}}"),
        ("distances", "{nodes: all}"),
        ("gamma", "{client: 0}"),
        ("alike", "{}"),
    ],
)
def test_a_table_of_ones_own_needs_no_printed_numbers(
    kind: str, options: str, conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gamma, "training_nodes", lambda *_: [5, 27])
    made = artifact.make(own_table(conf, kind, options), "fedlog", Archive(RecordStore(tmp_path / "records"), {}))
    assert made.content.rows
    assert "paper" not in made.content.body
    assert "print" not in made.content.body


@pytest.mark.parametrize("kind", ["counts", "owners", "subgraphs", "statistics"])
def test_a_table_about_data_needs_none_either(
    kind: str, conf: Path, toy_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "graph_of", lambda *_: toy_graph)
    monkeypatch.setattr(common, "_WORLDS", {})
    monkeypatch.setattr(common, "kept", lambda config, graph, what, compute: compute())
    options = "{setting: plain, scenarios: {disjoint: {partitioner: random, clients: [2]}}}"
    made = artifact.make(own_table(conf, kind, options), "fedlog", Archive(RecordStore("nowhere"), {}))
    assert made.content.done > 0
    assert "paper" not in made.content.body
    assert "rinted" not in made.content.body
    if kind == "counts":
        assert sum(row["count"] for row in made.content.rows if row["client"] == "Global") == toy_graph.num_nodes
        assert "unseen_node" not in made.content.body, "the setting has no such nodes"


def test_without_graph_and_print_there_is_an_empty_table(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "world_of", lambda config: None)
    made = artifact.make(own_table(conf, "counts"), "fedlog", Archive(RecordStore("nowhere"), {}))
    assert (made.content.done, made.content.wanted) == (0, 1)
    assert "The graph cannot be had here." in made.page


def rows_of_the_guide() -> dict[str, str]:
    """The options of each kind, as the guide tells them."""
    lines = re.findall(r"^\| `(\w+)` \| [^|]+ \|([^|]*)\|$", GUIDE.read_text(encoding="utf-8"), flags=re.M)
    return {kind: options for kind, options in lines if kind != "kind"}


def test_the_guide_names_every_kind_of_table_and_its_options() -> None:
    told = rows_of_the_guide()
    assert set(told) == set(registry.having(KINDS, "content"))
    pattern = r"(?:spec\.option|options\.get)\(\"(\w+)\"|\"(\w+)\" in spec\.options"
    read = {
        kind: {a or b for a, b in re.findall(pattern, (FILES / f"{kind}.py").read_text(encoding="utf-8"))}
        for kind in [*told, "common"]
    }
    every = set().union(*read.values())
    for kind, options in told.items():
        named = set(re.findall(r"`(\w+)`", options))
        assert read[kind] <= named <= every, kind
        if "common.example(" in (FILES / f"{kind}.py").read_text(encoding="utf-8"):
            assert "setting" in named, kind


def test_the_figure_of_the_guide_is_one(conf: Path) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), flags=re.M | re.S)
    (text,) = [block for block in blocks if "kind: curves" in block]
    path = conf / "table" / "few" / "fig1.yaml"
    path.write_text(text.replace("fedshrunk", "fedprox"))
    spec = parse(path)
    assert {config.runtime.curves for config in needs.runs(spec, spec.protocols[0])} == {"all"}
