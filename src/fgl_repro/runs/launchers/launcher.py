"""Where the runs of a sweep are done: ``--launcher``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from fgl_repro.core.errors import UserError
from fgl_repro.core.extras import missing
from fgl_repro.runs.launchers.processes import Processes
from fgl_repro.runs.launchers.workers import Workers
from fgl_repro.runs.store import RecordStore

NEEDED = {"local": "", "ray": "ray", "slurm": "submitit", "submitit_local": "submitit"}
"""Launchers, and the package that each needs."""


@dataclass(frozen=True)
class Launcher:
    """An engine and what it is told.

    Attributes:
        name: ``local`` (processes of this machine), ``ray``, ``slurm``, or ``submitit_local``: as Slurm, but here.
        address: Of a Ray cluster; None: one is started for the sweep.
        slurm: Options of submitit, as ``timeout_min`` and ``slurm_partition``.
    """

    name: str = "local"
    address: str | None = None
    slurm: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in NEEDED:
            raise UserError(f"there is no launcher {self.name}: choose from {', '.join(NEEDED)}.")
        if self.address is not None and self.name != "ray":
            raise UserError("--address is of a Ray cluster: give --launcher ray with it.")
        if self.slurm and NEEDED[self.name] != "submitit":
            raise UserError("--slurm is for --launcher slurm: give that with it.")

    def start(self, jobs: int | None, most: int, store: RecordStore, execute: str) -> Workers:
        """Start workers for ``most`` runs, ``jobs`` at a time (None: one, or what the engine has room for).

        Raises:
            UserError: The engine is not installed, or cannot be reached.
        """
        jobs = jobs and max(1, min(jobs, most))
        if (package := NEEDED[self.name]) and find_spec(package) is None:
            raise missing(package, "launchers", f"--launcher {self.name}")
        if self.name == "local":
            return Processes(jobs or 1, store, execute)
        if self.name == "ray":
            from fgl_repro.runs.launchers.on_ray import OnRay

            return OnRay(jobs, self.address, store, execute)
        from fgl_repro.runs.launchers.on_slurm import OnSlurm

        cluster = "slurm" if self.name == "slurm" else "local"
        return OnSlurm(cluster, jobs, self.slurm, store, execute)


LOCAL: Launcher = Launcher()
