"""Where a run computes, and the process-wide switches that go with it."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from fgl_repro.core.errors import UserError


def pick_device(name: str, slot: int = 0) -> torch.device:
    """Pick a device by name, or for ``auto`` a GPU if there is one, else the CPU.

    Worker ``slot`` takes GPU ``slot mod n``.

    Args:
        name: One of those that ``runtime.device`` may be.

    Raises:
        UserError: The named device does not exist here.
    """
    count = torch.cuda.device_count()
    if name == "auto":
        return torch.device("cuda", slot % count) if count else torch.device("cpu")
    if name == "cpu":
        return torch.device("cpu")
    index = int(name.partition(":")[2] or 0)
    if index >= count:
        raise UserError(f"runtime.device={name}, but torch sees {count} GPUs here: use runtime.device=cpu or auto.")
    return torch.device("cuda", index)


def prepare(device: torch.device, threads: int, deterministic: bool) -> None:
    """Set threads, precision and determinism, count denormals as zero, and keep freed memory in the process.

    Adam's moments of a weight that has no gradient any more halve until they are denormal, after some hundred small
    batches, and the CPU is ten times slower with such numbers. Where accuracy is concerned they are zero.
    """
    torch.set_flush_denormal(True)  # before torch starts its other threads, which take it over from this one
    torch.set_num_threads(threads)
    if deterministic != torch.are_deterministic_algorithms_enabled():  # the call imports torch's compiler: seconds
        torch.use_deterministic_algorithms(deterministic, warn_only=True)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        # What is about to be overwritten need not be filled before.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_float32_matmul_precision("highest")  # an image's environment may have asked for fewer digits
    if device.type == "cuda":
        torch.cuda.set_device(device)  # or libraries begin the first GPU, too
    _keep_freed_memory()


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has done what it was given, before a clock is read."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Run what is inside on one thread, if wanted: on small tensors, several lose more by waiting than they gain."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if wanted else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _keep_freed_memory() -> None:
    """Tell glibc not to hand gradient-sized blocks back to the system after every step: page faults cost more."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
            libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
