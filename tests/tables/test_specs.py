"""Every table and figure that is shipped: its yaml composes, its runs exist, its printed numbers are found."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from fgl_repro.cli import request
from fgl_repro.config import GROUPS, build, key_of, science
from fgl_repro.core import registry as scan
from fgl_repro.core.errors import UserError
from fgl_repro.data.catalog import printed_as
from fgl_repro.runs.store import RecordStore
from fgl_repro.tables import load as loading
from fgl_repro.tables import needs, reference, results
from fgl_repro.tables.added import with_rows
from fgl_repro.tables.artifact import folder_of, make
from fgl_repro.tables.entries import ACCURACY, Cell, Row
from fgl_repro.tables.load import load, names, parse
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.swept import rows_by_line, swept

NAMES = names()
SPECS = [pytest.param(load(name), id=name) for name in NAMES]


def test_names_are_in_the_order_of_numbers() -> None:
    assert NAMES[:3] == ["fedlog/1", "fedlog/2", "fedlog/3"]
    assert NAMES.index("fedpub/5a") + 1 == NAMES.index("fedpub/5b") < NAMES.index("fedpub/7a")
    assert NAMES.index("fedlog/9") < NAMES.index("fedlog/10") < NAMES.index("fedlog/fig1") < NAMES.index("fedlog/fig10")


@pytest.mark.parametrize(
    ("short", "name"),
    [
        ("table1", "fedlog/1"),
        ("fedlog-table3", "fedlog/3"),
        ("fig9", "fedlog/fig9"),
        ("fedlog-fig9", "fedlog/fig9"),
        ("fedpub-7a", "fedpub/7a"),
        ("fedpub7a", "fedpub/7a"),
        ("fedpubfig1", "fedpub/fig1"),
        ("fedsaged1", "fedsage/D1"),
        ("fedsage-tabled1", "fedsage/D1"),
    ],
)
def test_short_names(short: str, name: str) -> None:
    assert load(short) is load(name)
    assert load(name).name == name


@pytest.mark.parametrize("spec", SPECS)
def test_runs_can_be_composed_and_rows_are_told_apart(spec: TableSpec) -> None:
    if len(list(spec.cells())) > 100:  # each combination takes Hydra a while
        spec = spec.narrow(datasets=spec.datasets[-1:], clients=spec.clients[:1], seeds=spec.seeds[:1])
    spec = replace(spec, absent={})
    for protocol in spec.protocols:
        runs = needs.runs(spec, protocol)
        cells = [(f"{cell.row.id} {cell.panel.model}", cell.dataset, cell.clients) for cell in spec.planned()]
        alone = {f"{row.id} None" for row in spec.rows if "partitioner.clients" in row.overrides}  # one for all columns
        cells = [(row, dataset, 0 if row in alone else clients) for row, dataset, clients in cells]
        distinct = {(*cell, seed) for cell in cells for seed in spec.seeds}
        worlds = {cell.panel.setting.removesuffix("_by_class") for cell in spec.cells()} & {
            "open_set",
            "imbalance",
            "plain",
            "global_graph",
            "links",
        }
        assert len({key_of(run) for run in runs}) == len(distinct), f"two rows of {spec.name} are one run"
        assert {run.setting.world for run in runs} <= {"closed_set", *worlds}
        assert all((run.runtime.curves == "all") == (spec.curves == "all") for run in runs)


@pytest.mark.parametrize("spec", [pytest.param(load(n), id=n) for n in NAMES if load(n).rows])
def test_the_command_of_a_run_is_that_run(spec: TableSpec) -> None:
    *_, cell = spec.cells()
    for protocol in spec.protocols:
        run = spec.config(cell, protocol, spec.seeds[-1])
        said = dict(word.split("=", 1) for word in shlex.split(request.command_of(run)) if "=" in word)
        groups = {name: value for name, value in said.items() if name in GROUPS}
        assert science(build({n: v for n, v in said.items() if n not in groups}, **groups)) == science(run)


@pytest.mark.parametrize("spec", SPECS)
def test_kind_exists_and_printed_numbers_are_found(spec: TableSpec) -> None:
    if spec.kind != ACCURACY:
        assert callable(scan.find("fgl_repro.tables.kinds", spec.kind, "content", "kind"))
    for cell in spec.cells():
        if cell.panel.reference:
            name = spec.options.get("printed", cell.row.name)
            renamed = replace(cell, row=replace(cell.row, name=name))
            assert reference.of(renamed) is not None or without_number(renamed), cell
    if "reference" in spec.options:
        assert reference.lines(spec.options["reference"])
    if spec.proposed:
        assert spec.proposed in {line["method"] for line in reference.lines(spec.panels[0].reference.file)}


def without_number(cell: Cell) -> bool:
    """Whether the paper prints a word (out of memory) where the number of a cell would stand."""
    assert cell.panel.reference
    named = printed_as(cell.dataset).lower()
    said = {"dataset": named, "n_clients": str(cell.clients), "metric": cell.panel.reference.metric, "value": ""}
    lines = reference.lines(cell.panel.reference.file)
    found = [line for line in lines if all(line[name].lower() == text for name, text in said.items())]
    return any(line["method"] == cell.row.name and line["note"].startswith(("OOM", "N/A")) for line in found)


def test_a_candidate_cannot_overwrite_what_makes_a_row() -> None:
    spec = load("fedvn/2").narrow(datasets=["motif_basis"])
    with pytest.raises(UserError, match=r"fedvn_tuned tunes method\.nodes, which row fedvn-single of fedvn/2 sets"):
        needs.candidate_runs(spec, "fedvn_tuned")
    assert len(needs.candidate_runs(spec.narrow(methods=["fedvn-release"]), "fedvn_tuned")) == 6


def test_drawings_have_columns_of_what_is_at_hand() -> None:
    assert load("opfgl/19").drawn == [("cora", 10), ("citeseer", 10)]
    assert load("opfgl/13").drawn == load("opfgl/13").places, "of none of its data sets are there files"


def test_figures_say_that_they_are_our_reading() -> None:
    figures = [load(name) for name in NAMES if "fig" in name]
    assert len(figures) >= 6
    unprinted = [spec for spec in figures if not spec.options.get("reference")]
    assert all("this is how we read it" in spec.note for spec in unprinted)


def test_narrowing_keeps_what_a_difference_needs_or_leaves_it_blank() -> None:
    spec = load("table7").narrow(methods=["fedlog-half"])
    assert [row.id for row in spec.rows] == ["fedlog-half"]
    with pytest.raises(UserError, match="choose from fedlog, fedlog-degree, fedlog-half"):
        load("table7").narrow(methods=["fedavg"])


GRID = """
title: Two rows
columns: panels
rows:
  - {name: a, id: fedlog-half, method: fedlog, overrides: {method.alpha: half}}
  - {name: b, id: fedlog-degree, method: fedlog, overrides: {method.alpha: degree}}
