"""Stands in for Slurm in tests: ``sbatch``, ``srun``, ``sacct`` and ``scancel``, by the name it is called by.

Tasks of an array run as processes here, as many at a time as the array says. ``FAKE_SLURM`` names a folder, where
``jobs`` has a copy of every batch file and ``cancelled`` the numbers that were cancelled.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(os.environ.get("FAKE_SLURM", "."))
COMMANDS = ("sbatch", "srun", "sacct", "scancel")


def install(folder: Path) -> str:
    """Make the commands in ``folder``; returns a ``PATH`` that begins with it."""
    folder.mkdir()
    for name in COMMANDS:
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} "$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def sbatch(file: str) -> None:
    (FOLDER / "jobs").mkdir(exist_ok=True)
    number = 100 + len(list((FOLDER / "jobs").iterdir()))
    shutil.copy(file, FOLDER / "jobs" / str(number))
    nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen([sys.executable, __file__, "work", str(number)], start_new_session=True, **nowhere)
    print(f"Submitted batch job {number}")


def work(number: str) -> None:
    """What Slurm's daemons do with a batch file."""
    file = FOLDER / "jobs" / number
    array = re.search(r"^#SBATCH --array=0-(\d+)%(\d+)$", file.read_text(), flags=re.M)
    last, at_a_time = map(int, array.groups()) if array else (0, 1)

    def run(task: int) -> None:
        if number in _cancelled():
            return
        of_array = {"SLURM_ARRAY_JOB_ID": number, "SLURM_ARRAY_TASK_ID": str(task)} if array else {}
        told = {"SLURM_JOB_ID": number, "SLURM_NTASKS": "1", "SLURM_JOB_NUM_NODES": "1", "SLURM_NODEID": "0"}
        told |= {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", **of_array}
        subprocess.run(["bash", str(file)], env={**os.environ, **told}, stderr=subprocess.DEVNULL)

    with ThreadPoolExecutor(at_a_time) as pool:
        list(pool.map(run, range(last + 1)))


def srun(*words: str) -> None:
    command = list(words)
    while command[0].startswith("-"):
        del command[: 2 if command[0] in ("--output", "--error") else 1]
    os.execvp(command[0], command)


def sacct(*_: str) -> None:
    print("JobID|State|NodeList")


def scancel(*numbers: str) -> None:
    with open(FOLDER / "cancelled", "a") as file:
        file.writelines(f"{number}\n" for number in numbers)


def _cancelled() -> list[str]:
    path = FOLDER / "cancelled"
    return path.read_text().split() if path.exists() else []


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
