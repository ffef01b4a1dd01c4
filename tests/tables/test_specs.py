"""Every table and figure that is shipped: its yaml composes, its runs exist, its printed numbers are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgl_repro.cli import request
from fgl_repro.config import GROUPS, build, key_of, science
from fgl_repro.core import registry as scan
from fgl_repro.core.errors import UserError
from fgl_repro.tables import compare
from fgl_repro.tables import results as tables
from fgl_repro.tables import spec as tablespec
from fgl_repro.tables.spec import ACCURACY, Row, TableSpec, swept

NAMES = tablespec.names()
SPECS = [pytest.param(tablespec.load(name), id=name) for name in NAMES]


def test_names_are_in_the_order_of_numbers() -> None:
    assert NAMES[:3] == ["table1", "table2", "table3"]
    assert NAMES.index("fedpub5a") + 1 == NAMES.index("fedpub5b") < NAMES.index("fedpub7a")
    assert NAMES.index("table9") < NAMES.index("table10") < NAMES.index("fig1") < NAMES.index("fig10")


@pytest.mark.parametrize("spec", SPECS)
def test_runs_can_be_composed_and_rows_are_told_apart(spec: TableSpec) -> None:
    if len(list(spec.cells())) > 100:  # each combination takes Hydra a while
        spec = spec.narrow(datasets=spec.datasets[-1:], clients=spec.clients[:1], seeds=spec.seeds[:1])
    for protocol in spec.protocols:
        runs = tables.runs(spec, protocol)
        cells = [(cell.row.id, cell.dataset, cell.clients) for cell in spec.cells()]
        alone = {row.id for row in spec.rows if "partitioner.clients" in row.overrides}  # one run for all columns
        cells = [(row, dataset, 0 if row in alone else clients) for row, dataset, clients in cells]
        distinct = {(*cell, seed) for cell in cells for seed in spec.seeds}
        worlds = {cell.panel.setting for cell in spec.cells()} & {"open_set", "imbalance", "plain", "global_graph"}
        assert len({key_of(run) for run in runs}) == len(distinct), f"two rows of {spec.name} are one run"
        assert {run.setting.world for run in runs} <= {"closed_set", *worlds}
        assert all((run.runtime.curves == "all") == spec.curves for run in runs)
    assert spec.sort == ("figure" if "fig" in spec.name else "table")
    assert spec.name.endswith(spec.table.lower())


@pytest.mark.parametrize("spec", [pytest.param(tablespec.load(n), id=n) for n in NAMES if tablespec.load(n).rows])
def test_the_command_of_a_run_is_that_run(spec: TableSpec) -> None:
    *_, cell = spec.cells()
    for protocol in spec.protocols:
        run = spec.config(cell, protocol, spec.seeds[-1])
        said = dict(word.split("=", 1) for word in request.command_of(run).split() if "=" in word)
        groups = {name: value for name, value in said.items() if name in GROUPS}
        assert science(build({n: v for n, v in said.items() if n not in groups}, **groups)) == science(run)


@pytest.mark.parametrize("spec", SPECS)
def test_kind_exists_and_printed_numbers_are_found(spec: TableSpec) -> None:
    if spec.kind != ACCURACY:
        assert callable(scan.find("fgl_repro.tables.kinds", spec.kind, "content", "kind"))
    for cell in spec.cells():
        if cell.panel.reference:
            assert compare.printed(cell) is not None, cell
    if "reference" in spec.options:
        assert compare.printed_lines(spec.options["reference"])
    if spec.proposed:
        assert spec.proposed in {line["method"] for line in compare.printed_lines(spec.panels[0].reference)}


def test_figures_say_that_they_are_our_reading() -> None:
    figures = [tablespec.load(name) for name in NAMES if "fig" in name]
    assert len(figures) >= 6
    unprinted = [spec for spec in figures if not spec.options.get("reference")]
    assert all("this is how we read it" in spec.note for spec in unprinted)


def test_narrowing_keeps_what_a_difference_needs_or_leaves_it_blank() -> None:
    spec = tablespec.load("table7").narrow(methods=["fedlog-half"])
    assert [row.id for row in spec.rows] == ["fedlog-half"]
    with pytest.raises(UserError, match="choose from fedlog, fedlog-degree, fedlog-half"):
        tablespec.load("table7").narrow(methods=["fedavg"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("columns: panels", "columns: rows", "columns: rows"),
        ("  degree-based minus 0.5: [fedlog-degree, fedlog-half]\n", "  x: [fedlog-half]\n", "cannot be read"),
        ("id: fedlog-degree", "id: fedlog-half", "lacks 'fedlog-degree'"),
        ("fedlog-degree, fedlog-half]", "fedlog-degree, fedlog-none]", "fedlog-none"),
    ],
)
def test_mistakes_in_a_yaml_are_one_sentence(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (tablespec._folder() / "table7.yaml").read_text()
    assert old in text
    path = tmp_path / "wrong.yaml"
    path.write_text(text.replace(old, new))
    with pytest.raises(UserError, match=said) as caught:
        tablespec.parse("wrong", path)
    assert "\n" not in str(caught.value)


def test_a_sweep_is_every_combination_of_one_row(tmp_path: Path) -> None:
    row = Row("FedPub", "fedpub", {"method.variant": "paper"})
    found = swept(row, {"method.tau": [1.0, 2.0], "setting.rate": [-1, 0]})
    assert [r.name for r in found] == [f"tau = {t}, rate = {r}" for t in (1.0, 2.0) for r in (-1, 0)]
    assert found[1].overrides == {"method.variant": "paper", "method.tau": 1.0, "setting.rate": 0}
    assert found[0].id == "fedpub-paper-tau=1.0-rate=-1"
    text = (tablespec._folder() / "fig1.yaml").read_text()
    path = tmp_path / "wrong.yaml"
    path.write_text(text.replace("sweep:", "  - {name: Local, method: local}\nsweep:"))
    with pytest.raises(UserError, match="sweep needs one row, not 2"):
        tablespec.parse("wrong", path)
