"""The scripts beside the tables: what they say follows from the records they read."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fgl_repro.config import Config, key_of
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from fgl_repro.runs.execute import Outcome
from fgl_repro.runs.store import RecordStore
from fgl_repro.tables.reference import percent
from support import helpers

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(autouse=True)
def _beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script finds what scripts share in its own folder."""
    monkeypatch.syspath_prepend(str(SCRIPTS))


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def keep(store: RecordStore, best: float, **choices: Any) -> None:
    run = helpers.config(protocol="fedlog_matched", **choices)
    store.save(helpers.record(run, best=best))


def test_splits_count_printed_means_within_their_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All probes have one accuracy, so mean and spread are known: 84 and 2; printed 84.16, 54.03, 39.0, 35.83."""
    store = RecordStore(tmp_path / "records")
    for split, accuracy in enumerate((0.82, 0.86)):
        keep(store, overrides={"protocol.split_seed": split}, best=accuracy)
    words = ["fedlog_splits.py", "--recorded", "--clients", "3", "--splits", "0,1,2", "--settings", "seen_graph"]
    monkeypatch.setattr(sys, "argv", [*words, "--records", str(store.folder), "--results", str(tmp_path)])
    assert script("fedlog_splits").main() == 0
    table = pd.read_csv(tmp_path / "fedlog/fedlog_matched/splits.csv").set_index(["panel", "selection"])
    for panel, file, probe in (("seen graph", "1", "seen_graph"), ("unseen nodes", "2a", "unseen_node")):
        row = table.loc[panel, "best"]
        assert (row["splits"], row["mean"], row["std"], row["lowest"], row["highest"]) == (2, 84, 2, 82, 86)
        paper = percent(f"fedlog/table_{file}.csv", probe, ("cora", 3, "FedAvg"))
        assert paper is not None
        assert row["printed"] == pytest.approx(paper, abs=0.005)
        assert row["agrees"] == (abs(84 - paper) <= 4)
    assert set(table["agrees"]) == {True, False}
    assert (tmp_path / "fedlog/fedlog_matched/splits.png").exists()
    assert "unseen nodes" in capsys.readouterr().out


def test_splits_without_runs_name_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fedlog_splits.py", "--recorded", "--records", str(tmp_path / "none")])
    with pytest.raises(UserError, match="leave out --recorded"):
        script("fedlog_splits").main()


def test_against_paper_averages_what_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = RecordStore(tmp_path)
    for seed, accuracy in ((0, 0.6), (1, 0.7)):
        keep(store, seed=seed, overrides={"protocol.lr": 0.5}, best=accuracy)
    words = ["fedlog_against_paper.py", "--methods", "fedavg", "--seeds", "0,1", "--protocol", "fedlog_matched"]
    monkeypatch.setattr(sys, "argv", [*words, "--records", str(tmp_path), "protocol.lr=0.5"])
    assert script("fedlog_against_paper").main() == 0
    last = capsys.readouterr().out.splitlines()[-1].split()
    tables = (("1", "seen_graph"), ("2a", "unseen_node"), ("2b", "missing_class"), ("2c", "new_client"))
    paper = [percent(f"fedlog/table_{t}.csv", s, ("cora", 3, "FedAvg")) for t, s in tables]
    gaps = [abs(65 - value) for value in paper if value is not None]
    assert last[:5] == ["lr=0.5", *["65.0"] * 4]
    assert float(last[5]) == pytest.approx(np.mean(gaps), abs=0.06)


def test_rules_that_select_a_round() -> None:
    """A lone peak, a broad hill and a client with all missing-class nodes each have a rule that prefers them."""
    selection = script("fedlog_selection")
    pooled = np.array([0.1, 0.9] + 9 * [0.1] + 12 * [0.6] + 4 * [0.2])
    first, second = pooled[::-1].copy(), pooled.copy()
    curves = {"validation": pooled, "validation/0": first, "validation/1": second}
    curves |= {name: np.linspace(0, 1, len(pooled)) for name in selection.PANELS}
    record = helpers.record(helpers.config())
    record.metrics["missing_class"]["last"] = replace(helpers.measured(0.5), counts=[7, 0])
    found = selection.rounds(record, curves, np.full(4, 0.5))
    assert found == {"best": 1, "slipped": 25, "smoothed": 17, "last": 26, "nearest": 13}
    assert selection.latest_best(np.array([1.0, 2.0, 2.0])) == 2


def test_a_last_digit_is_the_next_number(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {"W": torch.tensor([[1.0, -2.0, 0.0, 3e-5]] * 50), "b": torch.zeros(3)}
    found = script("last_digit").moved(weights, 1)
    above, below = (torch.nextafter(weights["W"], torch.tensor(to)) for to in (torch.inf, -torch.inf))
    other = weights["W"] != 0
    assert torch.where(other, (found["W"] == above) | (found["W"] == below), found["W"] == 0).all()
    assert (found["W"] == above)[other].any()
    assert (found["W"] == below)[other].any()
    assert torch.equal(found["b"], weights["b"])
    assert not torch.equal(found["W"], script("last_digit").moved(weights, 2)["W"])


def test_moved_runs_stand_beside_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], toy_graph: Graph
) -> None:
    """One whose loss tells whether it began with the first run's weights."""
    store = RecordStore(tmp_path)
    store.save(helpers.record(run := helpers.config(), best=0.8))
    module = script("last_digit")

    def execute(config: Config) -> Outcome:
        weights = config.method.start(config.model.of_data(toy_graph), config.seed).weights
        if not begun:
            begun.append(weights)
        same = all(torch.equal(weights[name], begun[0][name]) for name in weights)
        return Outcome(helpers.record(config, best=0.8 if same else 0.7), {"loss": [0.5, 0.25 if same else 1.25]})

    begun: list[Any] = []
    monkeypatch.setattr(module, "execute", execute)
    words = [key_of(run)[:8], "--times", "2", "--rounds", "2", "--records", str(tmp_path), "--results", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["last_digit.py", *words])
    assert module.main() == 0
    lines = {line[:28].strip(): line[28:].split() for line in capsys.readouterr().out.splitlines()[2:]}
    assert lines["loss, round 1"] == ["0.500000", "+0.000000", "+0.000000"]
    assert lines["loss, round 2"] == ["0.250000", "+1.000000", "+1.000000"]
    assert lines["seen_graph, best"] == ["80.00", "-10.00", "-10.00"]


