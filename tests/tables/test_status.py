"""What is told of how much is recorded rests on the keys of runs, which are named once and kept."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from fgl_repro.cli import request, table
from fgl_repro.config import search, searched
from fgl_repro.runs import tuning
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import needs, status
from fgl_repro.tables.load import load
from fgl_repro.tables.remembered import version_of_options
from support import helpers

TUNED = ("opfgl/figranks", "opfgl_tuned")


@pytest.mark.parametrize(("name", "protocol"), [("fedlog/9", "fedlog"), ("fedlog/fig3", "fedlog_matched"), TUNED])
def test_a_plan_needs_what_composing_every_run_says(name: str, protocol: str, tmp_path: Path) -> None:
    spec, store = load(name), RecordStore(tmp_path / "records")
    plan = status.Plan(**json.loads(json.dumps(asdict(status.plan(spec, protocol)))))
    composed = needs.needed(spec, protocol, store)
    assert plan.needed(Archive(store, {})) == {key: run.runtime.curves for key, run in composed.items()}


def test_what_tuning_chose_is_needed_once_its_candidates_are_there(tmp_path: Path) -> None:
    spec = load(TUNED[0]).under(TUNED[1]).narrow(datasets=["cora"], methods=["fedavg"])
    plan, store = status.plan(spec, TUNED[1]), RecordStore(tmp_path / "records")
    candidates = tuning.candidate_configs(needs.firsts(spec, TUNED[1])[0])
    assert plan.counts(Archive(store, {})) == (0, len(candidates))
    for number, run in enumerate(candidates):
        store.save(helpers.record(run, probes={"validation": 0.5 + (number == 3) / 10}))
    archive = Archive(store, {})
    assert set(plan.needed(archive)) == set(needs.needed(spec, TUNED[1], archive))
    assert plan.counts(archive) == (len(candidates), len(plan.needed(archive)))
    assert len(plan.needed(archive)) == len(candidates) + len(spec.seeds)


@pytest.fixture
def _no_further_folders() -> object:
    yield
    searched.clear()


@pytest.mark.usefixtures("_no_further_folders")
def test_plans_are_kept_until_code_or_yaml_files_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FGL_CACHE", str(tmp_path / "cache"))
    made: list[str] = []
    real = request.plan
    monkeypatch.setattr(request, "plan", lambda spec, protocol: made.append(spec.name) or real(spec, protocol))
    first = request.plans("fedsage", [])["fedsage"]
    count = len(made)
    assert count == len(first) > 0
    again = request.plans("fedsage", [])["fedsage"]
    assert len(made) == count
    assert [each.runs for each in again] == [each.runs for each in first]
    monkeypatch.setattr(request, "version_of_options", lambda folder: "another")
    request.plans("fedsage", [])
    assert len(made) == 2 * count
    (tmp_path / "own").mkdir()
    search(tmp_path / "own")
    for _ in range(2):
        request.plans("fedsage", [])
    assert len(made) == 4 * count


def test_the_version_of_options_is_that_of_code_and_yaml_files(tmp_path: Path) -> None:
    (tmp_path / "method").mkdir()
    (tmp_path / "method" / "mine.yaml").write_text("lr: 0.1\n", encoding="utf-8")
    before = version_of_options(tmp_path)
    assert version_of_options(tmp_path) == before
    (tmp_path / "method" / "mine.yaml").write_text("lr: 0.2\n", encoding="utf-8")
    assert version_of_options(tmp_path) != before


GOOD = """title: Mine
seeds: [0]
partitioner: metis
datasets: [cora]
clients: [3]
protocols: [fedlog_matched]
rows: [{id: fedavg, method: fedavg, name: FedAvg}]
panels: {a: {title: Seen, setting: seen_graph, probe: seen_graph}}
"""


@pytest.mark.usefixtures("_no_further_folders")
def test_the_list_names_what_is_wrong_with_a_yaml_and_shows_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "own" / "table" / "mine"
    folder.mkdir(parents=True)
    written = {"1": GOOD, "2": "title: [", "3": GOOD.replace("cora]", "coraa]")}
    written["4"] = GOOD.replace("name: FedAvg", "name: FedAvg, overrides: {method.rate: 1}")
    for name, text in written.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    where = ["--config-dir", str(tmp_path / "own"), "--records", str(tmp_path), "--results", str(tmp_path)]
    assert table.main(["list", "mine", *where]) == 2
    said = capsys.readouterr()
    assert [line.split("|")[-2].strip() for line in said.out.splitlines()[2:]] == ["0 of 1"]
    assert table.main(["list", "mine", *where, "--csv"]) == 2
    head, line = capsys.readouterr().out.splitlines()
    assert head == "table,protocol,what,recorded,wanted"
    assert line.startswith("mine/1,")
    assert line.endswith(",0,1")
    assert table.main(["list", "fedlog/12", "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith(",0,0"), "it is about data"
    two, three, four = said.err.splitlines()
    assert f"{folder / '2.yaml'} cannot be read" in two
    assert f"{folder / '3.yaml'} cannot be used: datasets.0 is coraa" in three
    assert "mine/4 cannot be run: method.rate does not exist" in four


@pytest.mark.usefixtures("_no_further_folders")
def test_a_site_says_which_tables_of_ones_own_it_has_no_page_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    yaml = tmp_path / "own" / "table" / "mine" / "1.yaml"
    yaml.parent.mkdir(parents=True)
    yaml.write_text(GOOD, encoding="utf-8")
    monkeypatch.setattr("fgl_repro.web.site.check", lambda: None)
    monkeypatch.setattr("fgl_repro.web.site.build", lambda *_: tmp_path / "index.html")
    where = ["--config-dir", str(tmp_path / "own"), "--records", str(tmp_path), "--results", str(tmp_path)]
    where += ["--tables", str(tmp_path / "tables")]
    assert table.main(["site", "mine", *where]) == 0
    assert "the site has no page of mine/1: 'fgl-table compare mine/1' writes it" in capsys.readouterr().err
    written = tmp_path / "tables" / "mine" / "fedlog_matched" / "table_1.csv"
    written.parent.mkdir(parents=True)
    written.touch()
    assert table.main(["site", "mine", *where]) == 0
    assert capsys.readouterr().err == ""
