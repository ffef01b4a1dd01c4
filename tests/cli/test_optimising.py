"""A sweeper that chooses settings does so by validation rows, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fgl_repro.cli import multirun
from fgl_repro.config import build
from fgl_repro.core.errors import UserError

SOURCE = str(Path(__file__).parents[2] / "src")
SWEEPER = """
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
class Search(BasicSweeper):
    '''Stands for one that chooses the next job by what the last one returned.'''
"""


def search(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ``fgl-train -m`` with a sweeper that Hydra does not ship."""
    yaml = folder / "own" / "hydra" / "sweeper" / "search.yaml"
    yaml.parent.mkdir(parents=True)
    yaml.write_text("_target_: hydra_plugins.own_search.Search\nmax_batch_size: null\n")
    plugin = folder / "hydra_plugins" / "own_search.py"
    plugin.parent.mkdir()
    plugin.write_text(SWEEPER)
    records = f"paths.records={folder / 'records'}"
    command = [sys.executable, "-m", "fgl_repro.train", "-m", "--config-dir", str(folder / "own")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((SOURCE, str(folder))), "HOME": str(folder)}
    return subprocess.run(
        [*command, "hydra/sweeper=search", records, "logger=disabled", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_no_search_by_test_rows(tmp_path: Path) -> None:
    done = search(tmp_path, "dataset=motif_basis", "partitioner=environment", "setting=plain", "protocol=fedvn")
    assert done.returncode == 2, done.stderr
    told = done.stderr.splitlines()[-1]  # Hydra names the job in a line above
    assert told.startswith("fgl-train: protocol=fedvn chooses rounds by test rows, and Search would choose settings")
    assert not (tmp_path / "records").exists()


def test_validation_rows_may_be_searched_by_and_a_sweep_over_everything_chooses_nothing() -> None:
    graphs = {"dataset": "motif_basis", "partitioner": "environment", "setting": "plain"}
    tested, heldout = (build(protocol=name, **graphs).protocol for name in ("fedvn", "fedvn_heldout"))
    multirun.check_objective("BasicSweeper", tested)
    multirun.check_objective("Search", heldout)
    with pytest.raises(UserError, match="take a protocol that holds rows back"):
        multirun.check_objective("Search", tested)