@pytest.mark.parametrize(("name", "division"), [("cora", "published"), ("photo", "recomputed")])
def test_stored_divisions_are_those_that_the_released_code_draws(
    real_graph: Callable[..., Graph], name: str, division: str
) -> None:
    """By Metis, whose library is here; that the published ones come out is what the others are trusted for."""
    divisions, graph = script("opfgl_divisions"), real_graph(name, "raw", "whole")
    drawn = divisions.divide(graph, "metis", 10)
    assert divisions.stored_division(graph, "metis", 10, drawn) == f"{division}, to the bit"
    drawn[1][0] = (drawn[1][0] + 1) % 3
    assert divisions.stored_division(graph, "metis", 10, drawn) == f"none of {division}"
    assert divisions.stored_division(graph, "metis", 7, drawn) == "none is stored"


def test_clusters_are_near_the_best_ones_and_pieces_are_dealt_by_size() -> None:
    divisions = script("opfgl_divisions")
    np.random.seed(1)
    points = np.concatenate([np.full((5, 2), 0.1), np.full((4, 2), 0.5), np.full((3, 2), 0.9)])
    found = divisions.clusters(points + np.random.random(points.shape) / 100, 3)
    assert [len(set(found[part].tolist())) for part in (slice(5), slice(5, 9), slice(9, 12))] == [1, 1, 1]
    assert len(set(found.tolist())) == 3
    assert divisions.dealt([[1] * 5, [2] * 30, [3] * 7], 30) == [[2] * 30, [3] * 7 + [1] * 5]


def test_the_page_of_methods_is_what_their_files_say() -> None:
    module = script("catalogue")
    assert module.PAGE.read_text(encoding="utf-8") == module.text(), "write it again: python scripts/catalogue.py"
