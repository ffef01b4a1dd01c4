"""The notebook to begin with runs from its first cell to its last."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, cache: Path, real_graph: Callable[..., Any]) -> None:
    for name in ("nbmake", "ipykernel"):
        pytest.importorskip(name, reason=f"{name} is not installed: it is one of the extra dev")
    real_graph("cora")
    shutil.copy(ROOT / "docs" / "first_run.ipynb", tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "FGL_CACHE": str(cache), "HOME": str(tmp_path)}
    environment |= {"FGL_RECORDS": str(tmp_path / "records"), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "--nbmake", "--rootdir", ".", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, "first_run.ipynb"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert len(list((tmp_path / "records").glob("*.json"))) == 4
