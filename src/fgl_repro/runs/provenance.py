"""Where a record came from: versions, git state, time. Not part of a run's identity."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgl_repro import __version__
from fgl_repro.config import AXES, Config, cell_of, conf_dir, digest, key_of, science
from fgl_repro.core.lazy import torch
from fgl_repro.core.registry import PACKAGES
from fgl_repro.data.catalog import rebuilt
from fgl_repro.runs.code import code_of
from fgl_repro.runs.record import Note, Record

if TYPE_CHECKING:
    from torch import device as Device

LIBRARIES = ("torch", "torch-geometric", "numpy", "scipy", "pymetis", "hydra-core")


@cache
def versions() -> dict[str, str]:
    """Collect the versions of this package, of Python and of the packages that can change a number."""
    found = {"fgl_repro": __version__, "python": platform.python_version(), "cpu": _cpu()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def gpu_of(device: Device, deterministic: bool) -> dict[str, str]:
    """Return the GPU's name, its CUDA and whether sums were asked to have one order, as further versions.

    Nothing for a CPU, where sums always have one.
    """
    if device.type != "cuda":
        return {}
    order = {"deterministic": str(deterministic).lower()}
    return {"gpu": torch.cuda.get_device_name(device), "cuda": str(torch.version.cuda)} | order


def options_digest(config: Config) -> str:
    """Return a digest, 12 hex digits, of the code in the files that the run's options are written in.

    Those of their bases are among them. Whoever edits a method and forgets its ``revision`` is told so by the digest;
    comments and docstrings may change. Options of a notebook have no file.
    """
    return _digest_of(config, AXES)


def data_digest(config: Config) -> str:
    """Return the same of the data set alone, whose graph is cached whatever becomes of its file."""
    return _digest_of(config, ("dataset",))


def edited(record: Record, config: Config) -> bool:
    """Tell whether the code of a run's options has changed since it was recorded, as far as the record tells.

    Older records have digests of whole files, comments and all.
    """
    now = None, options_digest(config), _digest_of(config, AXES, whole=True)
    return record.versions.get("options") not in now


def advice_on_edit(record: Record, config: Config, force: str) -> str:
    """Say what to do where the code of a run's options has changed since it was recorded.

    The text is empty where none have.

    Args:
        force: What has a run computed again. That takes the cached graph, which may not be what a data set of one's own
            gives since it was edited; of an announced one it is, or the run is refused.
    """
    if not edited(record, config):
        return ""
    what = "the code of its options has changed since it was recorded, and it was not computed again"
    data = config.dataset
    same = data_digest(config), _digest_of(config, ("dataset",), whole=True)
    if data.known is not None or data.announced or record.versions.get("dataset") in same:
        return f"{what}: {force} does that."
    graph = f"where {data.name} gives another graph since, raise revision in its class"
    return f"{what}: {graph}; otherwise {force} does that, on the cached graph."


def mixed_graphs(records: Iterable[Record]) -> str:
    """Tell, in one sentence, where runs of one data set were made on different graphs; empty where none were.

    A rebuild, whose last digits are the machine's own, is left out.
    """
    found: dict[str, dict[str, str]] = {}
    for record in records:
        dataset = record.config["dataset"]
        if not rebuilt(dataset["name"]):
            found.setdefault(digest(dataset), {})[record.data["fingerprint"]] = dataset["name"]
    mixed = [
        f"{next(iter(names.values()))} ({', '.join(each[:8] for each in sorted(names))})"
        for names in found.values()
        if len(names) > 1
    ]
    if not mixed:
        return ""
    fix = "raise the data set's revision, or keep its runs in another folder of records"
    return f"Runs of one data set were made on different graphs, {'; '.join(mixed)}: {fix}."


def _digest_of(config: Config, axes: Iterable[str], whole: bool = False) -> str:
    return _text(frozenset(kind.__module__ for axis in axes for kind in type(getattr(config, axis)).__mro__), whole)


@cache
def _text(modules: frozenset[str], whole: bool) -> str:
    files = sorted({path for name in modules for path in _files(name)})
    texts = {"/".join(path.parts[-2:]): path.read_text(encoding="utf-8") for path in files}
    return digest(texts if whole else {name: code_of(text) for name, text in texts.items()})[:12]


def _files(module: str) -> Iterable[Path]:
    """Find the file of an option's module; of an option that is a package, as ``methods.opfgl``, all its files."""
    home = next((each for each in PACKAGES.values() if module.startswith(f"{each}.")), "")
    file = getattr(sys.modules[module], "__file__", None)
    if file is None or (module.startswith(__package__.partition(".")[0] + ".") and not home):
        return []
    path = Path(file)
    return path.parent.glob("*.py") if home and module.count(".") > home.count(".") + 1 else [path]


def _cpu() -> str:
    """Name the processor: another may round differently.

    A virtual machine may hide its name, not its family.
    """
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        first = ""
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    name = facts.get("model name") or platform.processor() or platform.machine()
    return (
        f"{name} (family {facts['cpu family']}, model {facts['model']})"
        if {"cpu family", "model"} <= {*facts}
        else name
    )


@cache
def git_state() -> dict[str, Any]:
    """Return the commit of sources and yaml files, and whether any of them differ from it or are new to git.

    Both are None outside a checkout.
    """
    here = Path(__file__).parents[1]

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(here), *args], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    sha = git("rev-parse", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=normal", "--", str(here), str(conf_dir()))
    return {"sha": sha, "dirty": bool(changed) if sha else None}


def note_of(config: Config) -> Note:
    """Note what is known of a run before it starts: who it is, and where it comes from."""
    return Note(
        key=key_of(config),
        cell=cell_of(config),
        config=science(config),
        protocol=config.protocol.name,
        versions=versions() | {"options": options_digest(config), "dataset": data_digest(config)},
        git=git_state(),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
    )
