"""Hydra's launchers and sweepers of the extra ``launchers``: they install beside what is pinned, and run."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgl_repro.runs.store import RecordStore

ROOT = Path(__file__).parents[2]
TWO_BY_TWO = ("method=local,fedavg", "seed=0,1")
SWEEPS = {
    "hydra/launcher=joblib": ("hydra.launcher.n_jobs=2", *TWO_BY_TWO),
    "hydra/launcher=ray": TWO_BY_TWO,
    "hydra/launcher=submitit_local": TWO_BY_TWO,
    "hydra/sweeper=optuna": (
        "hydra.sweeper.n_trials=4",
        "hydra.sweeper.n_jobs=1",
        "hydra.sweeper.direction=maximize",
        "protocol.lr=interval(0.001,0.1)",
    ),
}


@pytest.mark.network
@pytest.mark.slow
def test_the_extra_installs_beside_what_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["launchers"]]
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "-c", "constraints.txt", *wanted]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if "(from versions: none)" in done.stderr:
        pytest.skip("no package index")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("engine", SWEEPS)
def test_four_jobs(engine: str, tmp_path: Path, cache: Path, real_graph: Callable[..., Any]) -> None:
    group, name = engine.split("=")
    plugin = f"hydra_{name.removesuffix('_local')}_{group.removeprefix('hydra/')}"
    pytest.importorskip(f"hydra_plugins.{plugin}", reason=f"{plugin} is not installed: see the extra launchers")
    real_graph("cora")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "FGL_CACHE": str(cache)}
    command = [sys.executable, "-m", "fgl_repro.train", "-m", engine, *SWEEPS[engine]]
    command += ["protocol.rounds=2", "logger=disabled", f"paths.records={tmp_path / 'records'}"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert len(RecordStore(tmp_path / "records").files()) == 4
