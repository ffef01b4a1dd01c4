"""Where runs are looked for when nobody says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgl_repro.runs.folders import RESULTS, default_results


def test_published_runs_are_those_here_or_beside_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, here = tmp_path / "code", tmp_path / "here"
    for folder in (code / "conf", code / "results" / "paper", here):
        folder.mkdir(parents=True)
    monkeypatch.setattr("fgl_repro.runs.folders.conf_dir", lambda: code / "conf")
    monkeypatch.chdir(here)
    assert default_results() == RESULTS, "there are none anywhere"
    (code / "results" / "paper" / "runs.csv").touch()
    assert default_results() == code / "results"
    (here / "results" / "mine").mkdir(parents=True)
    assert default_results() == code / "results", "a folder of tables is none of runs"
    (here / "results" / "mine" / "runs.csv").touch()
    assert default_results() == RESULTS
