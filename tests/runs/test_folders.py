"""Where runs are looked for when nobody says where, and one run by the beginning of its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgl_repro.core.errors import UserError
from fgl_repro.runs.folders import RESULTS, RunFolders, default_results
from support.helpers import some


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


def test_a_run_is_found_by_all_digits_that_are_given(tmp_path: Path) -> None:
    folders = RunFolders(tmp_path / "records", tmp_path / "results")
    records = some(2)
    for record in records:
        folders.store.save(record)
    assert folders.find(records[0].key[:12]) == records[0]
    assert folders.find(records[0].key) == records[0]
    for key, what in (("zz", "no run"), ("", "2 runs"), (records[0].key[:16] + "zz", "no run")):
        with pytest.raises(UserError, match=what):
            folders.find(key)
