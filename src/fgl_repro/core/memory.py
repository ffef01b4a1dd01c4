"""What a run needs of memory: the megabytes (10^6) that are taken before it begins, and the most that ever are."""

from __future__ import annotations

import ctypes
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def begin(device: torch.device) -> float:
    """Forget the peak of earlier runs and give back what they have freed; return the megabytes still taken.

    Where the system can do neither (no Linux), the peak stays that of all runs which the process has made.
    """
    if device.type == "cuda":
        # Without it a process that has put nothing on a GPU yet is told that there is no such device.
        torch.cuda.init()  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()  # runs of other processes on the same GPU can have it
        torch.cuda.reset_peak_memory_stats(device)
        return round(torch.cuda.memory_allocated(device) / 1e6, 1)
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    with suppress(OSError):
        _RESET.write_text("5")
    return _of_process("VmRSS")


def peak(device: torch.device) -> float:
    """Return the most megabytes since :func:`begin`: of the GPU's allocator, or of this process."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
    return _of_process("VmHWM")


def _of_process(name: str) -> float:
    """Read a line of the process's status; elsewhere than on Linux the peak, which is all that is known."""
    if _STATUS.exists():
        found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
        if found:
            return round(int(found[1]) * 1024 / 1e6, 1)
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)
