"""``fgl-train`` in a process of its own, with ``fake_run`` in place of training; ``call`` and ``start`` start it.

``FAKE_FULL`` is a number of records after which the disk is full, as far as they are concerned; ``FAKE_READ_ONLY``, if
it is set, makes their folder one that cannot be written. ``FAKE_UNNOTED`` is a folder where Hydra has no room for the
words of a job.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from hydra.core import utils

from fgl_repro.runs import claims
from support import fake_run

TESTS = Path(__file__).parents[1]


def call(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it in ``folder``, where ``records`` and ``log`` are."""
    with start(folder, *words, **environment) as process:
        out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """Do as ``call``, and do not wait for its end."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB_", "HYDRA_FULL_ERROR", "FGL_", "FAKE_"))}
    path = os.pathsep.join(str(each) for each in (TESTS.parent / "src", TESTS))
    ours = {"PYTHONPATH": path, "FAKE_LOG": str(folder / "log"), "FGL_RECORDS": str(folder / "records")}
    command = [sys.executable, "-m", "support.fake_train", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, env={**kept, **ours, **environment}, text=True, **pipes)


def _fill_up(records: Path, most: int) -> None:
    real = os.fsync

    def fsync(handle: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{handle}")).name
        if ".json." in name and len(list(records.glob("*.json"))) >= most:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    os.fsync = fsync


def _take(path: Path) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))


def _save_nothing_in(place: str) -> None:
    real = utils._save_config

    def save(config: Any, name: str, folder: Path) -> None:
        if str(folder).endswith(place):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(config, name, folder)

    utils._save_config = save


def main() -> None:
    """Do as ``fgl-train`` does."""
    stand_in = ModuleType("fgl_repro.runs.execute")
    stand_in.execute = fake_run.execute  # type: ignore[attr-defined]
    sys.modules[stand_in.__name__] = stand_in
    if "FAKE_FULL" in os.environ:
        _fill_up(Path(os.environ["FGL_RECORDS"]), int(os.environ["FAKE_FULL"]))
    if "FAKE_READ_ONLY" in os.environ:
        claims.take = _take
    if place := os.environ.get("FAKE_UNNOTED"):
        _save_nothing_in(place)
    from fgl_repro.train import main as train

    train()


if __name__ == "__main__":
    main()
