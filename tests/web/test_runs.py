"""Where pages find runs."""

from __future__ import annotations

from pathlib import Path

from fgl_repro.web.runs import Runs
from support.helpers import some


def test_two_runs_whose_keys_begin_alike_are_both_there(tmp_path: Path) -> None:
    first, second = some(2)
    second = second.changed(key=first.key[:8] + second.key[8:])
    runs = Runs([("fedlog", first), ("fedlog", second), ("fedpub", first)])
    runs.write(tmp_path, {})
    assert (tmp_path / "all-runs.js").read_text().count(f'"{first.key[:8]}"') == 2, "and the first only once"
    assert set(runs.files([first.key[:8]])) == {first.cell[:12], second.cell[:12]}
    assert runs.files(["0" * 8]) == []