differences: {b minus a: [fedlog-degree, fedlog-half]}
datasets: [cora]
clients: [3]
seeds: [0, 1]
panels:
  7a: {like: seen_graph, reference: {file: fedlog/table_7.csv, rows: variant}}
"""


def written(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / "fedlog" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("columns: panels", "columns: rows", "columns is rows: input should be 'clients' or 'panels'"),
        ("[fedlog-degree, fedlog-half]", "[fedlog-half]", "give two of the rows fedlog-half, fedlog-degree"),
        ("id: fedlog-degree", "id: fedlog-half", "two rows are the same method and variant"),
        ("fedlog-degree, fedlog-half]", "fedlog-degree, fedlog-none]", "give two of the rows"),
        ("name: b, ", "name: a, ", "two rows have one name and variant: give each a name of its own"),
        ("seeds: [0, 1]", "seeds: [0.5]", "seeds.0 is 0.5: input should be a valid integer"),
        ("seeds: [0, 1]", "seeds: [0, 0, 0]", "seeds is [0, 0, 0]: give at least one, each once"),
        ("seeds: [0, 1]", "seeds: []", "seeds is []: give at least one, each once"),
        ("seeds: [0, 1]", "seeds: [true]", "seeds.0 is True: input should be a valid integer"),
        ("clients: [3]", "clients: [0]", "clients.0 is 0: input should be greater than or equal to 1"),
        ("datasets: [cora]", "datasets: cora", "datasets is cora: input should be a valid list"),
        ("datasets: [cora]", "datasets: [coral]", "datasets.0 is coral: choose from"),
        ("datasets: [cora]", "datasets: []", "give at least one"),
        ("title: Two rows", "title: Two rows\nmetric: roc", "metric is roc: choose from accuracy"),
        ("title: Two rows", "title: Two rows\ncolour: red", "it has no use for colour: it may have"),
        ("title: Two rows", "title: Two rows\npaper: ../../evil", "it has no use for paper"),
        ("title: Two rows", "title: Two rows\npath: ../../evil", "it has no use for path"),
        ("title: Two rows", "title: 7", "title is 7: input should be a valid string"),
        ("title: Two rows", "title: Two rows\nkind: pie", "There is no kind=pie; choose one of"),
        ("title: Two rows", "title: Two rows\nlike: mine", "which is no other table of that folder"),
        ("title: Two rows", "title: Two rows\nprotocols: [best]", "protocols.0 is best: choose from"),
        ("{like: seen_graph, ", "{like: unseen, ", "panel 7a is like unseen"),
        ("name: b, ", "name: b, nme: c, ", "it has no use for rows.1.nme: it may have name, method, overrides, id"),
        ("method: fedlog, overrides: {method.alpha: half}", "method: fedlg", "rows.0.method is fedlg: choose from"),
        ("{like: seen_graph, ", "{like: [seen_graph], ", "panel 7a is like ['seen_graph']"),
        (
            "[fedlog-degree, fedlog-half]",
            "[[fedlog-degree], fedlog-half]",
            "minus a.0 is ['fedlog-degree']: input",
        ),
        ("{method.alpha: half}", "{seed: 3}", "override seed is of no axis: begin it with one of dataset"),
        ("title: Two rows", "title: Two rows\nproposed: c", "proposed is c: choose one of its rows, a, b"),
        ("title: Two rows", "title: Two rows\nrepeats: '9'", "repeats is 9: name a table that stands beside it"),
        (
            "title: Two rows",
            "title: Two rows\nsweep: {method.tau: 1}",
            "sweep.method.tau is 1: input should be",
        ),
        ("title: Two rows", "- Two rows", "cannot be read"),
        ("title: Two rows", "note: &self [*self]\ntitle: Two rows", "cannot be read"),
    ],
)
def test_mistakes_in_a_yaml_are_one_sentence_with_the_file(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert parse(written(tmp_path, GRID, "good")).seeds == (0, 1)
    assert old in GRID
    path = written(tmp_path, GRID.replace(old, new))
    with pytest.raises(UserError) as caught:
        parse(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_what_the_tables_of_a_paper_share_is_mappings(tmp_path: Path) -> None:
    path = written(tmp_path, GRID)
    for text in ("rows: {fedavg: 3}", "panels: {seen_graph: null}"):
        (path.parent / "_paper.yaml").write_text(text)
        with pytest.raises(UserError, match=r"_paper.yaml cannot be used: \w+.\w+ is \w+: input should be a"):
            parse.__wrapped__(path)


def test_what_a_kind_lacks_is_one_sentence_with_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, GRID + "kind: at_rounds\n")
    with pytest.raises(UserError, match=rf"{path} lacks options.rounds, which its kind needs"):
        make(parse(path), "fedlog", RecordStore(tmp_path / "none"))
    path = written(tmp_path, GRID + "kind: sensitivity\noptions: {axis: method.tau, label: tau}\n", "fixed")
    with pytest.raises(UserError, match=rf"{path} does not sweep method.tau, which runs across: give sweep its values"):
        make(parse(path), "fedlog", RecordStore(tmp_path / "none"))
    path = written(tmp_path, GRID.replace("rows: variant", "rows: nope"), "other")
    with pytest.raises(UserError, match=r"fedlog/table_7.csv has no column nope: choose from"):
        make(parse(path), "fedlog", RecordStore(tmp_path / "none"))
    path = written(tmp_path, "{title: None, kind: bars, rows: [], panels: {}, datasets: [cora], clients: [3]}", "bare")
    with pytest.raises(UserError, match="a table of kind bars needs rows and panels"):
        make(parse(path), "fedlog", RecordStore(tmp_path / "none"))


def test_an_override_may_be_a_list(tmp_path: Path) -> None:
    spec = parse(written(tmp_path, GRID.replace("{method.alpha: half}", "{protocol.split: [0.6, 0.2, 0.2]}")))
    assert spec.config(next(spec.cells()), "fedlog", 0).protocol.split == [0.6, 0.2, 0.2]
    spec = parse(written(tmp_path, GRID.replace("{method.alpha: half}", "{protocol.split: [.nan, 1, 0]}"), "nan"))
    with pytest.raises(UserError, match="must be three shares"):
        spec.config(next(spec.cells()), "fedlog", 0)


def test_two_tables_never_share_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = loading.folders()
    monkeypatch.setattr(loading, "folders", lambda: [*ours, tmp_path])
    written(tmp_path, GRID)
    assert load("fedlog/mine").partitioner == "published", "what the paper's tables share holds for a user's, too"
    assert "fedlog/mine" in names()
    for name in ("7", "table7", "Fig9"):
        path = written(tmp_path, GRID, name)
        loading._paths.cache_clear()
        with pytest.raises(UserError, match=r"would overwrite the files of .*: give its yaml another name"):
            names()
        path.unlink()
    loading._paths.cache_clear()


def test_a_sweep_is_every_combination_of_a_row() -> None:
    row = Row("", "fedpub", {"method.variant": "paper"})
    found = swept(row, {"method.tau": [1.0, 2.0], "setting.rate": [-1, 0]})
    assert [r.name for r in found] == [f"tau = {t}, rate = {r}" for t in (1.0, 2.0) for r in (-1, 0)]
    assert found[1].overrides == {"method.variant": "paper", "method.tau": 1.0, "setting.rate": 0}
    assert found[0].id == "fedpub-paper-tau=1.0-rate=-1"


def test_several_rows_keep_their_names_when_they_are_swept(tmp_path: Path) -> None:
    text = "\n".join(line for line in GRID.splitlines() if not line.startswith("differences"))
    two = parse(written(tmp_path, text + "\nsweep: {protocol.lr: [0.1, 0.2]}\n", "two"))
    assert [row.name for row in two.rows] == ["a, lr = 0.1", "a, lr = 0.2", "b, lr = 0.1", "b, lr = 0.2"]
    found = {line.name: [row.overrides["protocol.lr"] for row in own] for line, own in rows_by_line(two).items()}
    assert found == {"a": [0.1, 0.2], "b": [0.1, 0.2]}
    narrow = two.narrow(methods=["fedlog-degree-lr=0.2"])
    assert {line.name: [row.id for row in own] for line, own in rows_by_line(narrow).items()} == {
        "b": ["fedlog-degree-lr=0.2"]
    }
    assert two.narrow(methods=["fedlog-degree"]).rows == two.rows[2:], "a line is called by its id, too"
    lines = "\n".join(line for line in text.splitlines() if "fedlog-degree" not in line)
    one = parse(written(tmp_path, lines + "\nsweep: {protocol.lr: [0.1, 0.2]}\n", "one"))
    assert [row.name for row in one.rows] == ["lr = 0.1", "lr = 0.2"], "what is swept is enough to tell them apart"


def test_a_method_added_to_a_sweep_is_swept() -> None:
    wider = with_rows(load("fedvn/figrates"), ["fedprox"])
    assert wider.added_rows == tuple(f"fedprox-lr={rate}" for rate in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3))
    assert [row.id for row in wider.rows][-6:] == list(wider.added_rows)
    assert wider.rows[-1].overrides == {"protocol.lr": 0.3}
    assert folder_of(wider, "fedvn_heldout") == Path("fedvn+fedprox/fedvn_heldout")
    with pytest.raises(UserError, match="has a row local already"):
        with_rows(wider, ["local"])


def test_a_protocol_that_draws_splits_says_which_seeds_its_tables_run() -> None:
    spec = load("fedlog/1")
    assert {protocol: part.seeds for part, protocol in spec.by_protocol()} == {
        "fedlog": (0, 1, 2),
        "fedlog_matched": (0, 1, 2),
        "fedlog_tuned": (0, 1, 2),
        "fedlog_splits": (1, 2, 3, 4, 5),
    }
    part = spec.under("fedlog_splits")
    seeds = [config.split.seed for config in needs.runs(part.narrow(["cora"], [3], ["fedavg"]), "fedlog_splits")]
    assert seeds == [1, 2, 3, 4, 5]


def test_panels_of_one_table_may_have_metrics_of_their_own() -> None:
    spec = load("opfgl/1")
    assert [spec.metric_name(panel) for panel in spec.panels] == ["accuracy", "f1"]
    ours = [Cell(panel, spec.rows[-1], "cora", 10) for panel in spec.panels]
    printed = [reference.of(cell) for cell in ours]
    assert [(round(100 * p.mean, 2), round(100 * (p.std or 0), 2)) for p in printed if p] == [
        (76.43, 1.24),
        (61.58, 2.16),
    ]


ABSENT = """
title: Half of it
datasets: [cora, arxiv]
absent: {arxiv: no raw files}
clients: [3]
seeds: [0]
rows: [local]
panels: {1a: seen_graph}
"""


def test_a_data_set_that_is_absent_stays_blank_unless_it_is_named(tmp_path: Path) -> None:
    spec = parse(written(tmp_path, ABSENT))
    nothing = RecordStore(tmp_path / "records")
    assert {run.dataset.name for run in needs.runs(spec, "fedlog")} == {"cora"}
    filled = results.fill(spec, "fedlog", nothing)
    assert {cell.dataset: found.status for cell, found in filled.results.items()} == {
        "cora": "not run",
        "arxiv": "no data",
    }
    made = make(spec, "fedlog", nothing)
    assert "Left blank: ogbn-arxiv (no raw files)." in made.page
    assert "Left blank: ogbn-arxiv (no raw files)." in made.screen
    named = spec.narrow(datasets=["arxiv"])
    assert [run.dataset.name for run in needs.runs(named, "fedlog")] == ["arxiv"]
    assert named.blank == ""
    with pytest.raises(UserError, match="absent names pubmed, which datasets does not"):
        parse(written(tmp_path, ABSENT.replace("{arxiv:", "{pubmed:"), "other"))


MODELS = """
title: Two of them
datasets: [cora]
clients: [3]
seeds: [0]
rows: [local, {name: FedLoG, method: fedlog, model: sage, panel_model: graphsage}]
panels:
  1a: {like: seen_graph, model: graphsage}
  1b: {like: seen_graph, model: gat}
"""


def test_a_row_of_one_model_has_no_runs_in_the_panels_of_others(tmp_path: Path) -> None:
    spec = parse(written(tmp_path, MODELS))
    assert [run.model.name for run in needs.runs(spec, "fedlog")] == ["graphsage", "sage", "gat"]
    filled = results.fill(spec, "fedlog", RecordStore(tmp_path / "records"))
    assert {(cell.row.method, cell.panel.name): found.status for cell, found in filled.results.items()} == {
        ("local", "1a"): "not run",
        ("local", "1b"): "not run",
        ("fedlog", "1a"): "not run",
        ("fedlog", "1b"): "no data",
    }
    with pytest.raises(UserError, match="row fedlog is for panels of model sgc: there are none of it"):
        parse(written(tmp_path, MODELS.replace("panel_model: graphsage", "panel_model: sgc"), "other"))


def test_what_no_paper_prints_has_no_drawing_of_gaps(tmp_path: Path) -> None:
    nothing = RecordStore(tmp_path / "records")
    assert make(load("opfgl/1"), "opfgl", nothing).content.draw is not None
    assert make(load("opfgl/messages"), "opfgl", nothing).content.draw is None
